//! A connection that reads. It runs many queries at once.

use std::ops::Bound;

use tokio::sync::mpsc;
use tokio_postgres::{Client, Error, Statement, types::ToSql};
use tollhouse_base::{clock::Timestamp, error_chain::full_message};

use super::{address::PostgresConfig, error::OpenError, error_class::describe, open::connect, sizes::SizePart};
use crate::{
    Changes, CommittedChange, CopyPage, Direction, KeyRange, KeyValues, MAX_KEY_BYTES, RowSums, Space, StoreError, Write, changes::numbers,
};

const GET: &str = "SELECT value FROM tollhouse_row WHERE space = $1 AND key = $2";
const KEYS: &str = "FROM tollhouse_row WHERE space = $1 AND key >= $2 AND key < $3 ORDER BY key";
const CHANGES: &str = "SELECT n.number, c.number, c.keys FROM tollhouse_newest AS n \
                       LEFT JOIN tollhouse_change AS c ON c.number > $1 AND c.number <= $2 WHERE n.one ORDER BY c.number";
const SIZES: &str = "SELECT space, part, entries, bytes, version FROM tollhouse_size";
/// The time of the server's clock, in milliseconds.
pub(super) const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Maximum number of rows read at once.
const COPY_ROWS: usize = 1_000;
/// Approximate number of bytes read at once.
const COPY_BYTES: usize = 1024 * 1024;

pub(super) struct ReadConnection {
    client: Client,
    get: Statement,
    /// Forward and backward scans.
    scans: [Statement; 2],
    /// The same scans, with the total bytes of all pairs before each pair.
    summed: [Statement; 2],
    /// Finds the key after a given number of keys.
    nth: Statement,
    count: Statement,
    changes: Statement,
    sizes: Statement,
    now: Statement,
}

impl ReadConnection {
    pub(super) async fn open(config: &PostgresConfig) -> Result<Self, OpenError> {
        let client = connect(config).await?;
        let prepared = async {
            let prepare = async |text: String| client.prepare(&text).await;
            let summed = |order: &str| {
                format!(
                    "SELECT s.key, s.value FROM (SELECT r.key, r.value, sum(octet_length(r.key) + octet_length(r.value)) \
                     OVER (ORDER BY r.key{order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) \
                     - octet_length(r.key) - octet_length(r.value) AS before \
                     FROM tollhouse_row AS r WHERE r.space = $1 AND r.key >= $2 AND r.key < $3 ORDER BY r.key{order} LIMIT $4) AS s \
                     WHERE s.before < $5 ORDER BY s.key{order}"
                )
            };
            Ok::<_, Error>((
                prepare(GET.to_owned()).await?,
                [
                    prepare(format!("SELECT key, value {KEYS} LIMIT $4")).await?,
                    prepare(format!("SELECT key, value {KEYS} DESC LIMIT $4")).await?,
                ],
                [prepare(summed("")).await?, prepare(summed(" DESC")).await?],
                prepare(format!("SELECT key {KEYS} OFFSET $4 LIMIT 1")).await?,
                prepare(format!("SELECT count(*) FROM (SELECT 1 {KEYS} LIMIT $4) AS found")).await?,
                prepare(CHANGES.to_owned()).await?,
                prepare(SIZES.to_owned()).await?,
                prepare(NOW.to_owned()).await?,
            ))
        };
        let (get, scans, summed, nth, count, changes, sizes, now) = prepared.await.map_err(OpenError::Refused)?;
        Ok(Self { client, get, scans, summed, nth, count, changes, sizes, now })
    }

    /// Starts a transaction in which all further queries see one snapshot, however long it takes.
    pub(super) async fn read_only_snapshot(&self) -> Result<(), Error> {
        // The consumer of the rows may be slow.
        self.client.batch_execute("SET idle_in_transaction_session_timeout = 0").await?;
        self.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await
    }

    /// Returns whether the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let row = self.client.query_opt(&self.get, &[&(space as i16), &key]).await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    pub(super) async fn scan(&self, space: Space, range: &KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, Error> {
        let (space, (start, end), limit, bytes) = (space as i16, bounds(range), number(limit), number(range.bytes));
        let mut given: Vec<&(dyn ToSql + Sync)> = vec![&space, &start, &end, &limit];
        let statement = if range.bytes == usize::MAX {
            &self.scans[direction as usize]
        } else {
            given.push(&bytes);
            &self.summed[direction as usize]
        };
        let rows = self.client.query(statement, &given).await?;
        rows.into_iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Counts the keys of a range, up to `some`. If there may be more, returns the last key counted too.
    pub(super) async fn count(&self, space: Space, range: &KeyRange, some: usize) -> Result<(usize, Option<Vec<u8>>), Error> {
        let (space, (start, end), limit) = (space as i16, bounds(range), number(some));
        let before = limit - 1;
        if let Some(row) = self.client.query_opt(&self.nth, &[&space, &start, &end, &before]).await? {
            return Ok((some, Some(row.try_get(0)?)));
        }
        let counted: i64 = self.client.query_one(&self.count, &[&space, &start, &end, &limit]).await?.try_get(0)?;
        Ok((counted.try_into().unwrap_or_default(), None))
    }

    pub(super) async fn changes(&self, after: u64, limit: usize) -> Result<Changes, Error> {
        let (from, to) = (number(after), number(after.saturating_add(limit.try_into().unwrap_or(u64::MAX))));
        let rows = self.client.query(&self.changes, &[&from, &to]).await?;
        let Some(first) = rows.first() else { return Ok(Changes::none(0, true)) };
        let newest = first.try_get::<_, i64>(0)?.cast_unsigned();
        let Some((from, to)) = numbers(after, newest, limit) else { return Ok(Changes::none(newest, true)) };
        let mut changes = Vec::new();
        for row in &rows {
            let Some(number) = row.try_get::<_, Option<i64>>(1)? else { break };
            // A malformed entry is treated like one that is gone.
            let Ok(keys) = postcard::from_bytes::<Vec<(u8, Vec<u8>)>>(row.try_get(2)?) else { break };
            let keys = keys.into_iter().filter_map(|(space, key)| Some((Space::of_number(space)?, key))).collect();
            changes.push(CommittedChange { number: number.cast_unsigned(), keys });
        }
        let whole = changes.len() as u64 == (to + 1).saturating_sub(from);
        Ok(if whole { Changes { changes, newest, truncated: false } } else { Changes::none(newest, true) })
    }

    /// Returns the time of the server's clock.
    pub(super) async fn now(&self) -> Result<Timestamp, Error> {
        let millis: i64 = self.client.query_one(&self.now, &[]).await?.try_get(0)?;
        Ok(Timestamp(millis.try_into().unwrap_or_default()))
    }

    /// Returns the sizes of all spaces, by partition.
    pub(super) async fn sizes(&self) -> Result<Vec<SizePart>, Error> {
        let rows = self.client.query(&self.sizes, &[]).await?;
        let part = |row: tokio_postgres::Row| {
            Ok(SizePart {
                space: row.try_get(0)?,
                part: row.try_get(1)?,
                entries: row.try_get(2)?,
                bytes: row.try_get(3)?,
                version: row.try_get(4)?,
            })
        };
        rows.into_iter().map(part).collect()
    }
}

/// Sends all rows as one snapshot, on a separate connection, then their totals.
pub(super) async fn copy(config: &PostgresConfig, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
    let away = |error: &Error| StoreError::Away(describe(error));
    let removed = |_| StoreError::Away("the receiver of the copy has gone".to_owned());
    let reader = ReadConnection::open(config).await.map_err(|error| StoreError::Away(full_message(&error)))?;
    reader.read_only_snapshot().await.map_err(|error| away(&error))?;
    let mut sums = RowSums::default();
    for space in Space::ALL {
        let mut range = KeyRange { bytes: COPY_BYTES, ..KeyRange::all() };
        loop {
            let pairs = reader.scan(space, &range, COPY_ROWS, Direction::Forward).await.map_err(|error| away(&error))?;
            let Some((last, _)) = pairs.last() else { break };
            range = range.after(last);
            pairs.iter().for_each(|(key, value)| sums.add(space, key, value));
            let rows = pairs.into_iter().map(|(key, value)| Write { space, key, value: Some(value) });
            to.send(CopyPage::Rows(rows.collect())).await.map_err(removed)?;
        }
    }
    to.send(CopyPage::End(Box::new(sums))).await.map_err(removed)
}

/// Converts a range to an inclusive start and an exclusive end.
fn bounds(range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
    let behind = |key: &[u8]| [key, &[0]].concat();
    let start = match &range.start {
        Bound::Included(key) => key.clone(),
        Bound::Excluded(key) => behind(key),
        Bound::Unbounded => vec![],
    };
    let end = match &range.end {
        Bound::Included(key) => behind(key),
        Bound::Excluded(key) => key.clone(),
        // No key is that long.
        Bound::Unbounded => vec![u8::MAX; MAX_KEY_BYTES + 1],
    };
    (start, end)
}

fn number(of: impl TryInto<i64>) -> i64 {
    of.try_into().unwrap_or(i64::MAX)
}
