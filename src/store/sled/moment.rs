//! The moment that readers see: the tree and where it is, what is made beside it from it, and how far counting it again has come.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
};

use sled::{Batch, Db, Tree};

use super::{away::away, position::Position, recount::Recount};
use crate::store::{Space, StoreError};

/// Where readers find the tree.
#[derive(Debug)]
pub(super) struct Moment {
    /// Held shared by whoever reads more than one key, and alone while a group is applied. Taken before the tree.
    pub(super) position: RwLock<Position>,
    /// What is being counted again while others write.
    pub(super) recount: Mutex<Recount>,
    tree: RwLock<Db>,
    /// A tree that is being filled: what is applied to the other is applied to it.
    next: Mutex<Option<Db>>,
}

impl Moment {
    pub(super) fn new(tree: Db, position: Position) -> Self {
        Self { position: RwLock::new(position), recount: Mutex::default(), tree: RwLock::new(tree), next: Mutex::default() }
    }

    /// The tree, for one read: another is put in its place in between.
    pub(super) fn tree(&self) -> RwLockReadGuard<'_, Db> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies what leads to the position that the caller holds alone.
    pub(super) fn apply(&self, batch: Batch) -> sled::Result<()> {
        let mut next = self.next();
        let same = next.as_ref().map(|tree| (tree, batch.clone()));
        self.tree().apply_batch(batch)?;
        if let Some((tree, batch)) = same
            && !matches!(catch_unwind(AssertUnwindSafe(|| tree.apply_batch(batch))), Ok(Ok(())))
        {
            // It is not the same any more: whoever fills it finds it gone.
            *next = None;
        }
        Ok(())
    }

    /// From now on `tree` gets what the other does.
    pub(super) fn follow(&self, tree: Db) {
        *self.next() = Some(tree);
    }

    /// Whether the tree that follows got all there was.
    pub(super) fn is_followed(&self) -> bool {
        self.next().is_some()
    }

    /// No tree follows any more.
    pub(super) fn unfollow(&self) {
        *self.next() = None;
    }

    /// Puts the tree that follows in the place of the other, which it answers; `None` where none got all there was.
    pub(super) fn replace(&self) -> Option<Db> {
        let _alone = self.position.write().unwrap_or_else(PoisonError::into_inner);
        let next = self.next().take()?;
        Some(std::mem::replace(&mut *self.tree.write().unwrap_or_else(PoisonError::into_inner), next))
    }

    /// Has what was applied on disk.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let tree = self.tree().clone();
        tree.flush().map_err(away)?;
        Ok(())
    }

    /// Counts a space of a tree while others write; whether it holds what its total says. `None` if `ended` says so first.
    pub(super) fn recount(&self, tree: &Tree, space: Space, ended: impl Fn() -> bool) -> Option<Result<bool, StoreError>> {
        let counting = || -> MutexGuard<'_, Recount> { self.recount.lock().unwrap_or_else(PoisonError::into_inner) };
        counting().start(space);
        loop {
            if ended() {
                return None;
            }
            let position = self.position.read().unwrap_or_else(PoisonError::into_inner);
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

    fn next(&self) -> MutexGuard<'_, Option<Db>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
