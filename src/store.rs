//! The store: ordered keys in named spaces, and one way to write.
//!
//! [`Store::apply`] writes all of a [`Batch`] or none, after all of its checks. Everything the host must not lose or do twice
//! is built from that one verb. [`schema`] declares what lies where; [`Table`] gives keys and values their types;
//! [`update()`] decides again when others were faster.
//!
//! What every backend promises, and `tests/store_contract` asks each of them:
//!
//! - Commits happen one after the other. Each sees all those before it.
//! - `get` and `scan` see a commit whole or not at all. A scan is one moment, not a walk.
//! - A reader may see a durable commit before it is on disk; only its committer is told when it is.
//! - Keys are at most [`MAX_KEY_BYTES`], values at most [`MAX_VALUE_BYTES`].

use std::{collections::BTreeMap, ops::Bound};

use async_trait::async_trait;
use bytes::Bytes;

pub use self::{
    add::{Add, Limit},
    batch::Batch,
    changes::{Change, Changes, KEPT as CHANGES_KEPT},
    key::{Counted, Ended, Key, Part, StartOf, Starting},
    place::{Place, SaleKey},
    plan::{Declared, Entry, Index, Kept, Plan},
    range::Range,
    schema::Space,
    table::{Counter, Row, Table, Unread},
    update::{Decided, Tx, update},
    value::{Formatted, Value, read_postcard, write_json, write_postcard},
};

pub(crate) use self::value::{json_values, postcard_values};

mod add;
mod batch;
mod changes;
pub mod faulty;
mod key;
pub mod memory;
pub mod pack;
mod place;
mod plan;
mod range;
pub mod schema;
pub mod sled;
mod table;
mod update;
mod value;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1_024;
/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;

/// How much there is of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// How many there are.
    pub entries: u64,
    /// Of keys and values. On disk they take more.
    pub bytes: u64,
}

/// What each space holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Space → size; empty spaces may be absent.
    pub spaces: BTreeMap<Space, Size>,
    /// False while a store of a version that did not count is being counted.
    pub complete: bool,
}

/// What must hold for a commit to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Where the key is.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// The value that must be there, byte for byte; `None` wants the key absent.
    pub expected: Option<Bytes>,
}

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Where the key is.
    pub space: Space,
    /// The key.
    pub key: Vec<u8>,
    /// `None` deletes.
    pub value: Option<Vec<u8>>,
}

/// When a commit may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once every reader sees it. A crash may lose it within half a second, and with it nothing older.
    Buffered,
    /// Once it is on disk. Neighbours share the fsync. Everything committed before is on disk too.
    Durable,
}

/// Which end of a range a scan starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first key.
    Forward,
    /// From the last.
    Backward,
}

/// A part of a space, by key.
#[derive(Debug, Clone)]
pub struct KeyRange {
    /// Where it begins.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key that starts with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.last_mut() {
            if *last < u8::MAX {
                *last += 1;
                return Self { start: Bound::Included(prefix.to_vec()), end: Bound::Excluded(end) };
            }
            end.pop();
        }
        Self { start: Bound::Included(prefix.to_vec()), end: Bound::Unbounded }
    }

    /// Every key of the space.
    #[must_use]
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// The keys of this range that come after `key`: the next page of a forward scan that ended with it.
    #[must_use]
    pub fn after(self, key: &[u8]) -> Self {
        Self { start: Bound::Excluded(key.to_vec()), end: self.end }
    }

    /// The keys of this range that come before `key`: the next page of a backward scan that ended with it.
    #[must_use]
    pub fn before(self, key: &[u8]) -> Self {
        Self { start: self.start, end: Bound::Excluded(key.to_vec()) }
    }

    /// Whether no key can be in it, because its end lies before its start.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        }
    }
}

impl Check {
    /// Wants `key` to hold exactly `value`.
    #[must_use]
    pub fn holds(space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), expected: Some(Bytes::from(value.into())) }
    }

    /// Wants `key` to be absent.
    #[must_use]
    pub fn absent(space: Space, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), expected: None }
    }
}

impl Write {
    /// Puts `value` at `key`.
    #[must_use]
    pub fn put(space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), value: Some(value.into()) }
    }

    /// Takes `key` away, if it is there.
    #[must_use]
    pub fn delete(space: Space, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), value: None }
    }
}

/// Why the store did not do what was asked. After any error but [`StoreError::Unknown`] nothing was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A check failed: read again and decide again.
    #[error("the value at a checked key is another")]
    Conflict,
    /// An addition would make its sum pass its limit.
    #[error("a sum of {sum} may not pass its {limit}")]
    Beyond {
        /// Which addition of the batch.
        place: usize,
        /// What it would pass.
        limit: Limit,
        /// What the sum is.
        sum: i64,
    },
    /// Others wrote the same keys at every try.
    #[error("others were faster every time")]
    Contended,
    /// The backend did not take the request.
    #[error("the store is away: {0}")]
    Away(String),
    /// The backend took the commit and did not say how it ended.
    #[error("the store did not confirm a commit: {0}")]
    Unknown(String),
}

/// Keys and values, in the order that was asked for.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Ordered bytes with conditional, atomic writes.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The value at `key`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// At most `limit` pairs of a range, in key order from the end that `direction` names.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError>;

    /// How many keys a range has; no more than `most` are counted. Of more than a thousand it is a walk, not one moment.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    async fn count(&self, space: Space, range: KeyRange, most: usize) -> Result<usize, StoreError>;

    /// Applies all of `batch` if all of its checks hold at that moment and no addition passes its limit; else nothing.
    /// Answers what the sums of its additions became, in their order.
    ///
    /// Once polled, a commit may happen even if its future is dropped before it answers.
    /// Without writes it still checks, and when durable it still waits for all before it to be on disk.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`], [`StoreError::Beyond`] and [`StoreError::Away`]: nothing was written.
    /// [`StoreError::Unknown`]: it may have been, so ask again before doing anything twice.
    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i64>, StoreError>;

    /// At most `limit` changes of followed tables that came after the one with the number `after`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError>;

    /// What each space holds, without looking. A crash may leave it wrong by what was committed in the last moments before.
    /// Stores of tests need not know.
    fn sizes(&self) -> Sizes {
        Sizes::default()
    }
}

/// Refuses what no backend takes, so that all of them refuse the same.
fn check_sizes(writes: &[Write], adds: &[Add]) -> Result<(), StoreError> {
    let keys = writes.iter().map(|write| &write.key).chain(adds.iter().map(|add| &add.key));
    if let Some(key) = keys.into_iter().find(|key| key.len() > MAX_KEY_BYTES) {
        return Err(StoreError::Away(format!("a key is {} bytes, limit {MAX_KEY_BYTES}", key.len())));
    }
    if let Some(value) = writes.iter().filter_map(|write| write.value.as_ref()).find(|value| value.len() > MAX_VALUE_BYTES) {
        return Err(StoreError::Away(format!("a value is {} bytes, limit {MAX_VALUE_BYTES}", value.len())));
    }
    Ok(())
}
