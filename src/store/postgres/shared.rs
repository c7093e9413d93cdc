//! What the tasks of a store share.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use super::{address::PostgresConfig, error::OpenError, pending::Pending, readers::Readers, sizes::Known};
use crate::{Durability, StoreError};

/// What the tasks of a store share.
pub(super) struct Shared {
    pub(super) config: PostgresConfig,
    pub(super) pending: Pending,
    pub(super) readers: Readers,
    pub(super) sizes: Known,
    /// Transactions that were on disk when they were answered.
    pub(super) syncs: AtomicU64,
    /// Whether anything was committed that may not be on disk yet.
    pub(super) buffered: AtomicBool,
    /// Why there was no connection, the last time.
    failed: Mutex<String>,
}

impl Shared {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self {
            readers: Readers::new(config.clone()),
            pending: Pending::of(config.together),
            sizes: Known::default(),
            syncs: AtomicU64::new(0),
            buffered: AtomicBool::new(false),
            config,
            failed: Mutex::new("no connection took it in time".to_owned()),
        }
    }

    /// Remembers why there is no connection.
    pub(super) fn fails(&self, error: &OpenError) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = error.in_full();
    }

    /// What a commit is told that was not sent.
    pub(super) fn away(&self) -> StoreError {
        StoreError::Away(self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Remembers that something was committed.
    pub(super) fn wrote(&self, durability: Durability) {
        match durability {
            Durability::Durable => _ = self.syncs.fetch_add(1, Relaxed),
            Durability::Buffered => self.buffered.store(true, Relaxed),
        }
    }

    /// Reads what spaces hold, whoever wrote it.
    pub(super) async fn recount(&self) -> Result<(), StoreError> {
        let counted = self.readers.ask(|reader| async move { reader.sizes().await }).await?;
        self.sizes.learn(counted);
        Ok(())
    }
}
