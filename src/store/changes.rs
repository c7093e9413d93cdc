//! The log of changes: which rows of followed tables others have changed.
//!
//! It tells keys, not values: whoever reads it reads the rows again. It is kept for the last [`KEPT`] commits that changed a
//! followed table; whoever asks for more is told that it is gone, reads all rows anew, and goes on from the newest number.

use super::space::Space;

/// Commits that the log tells of. A reader that asks each tenth of a second is behind by less.
pub const KEPT: u64 = 8_192;

/// What one commit changed in followed tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Numbers grow by one, in the order in which commits happened.
    pub number: u64,
    /// Read them with [`super::Table::changed`].
    pub keys: Vec<(Space, Vec<u8>)>,
}

/// What happened since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Oldest first, without a gap.
    pub changes: Vec<Change>,
    /// The number of the newest change there is, 0 before the first. Read it before the rows it is to be told of.
    pub newest: u64,
    /// Whether some of what was asked for is no longer known, or the number asked from was never given out here:
    /// `changes` is empty, and all rows must be read anew.
    pub gone: bool,
}

/// The numbers that answer for what came after `after`: from, to. `None` where they are gone.
pub(super) fn numbers(after: u64, newest: u64, limit: usize) -> Option<(u64, u64)> {
    let oldest = newest.saturating_sub(KEPT) + 1;
    let last = after.saturating_add(limit.try_into().unwrap_or(u64::MAX)).min(newest);
    (after <= newest && after + 1 >= oldest).then_some((after + 1, last))
}

impl Changes {
    /// No change, since none is known to be left out or all of them are gone.
    pub(super) fn none(newest: u64, gone: bool) -> Self {
        Self { changes: vec![], newest, gone }
    }
}
