//! Whether commits are taken, and what else is amiss.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{StoreError, journal::JournalError};

/// Why commits are refused, if they are, and why the tree grows, if it does.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Until the host is started again.
    ended: OnceLock<String>,
    /// Until there is room on the disk.
    full: Mutex<Option<String>>,
    /// Why a tree that is much larger than what it holds could not be renewed, until it could.
    grows: Mutex<Option<String>>,
    /// A checkpoint or frames that the store can do without as long as its tree is right.
    damage: Mutex<Option<String>>,
}

impl Standing {
    /// Refuses, if commits are refused for good.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.ended.get().map_or(Ok(()), |reason| Err(StoreError::Away(reason.clone())))
    }

    /// Refuses all commits from now on.
    pub(super) fn end(&self, cause: &str) {
        tracing::error!(cause, "the store refuses commits until the host is started again");
        // Of several causes the first one counts.
        _ = self.ended.set(format!("{cause}; start the host again"));
    }

    /// Why there is no room.
    pub(super) fn full(&self) -> Option<String> {
        locked(&self.full).clone()
    }

    /// Refuses commits for want of room.
    pub(super) fn fill(&self, cause: &str) {
        if locked(&self.full).replace(format!("there is no room for it: {cause}; it takes commits again once there is")).is_none() {
            tracing::error!(cause, "the store has no room and refuses commits until it has");
        }
    }

    /// Takes commits again.
    pub(super) fn clear(&self) {
        if locked(&self.full).take().is_some() {
            tracing::info!("the store has room again and takes commits");
        }
    }

    /// What is damaged of what nothing is read from.
    pub(super) fn damage(&self) -> Option<String> {
        locked(&self.damage).clone()
    }

    /// Says that a checkpoint, or frames behind it, are damaged, with what becomes of it.
    pub(super) fn damaged(&self, error: &JournalError) {
        let told = error.to_string();
        if locked(&self.damage).replace(told.clone()).is_none_or(|before| before != told) {
            tracing::warn!(
                damage = told,
                remedy = "the host makes another checkpoint from its tree, which is right; look at the disk, and run `tollhouse store check` \
                          once the host is stopped",
                "the store's checkpoint, or its journal, is damaged: there is one copy of its rows less"
            );
        }
    }

    /// Says that a new checkpoint has taken the place of what was damaged.
    pub(super) fn is_whole_again(&self, frame: u64) {
        if locked(&self.damage).take().is_some() {
            tracing::info!(frame, "the store made a checkpoint in place of the damaged one");
        }
    }

    /// Why the tree could not be renewed.
    pub(super) fn grown(&self) -> Option<String> {
        locked(&self.grows).clone()
    }

    /// Says why the tree could not be renewed, or that it could; answers what was said before.
    pub(super) fn grows(&self, cause: Option<String>) -> Option<String> {
        std::mem::replace(&mut *locked(&self.grows), cause)
    }
}

fn locked(cause: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    cause.lock().unwrap_or_else(PoisonError::into_inner)
}
