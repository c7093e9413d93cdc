//! Whether commits are taken, and what else is amiss.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::store::StoreError;

/// Why commits are refused, if they are, and why the tree grows, if it does.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Until the host is started again.
    ended: OnceLock<String>,
    /// Until there is room on the disk.
    full: Mutex<Option<String>>,
    /// Why a tree that is much larger than what it holds could not be renewed, until it could.
    grows: Mutex<Option<String>>,
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
