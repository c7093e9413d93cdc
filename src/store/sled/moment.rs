//! The moment that readers see: where the tree is, and how far counting it again has come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicU64};

use arc_swap::{ArcSwap, Guard};
use sled::{Db, Tree};

use super::{position::Position, recount::Recount};
use crate::{Space, StoreError};

/// Where readers find the tree.
#[derive(Debug)]
pub(super) struct Moment {
    /// Another takes its place while `position` is held alone.
    tree: ArcSwap<Db>,
    /// Held shared by whoever reads more than one key, and alone while a group is applied.
    position: RwLock<Position>,
    /// What is being counted again while others write.
    pub(super) recount: Mutex<Recount>,
    /// Bytes of frames that the tree has taken and may not have written out.
    pub(super) behind: AtomicU64,
}

impl Moment {
    pub(super) fn new(tree: Db, position: Position) -> Self {
        Self { tree: ArcSwap::from_pointee(tree), position: RwLock::new(position), recount: Mutex::default(), behind: AtomicU64::new(0) }
    }

    /// The tree as it is now. Who reads more than one key asks for it while nothing is applied.
    pub(super) fn tree(&self) -> Guard<Arc<Db>> {
        self.tree.load()
    }

    /// Puts another tree, which holds the same, in its place; `_alone` says that nothing is applied meanwhile. Answers the one before.
    pub(super) fn replace(&self, tree: Db, _alone: &RwLockWriteGuard<'_, Position>) -> Arc<Db> {
        self.tree.swap(Arc::new(tree))
    }

    /// Where the tree is. Nothing is applied while it is held.
    pub(super) fn still(&self) -> RwLockReadGuard<'_, Position> {
        self.position.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for who applies something, or replaces the tree. Nobody reads more than one key while it is held.
    pub(super) fn alone(&self) -> RwLockWriteGuard<'_, Position> {
        self.position.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a space while others write; whether it holds what its total says. `None` if `ended` says so first.
    pub(super) fn recount(&self, tree: &Tree, space: Space, ended: impl Fn() -> bool) -> Option<Result<bool, StoreError>> {
        let counting = || -> MutexGuard<'_, Recount> { self.recount.lock().unwrap_or_else(PoisonError::into_inner) };
        counting().start(space);
        loop {
            if ended() {
                return None;
            }
            let position = self.still();
            let found = counting().some(tree);
            match found {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let mut totals = position.totals;
                    return Some(Ok(totals.of(space as u8).is_some_and(|said| *said == found)));
                }
                Err(error) => return Some(Err(error)),
            }
            drop(position);
            // Whoever waits to write goes first.
            std::thread::yield_now();
        }
    }
}
