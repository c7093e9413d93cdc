//! The store: ordered byte keys in named spaces, three verbs.
//!
//! [`Store::commit`] is the only way to write: all of its writes or none, after all of its checks.
//! Everything the host must not lose or do twice is built from that one verb.
//!
//! What every backend promises, and `tests/store_contract` asks each of them:
//!
//! - Commits happen one after the other. Each sees all those before it.
//! - `get` and `scan` see a commit whole or not at all. A scan is one moment, not a walk.
//! - A reader may see a durable commit before it is on disk; only its committer is told when it is.
//! - Keys are at most [`MAX_KEY_BYTES`], values at most [`MAX_VALUE_BYTES`].

use std::{collections::BTreeMap, ops::Bound};

use async_trait::async_trait;

pub mod faulty;
pub mod memory;
pub mod pack;
pub mod sled;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4 * 1024;
/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;

/// A set of keys of one kind. The number is its place on disk and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// Store format and the like.
    Meta = 0,
    /// slug → endpoint record.
    Endpoints = 1,
    /// version hash → handler source.
    Versions = 2,
    /// receipt id → receipt of a paid call; of free ones too, of versions that had no `FreeReceipts`.
    Receipts = 3,
    /// payment id → payment record; client's own id of a payment → payment id.
    Payments = 4,
    /// payment id of every settlement begun and not ended.
    OpenIntents = 5,
    /// time, payment id → nothing: which payment record has something to forget then.
    PaymentExpiry = 6,
    /// credit id → developer credit.
    Credits = 7,
    /// asset, address → balance of the simulated ledger.
    LedgerBalances = 8,
    /// asset, payer, nonce → transaction of the simulated ledger.
    LedgerNonces = 9,
    /// endpoint id, key → value of `ctx.kv`.
    Kv = 10,
    /// endpoint id → number of keys and bytes in `Kv`.
    KvUsage = 11,
    /// endpoint id, path → entry of `ctx.files`.
    Files = 12,
    /// endpoint id → number and bytes of files.
    FilesUsage = 13,
    /// endpoint id, time → log line.
    Logs = 14,
    /// endpoint id, name → encrypted secret.
    Secrets = 15,
    /// builder id → builder, with the hash of the key in force.
    Builders = 16,
    /// owner, time, event id → event.
    Events = 17,
    /// owner, day, endpoint id, … → calls and money: one row for each call, folded into one for each day.
    Sales = 18,
    /// builder id, receipt id → net amount of a receipt that is in no payout packet.
    Unpaid = 19,
    /// builder id, payout id → payout packet.
    Payouts = 20,
    /// payout id, receipt id → net amount.
    PayoutReceipts = 21,
    /// builder id → payout settings.
    PayoutSettings = 22,
    /// time, audit id → what an admin or builder did, or tried to.
    Audit = 23,
    /// credit id, number → movement of a developer credit.
    CreditMovements = 24,
    /// slug of a deleted endpoint → who had it.
    RetiredSlugs = 25,
    /// version hash → the owner who uploaded it first.
    VersionOwners = 26,
    /// task id → long-running MCP call.
    Tasks = 27,
    /// idempotency key → what was minted under it.
    Mintings = 28,
    /// time, name → receipts of free calls, in a pack.
    FreeReceipts = 29,
    /// time, key in `LedgerNonces` → nothing: which nonce cannot be shown any more from then on.
    LedgerExpiry = 30,
    /// endpoint id, time, name → calls, in a pack.
    Calls = 31,
    /// endpoint id, length of the buckets, time, process → what happened in the bucket.
    CallMetrics = 32,
}

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
    pub expected: Option<Vec<u8>>,
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
        Self { space, key: key.into(), expected: Some(value.into()) }
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

    /// Applies all `writes`, in order, if all `checks` hold at that moment; else nothing.
    ///
    /// Once polled, a commit may happen even if its future is dropped before it answers.
    /// Without writes it still checks, and when durable it still waits for all before it to be on disk.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] and [`StoreError::Away`]: nothing was written. [`StoreError::Unknown`]:
    /// it may have been, so ask again before doing anything twice.
    async fn commit(&self, checks: Vec<Check>, writes: Vec<Write>, durability: Durability) -> Result<(), StoreError>;

    /// What each space holds, without looking. A crash may leave it wrong by what was committed in the last moments before.
    /// Stores of tests need not know.
    fn sizes(&self) -> Sizes {
        Sizes::default()
    }
}

impl Space {
    /// The space with this number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Every space, each at the place of its number.
    pub const ALL: [Self; 33] = [
        Self::Meta,
        Self::Endpoints,
        Self::Versions,
        Self::Receipts,
        Self::Payments,
        Self::OpenIntents,
        Self::PaymentExpiry,
        Self::Credits,
        Self::LedgerBalances,
        Self::LedgerNonces,
        Self::Kv,
        Self::KvUsage,
        Self::Files,
        Self::FilesUsage,
        Self::Logs,
        Self::Secrets,
        Self::Builders,
        Self::Events,
        Self::Sales,
        Self::Unpaid,
        Self::Payouts,
        Self::PayoutReceipts,
        Self::PayoutSettings,
        Self::Audit,
        Self::CreditMovements,
        Self::RetiredSlugs,
        Self::VersionOwners,
        Self::Tasks,
        Self::Mintings,
        Self::FreeReceipts,
        Self::LedgerExpiry,
        Self::Calls,
        Self::CallMetrics,
    ];
}

/// Refuses what no backend takes, so that all of them refuse the same.
fn check_sizes(writes: &[Write]) -> Result<(), StoreError> {
    for write in writes {
        let value_bytes = write.value.as_ref().map_or(0, Vec::len);
        if write.key.len() > MAX_KEY_BYTES {
            return Err(StoreError::Away(format!("a key is {} bytes, limit {MAX_KEY_BYTES}", write.key.len())));
        }
        if value_bytes > MAX_VALUE_BYTES {
            return Err(StoreError::Away(format!("a value is {value_bytes} bytes, limit {MAX_VALUE_BYTES}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_space_is_at_its_number() {
        for (number, space) in (0..).zip(Space::ALL) {
            assert_eq!(space as u8, number);
            assert_eq!(Space::of_number(number), Some(space));
        }
        assert_eq!(Space::of_number(Space::CallMetrics as u8 + 1), None);
    }
}
