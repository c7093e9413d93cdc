//! Verifies what the tree is built from, without changes.

use std::path::Path;

use super::footing::{Base, base_of};
use crate::journal::{Checkpoint, End, Held, JournalError, Walk};

/// The result of reading a whole checkpoint. Without a checkpoint it is empty.
pub(super) struct Looked {
    pub(super) base: Base,
    pub(super) rows: usize,
    /// The frame from which the checkpoint is consistent.
    pub(super) holds_from: u64,
}

/// Reads the whole checkpoint.
pub(super) fn checkpoint(store: &Path) -> Result<Looked, JournalError> {
    let mut checkpoint = Checkpoint::newest(store)?;
    let (base, mut rows) = (base_of(checkpoint.as_ref()), 0);
    while let Some(reading) = &mut checkpoint {
        match reading.next()? {
            Held::Rows(some) => rows += some.len(),
            Held::End { until, .. } => return Ok(Looked { base, rows, holds_from: until }),
        }
    }
    Ok(Looked { base, rows, holds_from: 0 })
}

/// Reads the frames after a checkpoint while `goes_on` returns true. Sets `last` to the number of the last frame read.
pub(super) fn frames(store: &Path, base: Base, last: &mut u64, goes_on: impl Fn(u64) -> bool) -> Result<End, JournalError> {
    let mut walk = Walk::start(store, base.sequence, base.link)?;
    while goes_on(*last)
        && let Some(frame) = walk.next()?
    {
        *last = frame.sequence();
    }
    Ok(walk.end())
}

/// Verifies that checkpoint and journal are intact, so that a tree can be built from them.
pub(super) fn all(store: &Path) -> Result<(), JournalError> {
    let Looked { base, holds_from, .. } = checkpoint(store)?;
    frames(store, base, &mut 0, |_| true)?.reaches(holds_from)
}
