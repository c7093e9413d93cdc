//! Verifies what the tree is built from, without changes.

use std::path::Path;

use super::common::{JournalBase, base_of};
use crate::journal::{CheckpointItem, CheckpointReader, FrameWalk, JournalEnd, JournalError};

/// The result of reading a whole checkpoint. Without a checkpoint it is empty.
pub(super) struct CheckpointContents {
    pub(super) base: JournalBase,
    pub(super) rows: usize,
    /// The frame from which the checkpoint is consistent.
    pub(super) holds_from: u64,
}

/// Reads the whole checkpoint.
pub(super) fn checkpoint(store: &Path) -> Result<CheckpointContents, JournalError> {
    let mut checkpoint = CheckpointReader::newest(store)?;
    let (base, mut rows) = (base_of(checkpoint.as_ref()), 0);
    while let Some(reading) = &mut checkpoint {
        match reading.next()? {
            CheckpointItem::Rows(some) => rows += some.len(),
            CheckpointItem::End { until, .. } => return Ok(CheckpointContents { base, rows, holds_from: until }),
        }
    }
    Ok(CheckpointContents { base, rows, holds_from: 0 })
}

/// Reads the frames after a checkpoint while `goes_on` returns true. Sets `last` to the number of the last frame read.
pub(super) fn frames(store: &Path, base: JournalBase, last: &mut u64, goes_on: impl Fn(u64) -> bool) -> Result<JournalEnd, JournalError> {
    let mut walk = FrameWalk::start(store, base.sequence, base.link)?;
    while goes_on(*last)
        && let Some(frame) = walk.next()?
    {
        *last = frame.sequence();
    }
    Ok(walk.end())
}

/// Verifies that checkpoint and journal are intact, so that a tree can be built from them.
pub(super) fn all(store: &Path) -> Result<(), JournalError> {
    let CheckpointContents { base, holds_from, .. } = checkpoint(store)?;
    frames(store, base, &mut 0, |_| true)?.reaches(holds_from)
}
