//! The moment that readers see: where the tree is, and how far counting it again has come.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicU64};

use sled::Tree;

use super::{position::Position, recount::Recount};
use crate::store::{Space, StoreError};

/// Where readers find the tree.
#[derive(Debug, Default)]
pub(super) struct Moment {
    /// Held shared by whoever reads more than one key, and alone while a group is applied.
    pub(super) position: RwLock<Position>,
    /// What is being counted again while others write.
    pub(super) recount: Mutex<Recount>,
    /// Bytes of frames that the tree has taken and may not have written out.
    pub(super) behind: AtomicU64,
}

impl Moment {
    /// Counts a space while others write; whether it holds what its total says. `None` if `ended` says so first.
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
}
