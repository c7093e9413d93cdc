//! Keys and settings that all replicas of a store share. Of keys, the store contains only the ids.

use serde::{Deserialize, Serialize};
use tollhouse_base::id::ReplicaId;
use tollhouse_store::{Batch, Durability, StoreError, Table, json_values, schema};

use super::Replica;

const KEYS: Table<String, SharedKey> = schema::KEYS.holding();

/// The key that encrypts secrets.
pub const MASTER_KEY: &str = "master";
/// The token of admins.
pub const ADMIN_TOKEN: &str = "admin";
/// The key that signs receipts.
pub const RECEIPT_KEY: &str = "receipts";
/// Settings of payments, as text.
pub const PAYMENT_SETTINGS: &str = "payments";

/// The id of the key that all replicas share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SharedKey {
    id: String,
    /// The replica that set it at its start, for keys where that matters.
    announced_by: Option<ReplicaId>,
}
json_values!(SharedKey);

impl Replica {
    /// Returns the id of the shared key for `what`. That is `ours` if none was set before or the store is not shared.
    pub async fn agreed(&self, what: &str, ours: &str) -> Result<String, StoreError> {
        if !self.shared {
            return Ok(ours.to_owned());
        }
        let name = what.to_owned();
        loop {
            if let Some(SharedKey { id, .. }) = KEYS.get(&*self.store, &name).await? {
                return Ok(id);
            }
            let mut batch = Batch::new();
            batch.insert(&KEYS, &name, &SharedKey { id: ours.to_owned(), announced_by: None });
            // If it has changed, another replica came first.
            batch.commit_if_unchanged(&*self.store, Durability::Durable).await?;
        }
    }

    /// Returns the id of the shared key for `what`, if one was set.
    pub async fn shared_value(&self, what: &str) -> Result<Option<String>, StoreError> {
        Ok(KEYS.get(&*self.store, &what.to_owned()).await?.map(|SharedKey { id, .. }| id))
    }

    /// Sets the shared key for `what`. Running replicas are not consulted. Replicas that start must have it.
    pub async fn agree_on(&self, what: &str, ours: &str) -> Result<(), StoreError> {
        if !self.shared {
            return Ok(());
        }
        KEYS.put(&what.to_owned(), &SharedKey { id: ours.to_owned(), announced_by: None })
            .commit(&*self.store, Durability::Durable)
            .await
            .map(drop)
    }

    /// Sets the shared key for `what`, unless a live replica set another one at its start, which is returned then. Of
    /// several that start together, the first decides. The caller must hold its lease.
    pub async fn announce(&self, what: &str, ours: &str) -> Result<Option<String>, StoreError> {
        if !self.shared {
            return Ok(None);
        }
        let name = what.to_owned();
        let announced = SharedKey { id: ours.to_owned(), announced_by: Some(self.id.clone()) };
        loop {
            let row = KEYS.row(&*self.store, &name).await?;
            if let Some(row) = &row
                && self.holds_lease(row.value.announced_by.as_ref()).await?
            {
                return Ok(Some(row.value.id.clone()).filter(|id| id != ours));
            }
            let mut batch = Batch::new();
            batch.replace_or_insert(&KEYS, row.as_ref(), &name, &announced);
            if batch.commit_if_unchanged(&*self.store, Durability::Durable).await? {
                return Ok(None);
            }
        }
    }
}
