//! Follows the journal: reads the frames after a position and combines them, so that each key appears once.

use std::{collections::BTreeMap, path::PathBuf};

use super::{common::parts_of, position::TreePosition};
use crate::{
    StoreError,
    journal::{FramePart, FrameWalk, JournalEnd, RowPart},
};

/// A reader of the frames after a position. The journal must keep them meanwhile.
pub(super) struct FrameFollower {
    store: PathBuf,
    /// Position of the last frame returned, with the totals that the frames state.
    pub(super) at: TreePosition,
    end: Option<JournalEnd>,
}

impl FrameFollower {
    pub(super) fn new(store: PathBuf, at: TreePosition) -> Self {
        Self { store, at, end: None }
    }

    /// Combines the next frames up to frame `until`, which has been written, or about `max` bytes of them. Returns
    /// `None` once there are none left.
    pub(super) fn next(&mut self, until: u64, max: usize) -> Result<Option<FramePart>, StoreError> {
        if self.at.sequence >= until {
            return Ok(None);
        }
        let walk = match self.end.take() {
            Some(end) => FrameWalk::next_segment(&self.store, end),
            None => FrameWalk::start(&self.store, self.at.sequence, self.at.link),
        };
        let mut walk = walk.map_err(StoreError::away)?;
        let (mut rows, mut change, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
        while self.at.sequence < until && bytes < max {
            let ends = || StoreError::Away("the journal ends before a frame that was written".to_owned());
            let frame = walk.next().map_err(StoreError::away)?.ok_or_else(ends)?;
            (self.at.sequence, self.at.link) = (frame.sequence(), frame.link());
            for part in parts_of(&self.store, &frame).map_err(StoreError::away)? {
                self.at.totals.set(&part.totals);
                change.extend(part.change);
                for RowPart { space, key, value } in part.rows {
                    bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                    rows.insert((space, key), value);
                }
            }
        }
        self.end = Some(walk.end());
        let rows = rows.into_iter().map(|((space, key), value)| RowPart { space, key, value }).collect();
        Ok(Some(FramePart { rows, change, ..FramePart::default() }))
    }
}
