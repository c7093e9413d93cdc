//! The state that a store's tasks share.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use super::{address::PostgresConfig, error::OpenError, pending::PendingCommits, readers::ReadPool, sizes::KnownSizes};
use crate::{Durability, StoreError};

/// The state that a store's tasks share.
pub(super) struct PostgresShared {
    pub(super) config: PostgresConfig,
    pub(super) pending: PendingCommits,
    pub(super) readers: ReadPool,
    pub(super) sizes: KnownSizes,
    /// Number of transactions that were on disk when they were confirmed.
    pub(super) syncs: AtomicU64,
    /// Whether some commits may not be on disk yet.
    pub(super) buffered: AtomicBool,
    /// Why the last attempt to connect failed.
    failed: Mutex<String>,
}

impl PostgresShared {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self {
            readers: ReadPool::new(config.clone()),
            pending: PendingCommits::of(config.together),
            sizes: KnownSizes::default(),
            syncs: AtomicU64::new(0),
            buffered: AtomicBool::new(false),
            config,
            failed: Mutex::new("no connection took it in time".to_owned()),
        }
    }

    /// Records why a connection failed.
    pub(super) fn fails(&self, error: &OpenError) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = error.in_full();
    }

    /// Returns the error of a commit that was not sent.
    pub(super) fn away(&self) -> StoreError {
        StoreError::Away(self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Records that something was committed.
    pub(super) fn wrote(&self, durability: Durability) {
        match durability {
            Durability::Durable => _ = self.syncs.fetch_add(1, Relaxed),
            Durability::Buffered => self.buffered.store(true, Relaxed),
        }
    }

    /// Reads the sizes of all spaces, including changes by other processes.
    pub(super) async fn recount(&self) -> Result<(), StoreError> {
        let counted = self.readers.ask(|reader| async move { reader.sizes().await }).await?;
        self.sizes.learn(counted);
        Ok(())
    }
}
