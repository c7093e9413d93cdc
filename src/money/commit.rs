//! Commits that may meet a concurrent change.

use tollhouse_store::{Batch, Durability, Store, StoreError};

/// Commits a batch. Returns false if a row that it requires has changed.
pub(crate) async fn commit_if_unchanged(batch: Batch, store: &dyn Store, durability: Durability) -> Result<bool, StoreError> {
    match batch.commit(store, durability).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict) => Ok(false),
        Err(error) => Err(error),
    }
}
