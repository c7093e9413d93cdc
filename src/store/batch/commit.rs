//! Committing a batch.

use super::Batch;
use crate::{Durability, Store, StoreError, counted::counted};

impl Batch {
    /// Returns whether the row of the first write exists. For a batch of new rows whose commit was not confirmed, that
    /// shows whether it happened.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn was_committed(&self, store: &(impl Store + ?Sized)) -> Result<bool, StoreError> {
        match self.writes.first() {
            Some(write) => Ok(store.get(write.space, &write.key).await?.is_some()),
            None => Ok(true),
        }
    }

    /// Commits the batch. Returns the new sums of its additions, in order.
    ///
    /// # Errors
    ///
    /// The same as for [`Store::apply`].
    pub async fn commit(self, store: &(impl Store + ?Sized), durability: Durability) -> Result<Vec<i128>, StoreError> {
        counted(store.apply(self, durability), durability).await
    }
}
