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

use std::ops::Bound;

use async_trait::async_trait;

pub mod faulty;
pub mod memory;
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
    /// receipt id → receipt.
    Receipts = 3,
    /// payment id → payment record.
    Payments = 4,
    /// payment id of every settlement begun and not ended.
    OpenIntents = 5,
    /// expiry time, payment id → nothing: what the sweeper forgets next.
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
}

/// What must hold for a commit to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub space: Space,
    pub key: Vec<u8>,
    /// The value that must be there, byte for byte; `None` wants the key absent.
    pub expected: Option<Vec<u8>>,
}

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub space: Space,
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
    Forward,
    Backward,
}

/// A part of a space, by key.
#[derive(Debug, Clone)]
pub struct KeyRange {
    pub start: Bound<Vec<u8>>,
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
