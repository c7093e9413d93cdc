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
//! - A reader sees a durable commit once it is on disk, and not before.
//! - Keys are at most [`MAX_KEY_BYTES`], values at most [`MAX_VALUE_BYTES`].

#![warn(missing_docs)]

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tollhouse_base::clock::{Clock, Timestamp};

pub use self::{
    add::Add,
    batch::Batch,
    changes::{Change, Changes, KEPT as CHANGES_KEPT},
    declared::Declared,
    error::StoreError,
    key::{Counted, Ended, Key, Part, StartOf, Starting},
    limit::Limit,
    page::{Page, Sums},
    place::{Place, SaleKey},
    plan::{Entry, Index, Kept, Plan},
    range::{KeyRange, Range},
    space::{Space, Stake},
    table::{Counter, Row, Table, Unread},
    trim::Trimmed,
    update::{Decided, Tx, update},
    value::{Formatted, Sum, Value, read_json, read_postcard, write_json, write_postcard},
    write::{Check, Write},
    written::{Became, Written},
};

pub use self::upkeep::keep_up;

mod add;
#[cfg(any(test, feature = "testing"))]
pub mod around;
mod batch;
mod changes;
mod counted;
mod declared;
pub mod dump;
mod error;
pub mod faulty;
pub mod fill;
mod inspect;
mod journal;
mod key;
mod limit;
pub mod memory;
pub mod movable;
pub mod pack;
mod page;
mod place;
mod plan;
pub mod postgres;
mod range;
mod room;
pub mod round;
pub mod schema;
pub mod sled;
mod space;
mod table;
mod trim;
mod update;
mod upkeep;
mod value;
mod write;
mod written;

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
    /// False while what is there is still being counted.
    pub complete: bool,
    /// How many times commits were put on disk since the start, one or many at once.
    pub syncs: u64,
    /// What holds it, in one word.
    pub backend: &'static str,
    /// Why what rows are read from takes more of the disk than it is to, and no other could take its place yet.
    pub renewal_fails: Option<String>,
    /// What is wrong with files that the store can do without while nothing else is; `None` once others have taken their place.
    pub damage: Option<String>,
}

/// When a commit may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once every reader sees it. A crash may lose it within half a second, and with it nothing older.
    Buffered,
    /// Once it is on disk. Neighbours share the fsync. Everything committed before is on disk too.
    Durable,
}

impl Durability {
    /// Of a commit that its process goes on from without looking again. A store that ends with its process loses nothing that the process
    /// has built on; one that others share may crash without it, and take back what was buffered.
    #[must_use]
    pub fn built_on(store: &(impl Store + ?Sized)) -> Self {
        if store.is_shared() { Self::Durable } else { Self::Buffered }
    }
}

/// Which end of a range a scan starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first key.
    Forward,
    /// From the last.
    Backward,
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

    /// At most `limit` pairs of a range, and of its bytes, in key order from the end that `direction` names.
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
    /// [`StoreError::Conflict`], [`StoreError::Beyond`], [`StoreError::LockTimeout`] and [`StoreError::Away`]: nothing was written.
    /// [`StoreError::Unknown`]: it may have been, so ask again before doing anything twice.
    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError>;

    /// At most `limit` changes of followed tables that came after the one with the number `after`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError>;

    /// Hands out all rows as they stand at one moment, which lies between its beginning and its end, page by page. Others read and commit
    /// meanwhile. The last page says what all of it comes to; without that one it is no copy.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`]; also where nobody takes the pages any more. Default: such a store hands out none.
    async fn copy(&self, to: mpsc::Sender<Page>) -> Result<(), StoreError> {
        drop(to);
        Err(StoreError::Away("this store hands out no copy of itself".to_owned()))
    }

    /// Whether other processes may use it at the same time. Default: the process that has opened it is the only one.
    fn is_shared(&self) -> bool {
        false
    }

    /// The time by the one clock that all who share the store go by. Default: the host's, which is alone with it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`].
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(Clock::default().now())
    }

    /// What each space holds, without looking.
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
