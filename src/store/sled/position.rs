//! A tree's position: the last frame that it includes, and its totals there. It is stored in the tree, in the same
//! batch as each frame.

use serde::{Deserialize, Serialize};
use sled::{Batch, Tree};

use super::sink::sled_error;
use crate::{
    SpaceSize, SpaceSizes, StoreError,
    journal::{ChainLink, SpaceTotal, SpaceTotals},
};

/// The key of the position in the tree.
const KEY: &[u8] = b"\xfeposition";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TreePosition {
    /// The last frame that it includes.
    pub(super) sequence: u64,
    /// The last frame that was on disk at that time.
    pub(super) synced: u64,
    /// The hashes of the frames that it includes.
    pub(super) link: ChainLink,
    pub(super) totals: SpaceTotals,
}

/// The stored form of a position.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPosition {
    sequence: u64,
    synced: u64,
    link: ChainLink,
    totals: Vec<(u8, SpaceTotal)>,
}

impl TreePosition {
    /// Reads the position of a tree, or returns `None` if it has none.
    pub(super) fn of(tree: &Tree) -> Result<Option<Self>, StoreError> {
        let stored = tree.get(KEY).map_err(sled_error)?;
        let Some(StoredPosition { sequence, synced, link, totals: listed }) = stored.and_then(|bytes| postcard::from_bytes(&bytes).ok())
        else {
            return Ok(None);
        };
        let mut totals = SpaceTotals::default();
        totals.set(&listed);
        Ok(Some(Self { sequence, synced, link, totals }))
    }

    /// Stores the position in `batch`.
    pub(super) fn keep(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let Self { sequence, synced, link, totals } = *self;
        let stored = postcard::to_stdvec(&StoredPosition { sequence, synced, link, totals: totals.listed() });
        batch.insert(KEY, stored.map_err(|error| StoreError::Away(error.to_string()))?);
        Ok(())
    }

    pub(super) fn sizes(&self) -> SpaceSizes {
        let held = self.totals.spaces().filter(|(_, total)| total.entries > 0);
        let spaces = held.map(|(space, total)| (space, SpaceSize { entries: total.entries, bytes: total.bytes })).collect();
        SpaceSizes { spaces, complete: true, ..SpaceSizes::default() }
    }
}
