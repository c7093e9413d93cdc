//! A batch on its way to the store.

use super::Batch;
use crate::{Durability, Store, StoreError, counted::counted};

impl Batch {
    /// Whether the row of its first write is there: tells of a batch of new rows, whose commit was not confirmed, if it
    /// happened.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn was_committed(&self, store: &(impl Store + ?Sized)) -> Result<bool, StoreError> {
        match self.writes.first() {
            Some(write) => Ok(store.get(write.space, &write.key).await?.is_some()),
            None => Ok(true),
        }
    }

    /// Commits it; answers what the sums of its additions became, in their order.
    ///
    /// # Errors
    ///
    /// As [`Store::apply`].
    pub async fn commit(self, store: &(impl Store + ?Sized), durability: Durability) -> Result<Vec<i128>, StoreError> {
        counted(store.apply(self, durability), durability).await
    }
}
