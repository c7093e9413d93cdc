//! A tree's position: the last frame that it includes, and its totals there. It is stored in the tree, in the same
//! batch as each frame.

use serde::{Deserialize, Serialize};
use sled::{Batch, Tree};

use crate::{
    SpaceSize, SpaceSizes, StoreError,
    journal::{ChainLink, SpaceTotals},
};

/// The key of the position in the tree.
const KEY: &[u8] = b"\xfeposition";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct TreePosition {
    /// The last frame that it includes.
    pub(super) sequence: u64,
    /// The last frame that was on disk at that time.
    pub(super) synced: u64,
    /// The hashes of the frames that it includes.
    pub(super) link: ChainLink,
    pub(super) totals: SpaceTotals,
}

impl TreePosition {
    /// Reads the position of a tree, or returns `None` if it has none.
    pub(super) fn of(tree: &Tree) -> Result<Option<Self>, StoreError> {
        let stored = tree.get(KEY).map_err(StoreError::away)?;
        Ok(stored.and_then(|bytes| postcard::from_bytes(&bytes).ok()))
    }

    /// Stores the position in `batch`.
    pub(super) fn keep(&self, batch: &mut Batch) -> Result<(), StoreError> {
        batch.insert(KEY, postcard::to_stdvec(self).map_err(StoreError::away)?);
        Ok(())
    }

    pub(super) fn sizes(&self) -> SpaceSizes {
        let held = self.totals.spaces().filter(|(_, total)| total.entries > 0);
        let spaces = held.map(|(space, total)| (space, SpaceSize { entries: total.entries, bytes: total.bytes })).collect();
        SpaceSizes { spaces, complete: true, ..SpaceSizes::default() }
    }
}
