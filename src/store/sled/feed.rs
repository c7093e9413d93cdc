//! Feeds: read all rows from the tree while others write to it, and read their writes from the journal.
//!
//! A row is read as it is when the walk reaches it. Every frame since the walk began contains the values after it.
//! Applied to the rows in order, the frames give the tree's contents after the last of them. No checkpoint is made
//! meanwhile, because it would remove those frames from the journal.

use std::{ops::Bound, path::PathBuf, sync::Arc};

use tokio::sync::OwnedMutexGuard;

use super::{follower::FrameFollower, read_guard::TreeHandle};
use crate::{RowSums, Space, StoreError, Write};

/// Approximate bytes of rows read at once. The next commit waits for them.
const PAGE_BYTES: usize = 256 * 1024;
/// Bytes of frames that are combined, so that each key appears once.
const COMBINED_BYTES: usize = 1024 * 1024;

/// A walk through the rows and the frames that follow.
pub(crate) struct MigrationFeed {
    handle: Arc<TreeHandle>,
    position: Bound<Vec<u8>>,
    frames: FrameFollower,
    /// While this is held, the journal keeps its frames.
    _kept: OwnedMutexGuard<()>,
}

impl MigrationFeed {
    pub(super) fn begin(store: PathBuf, handle: Arc<TreeHandle>, stored: OwnedMutexGuard<()>) -> Self {
        let frames = FrameFollower::new(store, *handle.still());
        Self { handle, position: Bound::Unbounded, frames, _kept: stored }
    }

    /// Returns the next rows, or `None` after the last.
    pub(crate) fn rows(&mut self) -> Result<Option<Vec<Write>>, StoreError> {
        let mut rows = Vec::new();
        let add = |space, key, value| {
            // The change log belongs to no space and is not copied.
            rows.extend(Space::of_number(space).map(|space| Write { space, key, value: Some(value) }));
            Ok(())
        };
        let more = self.handle.walk(&mut self.position, PAGE_BYTES, add)?;
        Ok(more.then_some(rows))
    }

    /// Returns the number of the newest frame.
    pub(crate) fn newest(&self) -> u64 {
        self.handle.still().sequence
    }

    /// Returns the combined changes of the next frames up to `until`, or of some of them. Returns `None` once all have
    /// been returned.
    pub(crate) fn changes(&mut self, until: u64) -> Result<Option<Vec<Write>>, StoreError> {
        let Some(part) = self.frames.next(until, COMBINED_BYTES)? else { return Ok(None) };
        let writes =
            part.rows.into_iter().filter_map(|row| Some(Write { space: Space::of_number(row.space)?, key: row.key, value: row.value }));
        Ok(Some(writes.collect()))
    }

    /// Returns the totals after the frames returned so far.
    pub(crate) fn sums(&self) -> RowSums {
        RowSums::of(self.frames.at.totals)
    }
}
