//! The health of the store: whether it accepts commits, and other problems.

use std::sync::OnceLock;

use tollhouse_base::lock::Lock;

use crate::{StoreError, journal::JournalError};

/// Why commits are refused, if they are, and other problems of the store.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    /// Why commits are refused until the host is restarted.
    ended: OnceLock<String>,
    /// Why commits are refused until there is free space.
    full: Lock<Option<String>>,
    /// Why an oversized tree could not be renewed, until a renewal succeeds.
    grows: Lock<Option<String>>,
    /// Damage to a checkpoint or to frames, which the store does not need while its tree is intact.
    damage: Lock<Option<String>>,
    /// Damage to the archive, which only a repair ends.
    archive: OnceLock<String>,
}

impl StoreHealth {
    /// Fails if commits are refused until a restart.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.ended.get().map_or(Ok(()), |reason| Err(StoreError::Away(reason.clone())))
    }

    /// Refuses all commits until a restart.
    pub(super) fn end(&self, cause: &str) {
        tracing::error!(cause, "the store refuses commits until the host is restarted");
        // The first cause is kept.
        _ = self.ended.set(format!("{cause}; start the host again"));
    }

    /// Returns why the store is full, if it is.
    pub(super) fn full(&self) -> Option<String> {
        self.full.lock().clone()
    }

    /// Refuses commits until there is free space.
    pub(super) fn fill(&self, cause: &str) {
        if self.full.lock().replace(format!("the disk is full: {cause}; the store accepts commits again once there is room")).is_none() {
            tracing::error!(cause, "the store's disk is full; commits are refused until there is room");
        }
    }

    /// Accepts commits again.
    pub(super) fn clear(&self) {
        if self.full.lock().take().is_some() {
            tracing::info!("the store has room again and accepts commits");
        }
    }

    /// Returns the damage to files that are not needed now, if any.
    pub(super) fn damage(&self) -> Option<String> {
        let damage = self.damage.lock().clone();
        let all: Vec<_> = damage.into_iter().chain(self.archive.get().cloned()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Records and logs damage to the archive. The first damage is kept.
    pub(super) fn archive_damaged(&self, error: &JournalError) {
        if self.archive.set(error.to_string()).is_ok() {
            tracing::error!(
                damage = %error,
                remedy = "stop the host, then restore the file from a copy of the data folder, or record the gap with `tollhouse store \
                          repair`",
                "the archive of money records is damaged; the host runs without it"
            );
        }
    }

    /// Records and logs damage to a checkpoint or to frames after it.
    pub(super) fn damaged(&self, error: &JournalError) {
        let text = error.to_string();
        if self.damage.lock().replace(text.clone()).is_none_or(|before| before != text) {
            tracing::warn!(
                damage = text,
                remedy = "the host makes another checkpoint from its tree, which is intact; check the disk, and run `tollhouse store check` \
                          once the host is stopped",
                "the store's checkpoint, or its journal, is damaged: its rows have one copy less"
            );
        }
    }

    /// Logs that a new checkpoint has replaced the damaged files.
    pub(super) fn mark_repaired(&self, frame: u64) {
        if self.damage.lock().take().is_some() {
            tracing::info!(frame, "the store made a checkpoint in place of the damaged one");
        }
    }

    /// Returns why the tree could not be renewed, if so.
    pub(super) fn grown(&self) -> Option<String> {
        self.grows.lock().clone()
    }

    /// Records why the tree could not be renewed, or that it could. Returns the previous cause.
    pub(super) fn grows(&self, cause: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.grows.lock(), cause)
    }
}
