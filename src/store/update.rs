//! Updates: read, decide, commit, and retry if another commit came first.
//!
//! This is the only code that retries commits. Every row that is read inside becomes a condition of the commit, so that
//! a decision takes effect only if what it was based on is unchanged. A range is checked row by row: rows inserted
//! between them go unnoticed.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    Batch, Check, Direction, Durability, Store, StoreError,
    key::Key,
    range::Range,
    table::{RawRow, Row, Table},
    table_plan::stored_key,
    value::Value,
};

/// Maximum number of attempts. Each failed attempt means that another commit succeeded or that another process holds a
/// row lock.
const TRIES: u32 = 64;
/// Time after which no further attempt begins.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait before an attempt, in microseconds.
const MAX_WAIT_US: u32 = 64_000;

/// A running update: what it has read, and what it will write.
pub struct Tx<'a> {
    store: &'a dyn Store,
    batch: Batch,
    /// Whether it is committed even without writes.
    confirms: bool,
}

/// The result of an update: its writes, and the value to return once they are committed.
pub struct UpdatePlan<'a, T> {
    batch: Tx<'a>,
    answer: T,
}

/// Runs `decide` and commits its writes. Runs it again if something that it read has changed by then. `decide` must
/// have no other effects than its writes. Without writes nothing is committed unless it calls [`Tx::confirms`].
///
/// # Errors
///
/// An error of `decide` is returned at once. When attempts or time run out: [`StoreError::Contended`] if other commits
/// always came first, or [`StoreError::LockTimeout`] if another process held a row lock. Other errors of the store.
pub async fn update<'a, T, E, F>(store: &'a dyn Store, durability: Durability, mut decide: impl FnMut(Tx<'a>) -> F) -> Result<T, E>
where
    E: From<StoreError>,
    F: Future<Output = Result<UpdatePlan<'a, T>, E>>,
{
    let (started, mut last) = (Instant::now(), StoreError::Contended);
    for attempt in 0..TRIES {
        back_off(attempt).await;
        if attempt > 0 && started.elapsed() >= DEADLINE {
            break;
        }
        let UpdatePlan { batch: tx, answer } = decide(Tx { store, batch: Batch::new(), confirms: false }).await?;
        let Tx { batch, confirms, .. } = tx;
        if batch.changes_nothing() && !confirms {
            return Ok(answer);
        }
        match batch.commit(store, durability).await {
            Ok(_) => return Ok(answer),
            Err(StoreError::Conflict) => last = StoreError::Contended,
            Err(error @ StoreError::LockTimeout(_)) => last = error,
            Err(error) => return Err(error.into()),
        }
    }
    tracing::warn!(%last, elapsed_ms = started.elapsed().as_millis(), "an update gave up");
    Err(last.into())
}

/// Waits before an attempt, randomly and longer each time, so that conflicting updates get out of step.
async fn back_off(attempt: u32) {
    if attempt > 1 {
        let max = (250_u32 << attempt.min(16)).min(MAX_WAIT_US);
        let chance = getrandom::u32().unwrap_or(max) % max;
        tokio::time::sleep(Duration::from_micros(chance.into())).await;
    }
}

impl<'a> Tx<'a> {
    /// Ends the decision. `answer` is returned once the writes are committed.
    pub fn answer<T, E>(self, answer: T) -> Result<UpdatePlan<'a, T>, E> {
        Ok(UpdatePlan { batch: self, answer })
    }

    /// Reads the row at `key`. The commit fails if it changes.
    pub async fn row<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> Result<Option<Row<K, V>>, StoreError> {
        self.found(table, key).await?.map(|found| table.read(found)).transpose()
    }

    /// Reads the row at `key` without decoding it, for rows that may be malformed. The commit fails if it changes.
    pub async fn found<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> Result<Option<RawRow>, StoreError> {
        let at = stored_key(table.plan, key);
        let bytes = self.store.get(table.plan.space, &at).await?.map(Bytes::from);
        self.batch.checks.push(Check { space: table.plan.space, key: at.clone(), expected: bytes.clone() });
        Ok(bytes.map(|bytes| RawRow { at, bytes }))
    }

    /// Reads the value at `key`. The commit fails if it changes.
    pub async fn get<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> Result<Option<V>, StoreError> {
        Ok(self.row(table, key).await?.map(|row| row.value))
    }

    /// Reads up to `limit` rows of a range. The commit fails if one of them changes.
    pub async fn page<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Row<K, V>>, StoreError> {
        let rows = table.page(self.store, range, limit, direction).await?;
        // A page never contains a row twice.
        let held = rows.iter().map(|row| Check { space: table.plan.space, key: row.at.clone(), expected: Some(row.bytes.clone()) });
        self.batch.checks.extend(held);
        Ok(rows)
    }

    /// Checks everything that was read even if nothing is written.
    pub fn confirms(&mut self) {
        self.confirms = true;
    }

    /// Returns the store, for reads that the commit does not depend on.
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
