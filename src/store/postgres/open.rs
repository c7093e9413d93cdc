//! Opens connections and prepares the database.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, Error, error::SqlState};
use tollhouse_base::boxed;

use super::{
    address::{CONNECT_WALL, PostgresConfig},
    error::OpenError,
    error_class::describe,
};

/// Version of the schema that `schema.sql` creates.
const VERSION: i32 = 1;
/// The schema that is created in an empty database.
const SCHEMA: &str = include_str!("schema.sql");
/// Creates the partitioned table first if the database supports it. Not every PostgreSQL-compatible database does. The
/// store works the same without.
const PARTS: &str = include_str!("parts.sql");
/// The table with the schema version.
const ABOUT: &str =
    "CREATE TABLE IF NOT EXISTS tollhouse_about (one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL)";
/// Timeout for connecting, across all addresses of a database.
const OPENING: Duration = Duration::from_secs(3 * CONNECT_WALL.as_secs());
/// Shortest and longest pause before a reconnect, or before a query is repeated.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];
/// Number of attempts if others create the schema at the same time.
const TRIES: u32 = 50;

/// Settings of every connection. Each statement is completed or aborted within this time.
const BOUNDS: &str = "SET statement_timeout = '5s'; SET idle_in_transaction_session_timeout = '5s'; \
                      SET default_transaction_isolation = 'read committed'";
/// How long a statement waits for a row lock of another transaction.
pub(super) const LOCK_TIMEOUT: &str = "SET lock_timeout = '2s'";

/// Plans are made once, while the tables are still empty, and must use the key index anyway. PostgreSQL-compatible
/// databases may not know these settings.
const HINTS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
                     SET plan_cache_mode = force_generic_plan; SET jit = off";

/// Turns off the notices that `IF NOT EXISTS` causes, which would be in the log of every start.
const QUIET: &str = "SET client_min_messages = warning";

/// Connects to a server that accepts writes. The connection ends when the client is dropped.
#[boxed]
pub(super) async fn connect(config: &PostgresConfig) -> Result<Client, OpenError> {
    let opened = timeout(OPENING, async {
        let (client, connection) = config.database.connect(config.tls.clone()).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = describe(&error), "a connection to the database ended");
            }
        });
        client.batch_execute(BOUNDS).await?;
        client.batch_execute(LOCK_TIMEOUT).await?;
        if let Err(error) = client.batch_execute(HINTS).await {
            tracing::debug!(error = describe(&error), "the database does not support the plan settings");
        }
        Ok(client)
    });
    opened.await.map_err(|_| OpenError::Slow(OPENING.as_secs()))?.map_err(OpenError::Connect)
}

/// Creates the schema unless it exists.
pub(super) async fn prepare(config: &PostgresConfig) -> Result<(), OpenError> {
    let mut client = connect(config).await?;
    if let Err(error) = client.batch_execute(QUIET).await {
        tracing::debug!(error = describe(&error), "the database sends notices about tables that exist");
    }
    let mut tries = 0;
    loop {
        match make(&mut client).await {
            Ok(VERSION) => return Ok(()),
            Ok(found) => return Err(OpenError::Newer { found, known: VERSION }),
            Err(error) if tries < TRIES && meets_others(&error) => tries += 1,
            Err(error) => return Err(OpenError::Refused(error)),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates the schema in one transaction. A concurrent host waits for the first. Returns the version that the database
/// has.
async fn make(client: &mut Client) -> Result<i32, Error> {
    client.batch_execute(ABOUT).await?;
    let mut transaction = client.transaction().await?;
    transaction.batch_execute("INSERT INTO tollhouse_about (version) VALUES (0) ON CONFLICT DO NOTHING").await?;
    let found = transaction.query_one("SELECT version FROM tollhouse_about WHERE one FOR UPDATE", &[]).await?.try_get(0)?;
    if found != 0 {
        return Ok(found);
    }
    let parts = transaction.savepoint("parts").await?;
    match parts.batch_execute(PARTS).await {
        Ok(()) => parts.commit().await?,
        Err(error) if is_unknown(&error) => {
            tracing::info!(error = describe(&error), "the database does not support partitioned tables: all rows are in one table");
            parts.rollback().await?;
        }
        Err(error) => return Err(error),
    }
    transaction.batch_execute(SCHEMA).await?;
    transaction.execute("UPDATE tollhouse_about SET version = $1 WHERE one", &[&VERSION]).await?;
    transaction.commit().await?;
    Ok(VERSION)
}

/// Returns whether the database does not support the statement.
fn is_unknown(error: &Error) -> bool {
    error.code().is_some_and(|code| [SqlState::SYNTAX_ERROR, SqlState::FEATURE_NOT_SUPPORTED].contains(code))
}

/// Returns whether others were creating the same schema. The database reports a duplicate table in several ways.
fn meets_others(error: &Error) -> bool {
    let concurrent = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::INTERNAL_ERROR,
    ];
    error.code().is_some_and(|code| concurrent.contains(code))
}
