//! What a database is like, as far as those depend on it who keep a store there.

use std::time::Instant;

use tokio_postgres::{Client, Error};
use tollhouse_base::clock::Clock;

use super::{address::PostgresConfig, error::OpenError, open::connect};

/// How often the clock is asked: the quickest answer says most exactly what it was.
const CLOCK_ASKED: u32 = 5;

/// A server, and the database on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Of the server, as it says it, such as `15.8 (Debian 15.8-0+deb12u1)`.
    pub version: String,
    /// Whether what was committed is on the disk.
    pub fsync: bool,
    /// Whether a page that was half written at a crash is mended.
    pub full_page_writes: bool,
    /// `synchronous_standby_names`: whose disks have a commit before it is answered. Empty where nobody else's has to.
    pub synchronous: String,
    /// Servers that follow it: their names, and `sync`, `quorum`, `potential` or `async`; empty as well where its user may not know.
    pub standbys: Vec<(String, String)>,
    /// Connections that it takes.
    pub connections: u32,
    /// How far this machine's clock is ahead of its, in milliseconds.
    pub ahead_ms: i64,
    /// How far off that may be.
    pub give_or_take_ms: u64,
    /// Whether there is a store in the database.
    pub has_store: bool,
}

/// Asks a database, and changes nothing.
///
/// # Errors
///
/// It cannot be reached, or does not answer.
pub async fn about(config: &PostgresConfig) -> Result<About, OpenError> {
    let client = connect(config).await?;
    told(&client).await.map_err(OpenError::Refused)
}

async fn told(client: &Client) -> Result<About, Error> {
    let settings = client
        .query_one(
            "SELECT current_setting('server_version'), current_setting('fsync', true), current_setting('full_page_writes', true), \
             current_setting('synchronous_standby_names', true), current_setting('max_connections', true), \
             to_regclass('tollhouse_about') IS NOT NULL",
            &[],
        )
        .await?;
    // A database that only speaks as PostgreSQL does has not all of them.
    let setting = |at: usize| settings.try_get::<_, Option<String>>(at).map(Option::unwrap_or_default);
    let standbys = client.query("SELECT application_name, coalesce(sync_state, '') FROM pg_stat_replication ORDER BY 1", &[]).await?;
    let (ahead_ms, give_or_take_ms) = clock(client).await?;
    Ok(About {
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

/// How far this machine's clock is ahead, and how exactly that is known.
async fn clock(client: &Client) -> Result<(i64, u64), Error> {
    let asked = client.prepare("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").await?;
    let mut best = (0, u64::MAX);
    for _ in 0..CLOCK_ASKED {
        let begun = Instant::now();
        let theirs: i64 = client.query_one(&asked, &[]).await?.try_get(0)?;
        let half = u64::try_from(begun.elapsed().as_millis() / 2).unwrap_or(u64::MAX);
        let ours = i64::try_from(Clock::default().now().0.saturating_sub(half)).unwrap_or(i64::MAX);
        if half < best.1 {
            best = (ours - theirs, half);
        }
    }
    Ok(best)
}
