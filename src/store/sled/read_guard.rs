//! The snapshot that readers see: the tree, its position, and the progress of verifying it.

use std::{
    ops::Bound,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU64},
};

use arc_swap::{ArcSwap, Guard};
use sled::{Db, Tree};
use tollhouse_base::lock::Lock;

use super::{position::TreePosition, recount::Recount, rows::walk_some};
use crate::{Space, StoreError};

/// The tree that readers see.
#[derive(Debug)]
pub(super) struct TreeHandle {
    /// It is replaced only while `position` is locked exclusively.
    tree: ArcSwap<Db>,
    /// Locked shared by readers of more than one key, and exclusively while a group is applied.
    position: RwLock<TreePosition>,
    /// Progress of verifying a space while others write.
    pub(super) recount: Lock<Recount>,
    /// Bytes of frames that the tree has taken and may not have written out.
    pub(super) behind: AtomicU64,
}

impl TreeHandle {
    pub(super) fn new(tree: Db, position: TreePosition) -> Self {
        Self { tree: ArcSwap::from_pointee(tree), position: RwLock::new(position), recount: Lock::default(), behind: AtomicU64::new(0) }
    }

    /// Returns the current tree. Readers of more than one key must hold [`TreeHandle::still`] when they call it.
    pub(super) fn tree(&self) -> Guard<Arc<Db>> {
        self.tree.load()
    }

    /// Replaces the tree with one that has the same contents. `_alone` proves that nothing is applied meanwhile. Returns the
    /// old tree.
    pub(super) fn replace(&self, tree: Db, _alone: &RwLockWriteGuard<'_, TreePosition>) -> Arc<Db> {
        self.tree.swap(Arc::new(tree))
    }

    /// Locks the position for reading. Nothing is applied while the guard is held.
    pub(super) fn still(&self) -> RwLockReadGuard<'_, TreePosition> {
        self.position.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the position for applying changes or replacing the tree. Nobody reads more than one key while the guard is
    /// held.
    pub(super) fn alone(&self) -> RwLockWriteGuard<'_, TreePosition> {
        self.position.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the next rows as [`walk_some`] does. Nothing is applied meanwhile.
    pub(super) fn walk(
        &self,
        position: &mut Bound<Vec<u8>>,
        max: usize,
        add: impl FnMut(u8, Vec<u8>, Vec<u8>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let _still = self.still();
        walk_some(&self.tree(), position, max, add)
    }

    /// Verifies the total of a space while others write. Returns whether it is right, or `None` if `ended` returns true
    /// first.
    pub(super) fn recount(&self, tree: &Tree, space: Space, ended: impl Fn() -> bool) -> Option<Result<bool, StoreError>> {
        self.recount.lock().start(space);
        loop {
            if ended() {
                return None;
            }
            let position = self.still();
            let found = self.recount.lock().some(tree);
            match found {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let mut totals = position.totals;
                    return Some(Ok(totals.of(space as u8).is_some_and(|stated| *stated == found)));
                }
                Err(error) => return Some(Err(error)),
            }
            drop(position);
            // Let waiting writers go first.
            std::thread::yield_now();
        }
    }
}
