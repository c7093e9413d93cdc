//! When the ledger of a store was opened.

use serde::{Deserialize, Serialize};
use tollhouse_base::boxed;
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_store::{Durability, Store, StoreError, Table, schema};

pub(crate) const OPENED: Table<(), LedgerStart> = schema::LEDGER_OPENED.holding();
tollhouse_store::json_values!(LedgerStart);

/// The time since which every movement of money has a posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerStart {
    /// The first start of a host of this store.
    pub at: Timestamp,
}

/// Returns when the ledger was opened, or `None` if no host has used the store yet.
#[boxed]
pub async fn opened(store: &dyn Store) -> Result<Option<LedgerStart>, StoreError> {
    OPENED.get(store, &()).await
}

/// Records that the ledger is open, unless it is. Call it before anything else uses the store.
#[boxed]
pub async fn open(store: &dyn Store, clock: &Clock) -> Result<(), StoreError> {
    if opened(store).await?.is_some() {
        return Ok(());
    }
    let mut batch = OPENED.put(&(), &LedgerStart { at: clock.now() });
    batch.absent(&OPENED, &());
    // Another host of the store may be faster.
    batch.commit_if_unchanged(store, Durability::Durable).await.map(drop)
}
