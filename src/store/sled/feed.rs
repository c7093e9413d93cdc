//! Feeds: read all rows from the tree while others write to it, and read their writes from the journal.
//!
//! A row is read as it is when the walk reaches it. Every frame since the walk began contains the values after it.
//! Applied to the rows in order, the frames give the tree's contents after the last of them. No checkpoint is made
//! meanwhile, because it would remove those frames from the journal.

use std::{collections::BTreeMap, ops::Bound, path::PathBuf, sync::Arc};

use tokio::sync::OwnedMutexGuard;

use super::{common::parts_of, position::TreePosition, read_guard::TreeHandle, rows::walk_some};
use crate::{
    RowSums, Space, StoreError, Write,
    journal::{FrameWalk, JournalEnd, JournalError, RowPart},
};

/// Approximate bytes of rows read at once. The next commit waits for them.
const SOME_BYTES: usize = 256 * 1024;
/// Bytes of frames that are combined, so that each key appears once.
const GATHERED: usize = 1024 * 1024;

/// A walk through the rows and the frames that follow.
pub(crate) struct MigrationFeed {
    store: PathBuf,
    moment: Arc<TreeHandle>,
    position: Bound<Vec<u8>>,
    /// Position of the last frame returned, with the totals there.
    at: TreePosition,
    end: Option<JournalEnd>,
    /// While this is held, the journal keeps its frames.
    _kept: OwnedMutexGuard<()>,
}

impl MigrationFeed {
    pub(super) fn begin(store: PathBuf, moment: Arc<TreeHandle>, stored: OwnedMutexGuard<()>) -> Self {
        let at = *moment.still();
        Self { store, moment, position: Bound::Unbounded, at, end: None, _kept: stored }
    }

    /// Returns the next rows, or `None` after the last.
    pub(crate) fn rows(&mut self) -> Result<Option<Vec<Write>>, StoreError> {
        let mut rows = Vec::new();
        let add = |space, key, value| {
            // The change log belongs to no space and is not copied.
            rows.extend(Space::of_number(space).map(|space| Write { space, key, value: Some(value) }));
            Ok(())
        };
        let last = {
            let _still = self.moment.still();
            walk_some(&self.moment.tree(), self.position.clone(), SOME_BYTES, add)?
        };
        let Some(last) = last else { return Ok(None) };
        self.position = Bound::Excluded(last);
        Ok(Some(rows))
    }

    /// Returns the number of the newest frame.
    pub(crate) fn newest(&self) -> u64 {
        self.moment.still().sequence
    }

    /// Returns the combined changes of the next frames up to `until`, or of some of them. Returns `None` once all have
    /// been returned.
    pub(crate) fn changes(&mut self, until: u64) -> Result<Option<Vec<Write>>, StoreError> {
        if self.at.sequence >= until {
            return Ok(None);
        }
        let wrong = |error: JournalError| StoreError::Away(error.to_string());
        let walk = match self.end.take() {
            Some(end) => FrameWalk::next_segment(&self.store, end),
            None => FrameWalk::start(&self.store, self.at.sequence, self.at.link),
        };
        let mut walk = walk.map_err(wrong)?;
        let (mut rows, mut bytes) = (BTreeMap::new(), 0);
        while self.at.sequence < until && bytes < GATHERED {
            let ends = || StoreError::Away("the journal ends before a frame that was written".to_owned());
            let frame = walk.next().map_err(wrong)?.ok_or_else(ends)?;
            (self.at.sequence, self.at.link) = (frame.sequence(), frame.link());
            for part in parts_of(&self.store, &frame).map_err(wrong)? {
                self.at.totals.set(&part.totals);
                for RowPart { space, key, value } in part.rows {
                    bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                    rows.insert((space, key), value);
                }
            }
        }
        self.end = Some(walk.end());
        let write = |((space, key), value)| Some(Write { space: Space::of_number(space)?, key, value });
        Ok(Some(rows.into_iter().filter_map(write).collect()))
    }

    /// Returns the totals after the frames returned so far.
    pub(crate) fn sums(&self) -> RowSums {
        RowSums::of(self.at.totals)
    }
}
