//! The state that a store's tasks share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::timeout;
use tollhouse_base::{error_chain::full_message, lock::Lock};

use super::{address::PostgresConfig, error::OpenError, pending::PendingCommits, readers::ReadPool, sizes::KnownSizes};
use crate::{Batch, Durability, StoreError};

/// Maximum time until a buffered commit is made durable.
const BUFFERED: Duration = Duration::from_millis(250);
/// Maximum wait for the answer.
const WAIT: Duration = Duration::from_secs(10);
/// Number of ticks between two reads of the sizes.
const COUNTED: u64 = 20;

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
    failed: Lock<String>,
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
            failed: Lock::new("no connection took it in time".to_owned()),
        }
    }

    /// Records why a connection failed.
    pub(super) fn fails(&self, error: &OpenError) {
        *self.failed.lock() = full_message(error);
    }

    /// Returns the error of a commit that was not sent.
    pub(super) fn away(&self) -> StoreError {
        StoreError::Away(self.failed.lock().clone())
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
        let counted = self.readers.query(|reader| async move { reader.sizes().await }).await?;
        self.sizes.learn(counted);
        Ok(())
    }

    /// Makes buffered commits durable, and reads sizes changed by other processes, until the store is dropped.
    pub(super) async fn maintain(self: Arc<Self>) {
        let mut tick = tokio::time::interval(BUFFERED);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for turn in 1_u64.. {
            tick.tick().await;
            if self.pending.has_ended() {
                return;
            }
            if self.buffered.swap(false, Relaxed) {
                let (_, answer) = self.pending.push(Batch::new(), Durability::Durable, None);
                if !matches!(timeout(WAIT, answer).await, Ok(Ok(Ok(_)))) {
                    self.buffered.store(true, Relaxed);
                }
            }
            if turn.is_multiple_of(COUNTED)
                && let Err(error) = self.recount().await
            {
                tracing::debug!(%error, "the sizes of spaces could not be read");
            }
        }
    }
}
