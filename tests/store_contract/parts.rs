//! Partitioned tables for the rows in a database. Rows of each kind are vacuumed separately.

use super::{harness::*, postgres::Postgres};

/// Refuses partitioned tables, as a database without them does.
const NO_PARTS: &str = "CREATE FUNCTION refuse_parts() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT 1 FROM pg_event_trigger_ddl_commands() AS c JOIN pg_class AS t ON t.oid = c.objid WHERE t.relkind = 'p') THEN
            RAISE EXCEPTION 'no parts' USING ERRCODE = 'feature_not_supported';
        END IF;
    END $$;
    CREATE EVENT TRIGGER refuse_parts ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse_parts()";

/// Writes a row in each space. Replaces the one of sales, and deletes the one of receipts.
async fn fill(store: &PostgresStore) {
    for space in Space::ALL {
        put(store, space, b"key", b"before").await;
    }
    let changes = vec![Write::put(Space::Sales, b"key", b"now"), Write::delete(Space::Receipts, b"key")];
    store.apply(Batch::of(vec![], changes), Durable).await.unwrap();
    for space in Space::ALL {
        let expected: &[&[u8]] = match space {
            Space::Receipts => &[],
            Space::Sales => &[b"now"],
            _ => &[b"before"],
        };
        let values: Vec<_> = all(store, space).await.into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, expected, "{space:?}");
    }
}

async fn rows(server: &Postgres, table: &str) -> i64 {
    server.count(&format!("SELECT count(*) FROM {table}")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_that_go_again_are_in_tables_of_their_own() {
    let server = Postgres::start();
    let store = at(&server.url()).await;
    fill(&store).await;
    for (space, table) in [
        (Space::Sales, "passing"),
        (Space::Unpaid, "passing"),
        (Space::OpenIntents, "passing"),
        (Space::Accounts, "passing"),
        (Space::Postings, "kept"),
        (Space::Events, "kept"),
        (Space::Sellers, "kept"),
    ] {
        let there = format!("tollhouse_row_{table} WHERE space = {}", space as u8);
        assert_eq!(rows(&server, &there).await, 1, "{there}");
    }
    assert_eq!(rows(&server, "tollhouse_row_passing").await, 14);
    // A commit that writes nothing inserts a row in its own partition for as long as it runs, which
    // leaves a dead row.
    let parts = "pg_class WHERE relname = 'tollhouse_row_passing' AND pg_get_expr(relpartbound, oid) LIKE '%(''-1'',%'";
    assert_eq!(rows(&server, parts).await, 1);
    assert_eq!(rows(&server, "tollhouse_row").await, Space::ALL.len() as i64 - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_has_no_tables_in_parts_holds_the_same() {
    let server = Postgres::start();
    server.sql(NO_PARTS).await;
    let store = at(&server.url()).await;
    fill(&store).await;
    assert_eq!(rows(&server, "pg_class WHERE relname LIKE 'tollhouse_row%' AND relkind IN ('r', 'p')").await, 1);
}
