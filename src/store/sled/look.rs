//! Looking at what the tree is made from, and changing nothing.

use std::path::Path;

use super::footing::{Base, base_of};
use crate::journal::{Checkpoint, End, Held, JournalError, Walk};

/// What a checkpoint holds, all of it read. Where there is none: nothing.
pub(super) struct Looked {
    pub(super) base: Base,
    pub(super) rows: usize,
    /// The frame from which on it is right.
    pub(super) holds_from: u64,
}

/// Reads the checkpoint to its end.
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

/// Reads the frames behind a checkpoint while `goes_on`; `last` is the number of the last that read.
pub(super) fn frames(store: &Path, base: Base, last: &mut u64, goes_on: impl Fn(u64) -> bool) -> Result<End, JournalError> {
    let mut walk = Walk::start(store, base.sequence, base.link)?;
    while goes_on(*last)
        && let Some(frame) = walk.next()?
    {
        *last = frame.sequence();
    }
    Ok(walk.end())
}

/// Whether all of it reads, so that a tree can be made from it.
pub(super) fn all(store: &Path) -> Result<(), JournalError> {
    let Looked { base, holds_from, .. } = checkpoint(store)?;
    frames(store, base, &mut 0, |_| true)?.reaches(holds_from)
}
