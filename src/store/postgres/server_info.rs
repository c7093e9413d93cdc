//! Describes a database, as far as it matters to a store in it.

use std::time::Instant;

use tokio_postgres::{Client, Error};
use tollhouse_base::{boxed, clock::Clock};

use super::{address::PostgresConfig, error::OpenError, open::connect, reader::NOW};

/// How often the clock is queried. The fastest answer is the most exact.
const CLOCK_ASKED: u32 = 5;

/// A database server and the database on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The server's version in its own words, such as `15.8 (Debian 15.8-0+deb12u1)`.
    pub version: String,
    /// Whether committed data is forced to disk.
    pub fsync: bool,
    /// Whether a page that was half-written at a crash is repaired.
    pub full_page_writes: bool,
    /// The setting `synchronous_standby_names`: the standbys that must store a commit before it is confirmed. Empty if
    /// there are none.
    pub synchronous: String,
    /// Standby servers: their names, and `sync`, `quorum`, `potential` or `async`. Also empty if the database user may
    /// not see them.
    pub standbys: Vec<(String, String)>,
    /// Maximum number of connections.
    pub connections: u32,
    /// How far this machine's clock is ahead of the server's, in milliseconds.
    pub ahead_ms: i64,
    /// The error of that measurement, in milliseconds.
    pub give_or_take_ms: u64,
    /// Whether the database contains a store.
    pub has_store: bool,
}

/// Queries a database without changing it.
#[boxed]
pub async fn about(config: &PostgresConfig) -> Result<ServerInfo, OpenError> {
    let client = connect(config).await?;
    query_info(&client).await.map_err(OpenError::Refused)
}

async fn query_info(client: &Client) -> Result<ServerInfo, Error> {
    let settings = client
        .query_one(
            "SELECT current_setting('server_version'), current_setting('fsync', true), current_setting('full_page_writes', true), \
             current_setting('synchronous_standby_names', true), current_setting('max_connections', true), \
             to_regclass('tollhouse_about') IS NOT NULL",
            &[],
        )
        .await?;
    // A database that is only compatible with PostgreSQL does not have all of these settings.
    let setting = |at: usize| settings.try_get::<_, Option<String>>(at).map(Option::unwrap_or_default);
    let standbys = client.query("SELECT application_name, coalesce(sync_state, '') FROM pg_stat_replication ORDER BY 1", &[]).await?;
    let (ahead_ms, give_or_take_ms) = clock(client).await?;
    Ok(ServerInfo {
        version: settings.try_get(0)?,
        fsync: setting(1)? != "off",
        full_page_writes: setting(2)? != "off",
        synchronous: setting(3)?,
        standbys: standbys.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, Error>>()?,
        connections: setting(4)?.parse().unwrap_or_default(),
        ahead_ms,
        give_or_take_ms,
        has_store: settings.try_get(5)?,
    })
}

/// Measures how far this machine's clock is ahead, and the error of the measurement.
async fn clock(client: &Client) -> Result<(i64, u64), Error> {
    let request = client.prepare(NOW).await?;
    let mut best = (0, u64::MAX);
    for _ in 0..CLOCK_ASKED {
        let started = Instant::now();
        let theirs: i64 = client.query_one(&request, &[]).await?.try_get(0)?;
        let half = u64::try_from(started.elapsed().as_millis() / 2).unwrap_or(u64::MAX);
        let ours = i64::try_from(Clock::default().now().0.saturating_sub(half)).unwrap_or(i64::MAX);
        if half < best.1 {
            best = (ours - theirs, half);
        }
    }
    Ok(best)
}
