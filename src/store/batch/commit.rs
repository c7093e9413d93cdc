//! Commits a batch, and counts it in the metrics.

use std::time::Instant;

use tollhouse_telemetry::counters::{COMMIT_SECONDS, COMMITS};

use super::Batch;
use crate::{Durability, Store, StoreError};

impl Batch {
    /// Returns whether the row of the first write exists. For a batch of new rows whose commit was not confirmed, that
    /// shows whether it happened.
    pub async fn was_committed(&self, store: &(impl Store + ?Sized)) -> Result<bool, StoreError> {
        match self.writes.first() {
            Some(write) => Ok(store.get(write.space, &write.key).await?.is_some()),
            None => Ok(true),
        }
    }

    /// Commits the batch. Returns the new sums of its additions, in order.
    pub async fn commit(self, store: &(impl Store + ?Sized), durability: Durability) -> Result<Vec<i128>, StoreError> {
        let started = Instant::now();
        let committed = store.apply(self, durability).await;
        let durability = match durability {
            Durability::Durable => "durable",
            Durability::Buffered => "buffered",
        };
        let outcome = match &committed {
            Ok(_) => "ok",
            Err(StoreError::Conflict) => "conflict",
            Err(StoreError::Beyond { .. }) => "beyond",
            Err(StoreError::LockTimeout(_)) => "lock_timeout",
            Err(StoreError::Unknown(_)) => "unknown",
            Err(_) => "away",
        };
        COMMIT_SECONDS.observe(durability, started.elapsed());
        COMMITS.count([durability, outcome]);
        committed
    }

    /// Commits the batch. Returns false if a row that it requires has changed.
    pub async fn commit_if_unchanged(self, store: &(impl Store + ?Sized), durability: Durability) -> Result<bool, StoreError> {
        match self.commit(store, durability).await {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
