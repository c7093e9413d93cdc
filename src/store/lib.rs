//! The store: ordered keys in named spaces, and a single write operation.
//!
//! [`Store::apply`] writes all of a [`Batch`] or none of it, after all of its checks. Everything that the host must not
//! lose or do twice is built on that operation. [`schema`] declares the tables; [`Table`] gives keys and values their
//! types; [`update()`] retries a decision when another commit came first.
//!
//! Every backend guarantees the following, and `tests/store_contract` tests it for each of them:
//!
//! - Commits are serial. Each sees all those before it.
//! - `get` and `scan` see a commit completely or not at all. A scan is a snapshot.
//! - A reader sees a durable commit once it is on disk, and not before.
//! - Keys have at most [`MAX_KEY_BYTES`], values at most [`MAX_VALUE_BYTES`].

#![warn(missing_docs)]

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tollhouse_base::clock::{Clock, Timestamp};

pub use self::{
    batch::Batch,
    changes::{Changes, CommittedChange, RETAINED as MAX_CHANGES},
    declared::DeclaredTable,
    error::StoreError,
    key::{CountedText, Key, KeyPart, KeyPrefix, TerminatedText, TextPrefix},
    page::{CopyPage, RowSums},
    position::{KeyPosition, SaleKey},
    range::{KeyRange, Range},
    row_history::{RowFate, WrittenRow},
    space::{LossImpact, Space},
    table::{Counter, RawRow, Row, Table},
    table_plan::{IndexEntry, IndexFn, TablePlan},
    trim::TrimReport,
    update::{Tx, UpdatePlan, update},
    value::{Formatted, Sum, Value, read_json, read_postcard, write_json, write_postcard},
    write::{Add, Check, SumLimit, Write},
};

pub use self::maintenance::{log_unavailable, maintain};

mod add;
mod batch;
mod changes;
mod declared;
pub mod dump;
mod error;
pub mod faulty;
pub mod import;
mod inspect;
mod journal;
mod key;
pub mod live_migration;
mod maintenance;
pub mod memory;
pub mod pack;
mod page;
mod position;
pub mod postgres;
mod queue_space;
mod range;
mod row_history;
pub mod schema;
pub mod sled;
mod space;
pub mod sweep_cursor;
mod table;
mod table_plan;
#[cfg(any(test, feature = "testing"))]
pub mod test_wrappers;
mod trim;
mod update;
mod value;
mod write;

/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 1_024;
/// Maximum length of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;

/// A number of entries and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceSize {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of keys and values. They take more space on disk.
    pub bytes: u64,
}

/// The size of each space, and the state of the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpaceSizes {
    /// Sizes by space. Empty spaces may be absent.
    pub spaces: BTreeMap<Space, SpaceSize>,
    /// Whether counting has finished. False means that entries are still being counted.
    pub complete: bool,
    /// Number of syncs of commits since the start. One sync can cover many commits.
    pub syncs: u64,
    /// The name of the backend, in one word.
    pub backend: &'static str,
    /// Why an oversized tree could not be replaced by a new one, if the last attempt failed.
    pub renewal_fails: Option<String>,
    /// Damage to files that the store does not need while everything else is intact, or `None` once they have been
    /// replaced. Damage to the archive stays until a repair.
    pub damage: Option<String>,
}

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once every reader sees it. A crash can lose the commits of the last half second, but never an older one.
    Buffered,
    /// Once it is on disk. Concurrent commits share the fsync. Everything committed before is on disk too.
    Durable,
}

impl Durability {
    /// Returns the durability of a commit that the process relies on without reading it again. If the store ends with
    /// its process, buffered is enough. A shared store can crash on its own and lose buffered commits, so it needs
    /// durable ones.
    pub fn built_on(store: &(impl Store + ?Sized)) -> Self {
        if store.is_shared() { Self::Durable } else { Self::Buffered }
    }
}

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first key on.
    Forward,
    /// From the last key back.
    Backward,
}

/// Keys and values, in the order of the scan.
pub type KeyValues = Vec<(Vec<u8>, Vec<u8>)>;

/// An ordered key-value store with conditional, atomic writes.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the value at `key`.
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns up to `limit` pairs of a range, in key order from the end that `direction` names. The range can also
    /// limit the bytes.
    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError>;

    /// Counts the keys in a range, up to `max`. Above a thousand keys the count is not a snapshot.
    async fn count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError>;

    /// Applies all of `batch` if all of its checks hold and no addition exceeds its limit, and nothing otherwise.
    /// Returns the new sums of its additions, in order.
    ///
    /// Once the future has been polled, the commit may happen even if the future is dropped. A batch without writes
    /// still checks, and if durable it still waits until everything before it is on disk.
    ///
    /// # Errors
    ///
    /// After [`StoreError::Conflict`], [`StoreError::Beyond`], [`StoreError::LockTimeout`] and [`StoreError::Away`],
    /// nothing was written. After [`StoreError::Unknown`], the batch may have been written, so read before you do
    /// anything twice.
    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError>;

    /// Returns up to `limit` changes of followed tables after number `after`.
    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError>;

    /// Sends all rows, page by page, as they are at one moment between the start and the end of the call. Others can
    /// read and commit meanwhile. The last page contains the totals. Without it, the copy is incomplete.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`], also if the receiver has been dropped. Default: the store does not support copies.
    async fn copy(&self, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
        drop(to);
        Err(StoreError::Away("this store cannot be copied".to_owned()))
    }

    /// Returns whether other processes may use the store at the same time. Default: no.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the time of the clock that all users of the store share. Default: this host's clock.
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(Clock::default().now())
    }

    /// Returns the sizes of all spaces without reading them. Test stores need not implement it.
    fn sizes(&self) -> SpaceSizes {
        SpaceSizes::default()
    }
}

/// Rejects keys and values that are too long, so that all backends accept the same.
fn check_sizes(writes: &[Write], adds: &[Add]) -> Result<(), StoreError> {
    let keys = writes.iter().map(|write| &write.key).chain(adds.iter().map(|add| &add.key));
    if let Some(key) = keys.into_iter().find(|key| key.len() > MAX_KEY_BYTES) {
        return Err(StoreError::Away(format!("a key has {} bytes, and the maximum is {MAX_KEY_BYTES}", key.len())));
    }
    if let Some(value) = writes.iter().filter_map(|write| write.value.as_ref()).find(|value| value.len() > MAX_VALUE_BYTES) {
        return Err(StoreError::Away(format!("a value has {} bytes, and the maximum is {MAX_VALUE_BYTES}", value.len())));
    }
    Ok(())
}
