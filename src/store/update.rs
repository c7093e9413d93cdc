//! Updates: read, decide, commit; and once more when others were faster.
//!
//! This is the only place that tries a commit again. What is read inside becomes a condition of the commit, so a decision is
//! made on what is still there when it takes effect. A range that was read is held row by row: rows that others put between
//! them are not noticed.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    Batch, Check, Direction, Durability, Store, StoreError,
    counted::counted,
    key::Key,
    plan::stored_key,
    range::Range,
    table::{Row, Table, Unread},
    value::Value,
};

/// Tries before an update gives up: each that fails means that another succeeded, or that another process holds a row.
const TRIES: u32 = 64;
/// Time after which no further try begins.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait before a try, in microseconds.
const MAX_WAIT_US: u32 = 64_000;

/// An update under way: what it has read, and what it will write.
pub struct Tx<'a> {
    store: &'a dyn Store,
    batch: Batch,
    /// Whether it is committed without writes too.
    confirms: bool,
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.batch.fmt(f)
    }
}

/// What an update came to: what it will write, and what it answers once that is written.
#[derive(Debug)]
pub struct Decided<'a, T> {
    batch: Tx<'a>,
    answer: T,
}

/// Has `decide` read and write, and commits what it decided; decides again when something that it read is another by then.
/// What it decides must have no effect but its writes. Without writes nothing is committed, unless it [`Tx::confirms`].
///
/// # Errors
///
/// What `decide` answers, at once; [`StoreError::Contended`] when others were faster every time, and [`StoreError::LockTimeout`] when
/// another process held a row, until the deadline; the store's.
pub async fn update<'a, T, E, F>(store: &'a dyn Store, durability: Durability, mut decide: impl FnMut(Tx<'a>) -> F) -> Result<T, E>
where
    E: From<StoreError>,
    F: Future<Output = Result<Decided<'a, T>, E>>,
{
    let (begun, mut last) = (Instant::now(), StoreError::Contended);
    for attempt in 0..TRIES {
        back_off(attempt).await;
        if attempt > 0 && begun.elapsed() >= DEADLINE {
            break;
        }
        let Decided { batch: tx, answer } = decide(Tx { store, batch: Batch::new(), confirms: false }).await?;
        let Tx { batch, confirms, .. } = tx;
        if batch.changes_nothing() && !confirms {
            return Ok(answer);
        }
        match counted(store.apply(batch, durability), durability).await {
            Ok(_) => return Ok(answer),
            Err(StoreError::Conflict) => last = StoreError::Contended,
            Err(error @ StoreError::LockTimeout(_)) => last = error,
            Err(error) => return Err(error.into()),
        }
    }
    tracing::warn!(%last, elapsed_ms = begun.elapsed().as_millis(), "an update gave up");
    Err(last.into())
}

/// Waits before a try, longer each time and by chance, so that those who met get out of step.
async fn back_off(attempt: u32) {
    if attempt > 1 {
        let most = (250_u32 << attempt.min(16)).min(MAX_WAIT_US);
        let chance = getrandom::u32().unwrap_or(most) % most;
        tokio::time::sleep(Duration::from_micros(chance.into())).await;
    }
}

impl<'a> Tx<'a> {
    /// Ends the decision: commits what was written, then answers this.
    ///
    /// # Errors
    ///
    /// None: the type is that of [`update()`]'s decisions.
    pub fn answer<T, E>(self, answer: T) -> Result<Decided<'a, T>, E> {
        Ok(Decided { batch: self, answer })
    }

    /// The row at `key`, which the commit wants to be so still.
    ///
    /// # Errors
    ///
    /// The store's; a value that does not read is [`StoreError::Away`].
    pub async fn row<K: Key + Clone, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> Result<Option<Row<K, V>>, StoreError> {
        let at = stored_key(table.plan, key);
        let expected = self.store.get(table.plan.space, &at).await?.map(Bytes::from);
        self.batch.checks.push(Check { space: table.plan.space, key: at.clone(), expected: expected.clone() });
        let Some(bytes) = expected else { return Ok(None) };
        let value = table.value(&at, &bytes)?;
        Ok(Some(Row { key: key.clone(), value, at, bytes }))
    }

    /// The row at `key`, not read yet, which the commit wants to be so still: for rows that may not read.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn found<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> Result<Option<Unread>, StoreError> {
        let at = stored_key(table.plan, key);
        let found = self.store.get(table.plan.space, &at).await?;
        self.batch.checks.push(Check { space: table.plan.space, key: at.clone(), expected: found.clone().map(Bytes::from) });
        Ok(found.map(|bytes| Unread::new(at, bytes)))
    }

    /// The value at `key`, which the commit wants to be so still.
    ///
    /// # Errors
    ///
    /// As [`Tx::row`].
    pub async fn get<K: Key + Clone, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> Result<Option<V>, StoreError> {
        Ok(self.row(table, key).await?.map(|row| row.value))
    }

    /// At most `limit` rows of a range, each of which the commit wants to be so still.
    ///
    /// # Errors
    ///
    /// As [`Table::page`].
    pub async fn page<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Row<K, V>>, StoreError> {
        let rows = table.page(self.store, range, limit, direction).await?;
        // Of one page none is there twice.
        let held = rows.iter().map(|row| Check { space: table.plan.space, key: row.at.clone(), expected: Some(row.bytes.clone()) });
        self.batch.checks.extend(held);
        Ok(rows)
    }

    /// Wants what was read to be there still at one moment, also where nothing is written.
    pub fn confirms(&mut self) {
        self.confirms = true;
    }

    /// The store, for what the commit does not depend on.
    #[must_use]
    pub fn store(&self) -> &'a dyn Store {
        self.store
    }
}

impl Deref for Tx<'_> {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        &self.batch
    }
}

impl DerefMut for Tx<'_> {
    fn deref_mut(&mut self) -> &mut Batch {
        &mut self.batch
    }
}
