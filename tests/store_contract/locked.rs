//! Rows that another session has locked, in a real database.

use std::time::{Duration, Instant};

use tollhouse::store::update;

use super::{harness::*, postgres::Postgres};

const PLAN: TablePlan = TablePlan { name: "NUMBERS", space: Space::Builders, prefix: "n/", key: "", index_of: "", followed: false };
const NUMBERS: Table<String, String> = DeclaredTable::new(const { &PLAN }).holding();

/// Minimum and maximum time for a commit that waits for a locked row. A row can stay locked as long
/// as a standby hangs.
const HELD: Duration = Duration::from_secs(8);

/// A session that keeps a row of the store at `address` locked.
struct Session {
    client: tokio_postgres::Client,
}

impl Session {
    async fn holding(address: &str, space: Space, key: &[u8]) -> Self {
        let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("BEGIN").await.unwrap();
        let held = client.query("SELECT key FROM tollhouse_row WHERE space = $1 AND key = $2 FOR UPDATE", &[&(space as i16), &key]).await;
        assert_eq!(held.unwrap().len(), 1, "the row is there");
        Self { client }
    }

    async fn release(self) {
        self.client.batch_execute("ROLLBACK").await.unwrap();
    }
}

fn increment(key: &[u8], from: u8) -> Batch {
    Batch::of(vec![Check::holds(Space::Payments, key, [from])], vec![Write::put(Space::Payments, key, [from + 1])])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locked_row_fails_its_own_commit_alone_and_as_no_conflict() {
    let address = Postgres::shared().schema().await;
    // One connection for each kind, so that waiting commits form one group.
    let mut config = PostgresConfig::new(&address, None).unwrap();
    config.lanes = 1;
    let store = Arc::new(PostgresStore::open(config).await.unwrap());
    let names: Vec<Vec<u8>> = (0..24_u8).map(|n| vec![n]).collect();
    for name in &names {
        put(&*store, Space::Payments, name, &[1]).await;
    }
    for durability in [Durable, Buffered] {
        let value = if durability == Durable { 1 } else { 2 };
        let session = Session::holding(&address, Space::Payments, &names[7]).await;
        let started = Instant::now();
        // The first commit is running when the others come, and waits in vain.
        let commits: Vec<_> = names
            .iter()
            .map(|name| {
                let (store, batch) = (Arc::clone(&store), increment(name, value));
                tokio::spawn(async move { store.apply(batch, durability).await })
            })
            .collect();
        for (n, commit) in commits.into_iter().enumerate() {
            match commit.await.unwrap() {
                Ok(_) => assert_ne!(n, 7),
                Err(error) => assert!(n == 7 && matches!(error, StoreError::LockTimeout(_)), "{n}: {error}"),
            }
        }
        // Only the commit of the locked row waits, and less than `HELD`.
        assert!(started.elapsed() < HELD, "{:?}", started.elapsed());
        assert_eq!(store.get(Space::Payments, &names[7]).await.unwrap(), Some(vec![value]), "nothing of it was written");
        session.release().await;
        store.apply(increment(&names[7], value), durability).await.unwrap();
    }
    // A failed check is still a conflict.
    assert!(matches!(store.apply(increment(&names[7], 1), Durable).await, Err(StoreError::Conflict)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn update_waits_for_a_locked_row_until_its_deadline() {
    let address = Postgres::shared().schema().await;
    let store = at(&address).await;
    NUMBERS.put(&"n".to_owned(), &"0".to_owned()).commit(&store, Durable).await.unwrap();
    let key = all(&store, PLAN.space).await.remove(0).0;
    let add = || async {
        update(&store, Durable, |mut tx| async move {
            let n: u64 = tx.get(&NUMBERS, &"n".to_owned()).await?.unwrap().parse().unwrap();
            tx.put(&NUMBERS, &"n".to_owned(), &(n + 1).to_string());
            tx.answer::<_, StoreError>(n + 1)
        })
        .await
    };
    let session = Session::holding(&address, PLAN.space, &key).await;
    let started = Instant::now();
    let refused = add().await;
    assert!(matches!(refused, Err(StoreError::LockTimeout(_))), "{refused:?}");
    // The deadline is the subject.
    assert!(started.elapsed() > HELD && started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let (added, ()) = tokio::join!(add(), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        session.release().await;
    });
    assert_eq!(added.unwrap(), 1, "once it is free");
}
