//! Where the tree is: the frame it was brought to, and what its spaces hold there. Kept in the tree, in the batch of each frame.

use serde::{Deserialize, Serialize};
use sled::{Batch, Tree};

use super::{away::away, values::Change};
use crate::{
    Size, Sizes, StoreError,
    journal::{Link, Total, Totals},
};

/// Where it lies.
const KEY: &[u8] = b"\xfeposition";

/// Where a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    /// The last frame that is in it.
    pub(super) sequence: u64,
    /// The last frame that was on disk by then.
    pub(super) synced: u64,
    /// What the frames in it come to.
    pub(super) link: Link,
    pub(super) totals: Totals,
}

/// As it lies in the tree.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    sequence: u64,
    synced: u64,
    link: Link,
    totals: Vec<(u8, Total)>,
}

impl Position {
    /// That of a tree; `None` where it tells none.
    pub(super) fn of(tree: &Tree) -> Result<Option<Self>, StoreError> {
        let stored = tree.get(KEY).map_err(away)?;
        let Some(Stored { sequence, synced, link, totals: said }) = stored.and_then(|bytes| postcard::from_bytes(&bytes).ok()) else {
            return Ok(None);
        };
        let mut totals = Totals::default();
        totals.set(&said);
        Ok(Some(Self { sequence, synced, link, totals }))
    }

    /// Has `batch` bring the tree here.
    pub(super) fn keep(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let Self { sequence, synced, link, totals } = *self;
        let stored = postcard::to_stdvec(&Stored { sequence, synced, link, totals: totals.listed() });
        batch.insert(KEY, stored.map_err(|error| StoreError::Away(error.to_string()))?);
        Ok(())
    }

    /// Counts what a commit changes; answers the number of the space.
    pub(super) fn count(&mut self, change: &Change) -> Option<u8> {
        let space = *change.place.first()?;
        self.totals.of(space)?.change(change.before, change.after);
        Some(space)
    }

    pub(super) fn sizes(&self) -> Sizes {
        let held = self.totals.spaces().filter(|(_, total)| total.entries > 0);
        let spaces = held.map(|(space, total)| (space, Size { entries: total.entries, bytes: total.bytes })).collect();
        Sizes { spaces, complete: true, ..Sizes::default() }
    }
}
