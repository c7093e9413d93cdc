//! The change log: which rows of followed tables others have changed.
//!
//! It contains keys, not values, so a reader must read the rows again. It covers the last [`RETAINED`] commits that changed
//! a followed table. A reader that is further behind learns that entries are gone, reloads all rows, and continues from
//! the newest number.

use super::space::Space;

/// Number of commits in the log. A reader that polls every tenth of a second lags behind by less.
pub const RETAINED: u64 = 8_192;

/// The keys that one commit changed in followed tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedChange {
    /// Number of the change. Numbers increase by one in commit order.
    pub number: u64,
    /// The changed keys. Read the rows with [`super::Table::changed`].
    pub keys: Vec<(Space, Vec<u8>)>,
}

/// The changes since a given number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The changes, oldest first, without gaps.
    pub changes: Vec<CommittedChange>,
    /// Number of the newest change, or 0 if there is none. Read it before the rows whose changes you want to follow.
    pub newest: u64,
    /// Whether the log no longer covers the given number or never reached it. Then `changes` is empty and all rows must
    /// be reloaded.
    pub truncated: bool,
}

/// Returns the first and last number to read for changes after `after`, or `None` if the log does not cover them.
pub(super) fn numbers(after: u64, newest: u64, limit: usize) -> Option<(u64, u64)> {
    let oldest = newest.saturating_sub(RETAINED) + 1;
    let last = after.saturating_add(limit.try_into().unwrap_or(u64::MAX)).min(newest);
    (after <= newest && after + 1 >= oldest).then_some((after + 1, last))
}

impl Changes {
    /// Returns no changes: there are none, or they are gone.
    pub(super) fn none(newest: u64, removed: bool) -> Self {
        Self { changes: vec![], newest, truncated: removed }
    }
}
