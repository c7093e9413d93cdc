//! Keys: those that all replicas of a store have to have. The store knows them by their ids.

use serde::{Deserialize, Serialize};
use tollhouse_base::id::ReplicaId;
use tollhouse_store::{Batch, Durability, StoreError, Table, json_values, schema};

use super::Replica;

const KEYS: Table<String, Agreed> = schema::KEYS.holding();

/// What secrets are sealed by.
pub const MASTER_KEY: &str = "master";
/// What admins show.
pub const ADMIN_TOKEN: &str = "admin";
/// What receipts are signed by.
pub const RECEIPT_KEY: &str = "receipts";

/// The key that all replicas have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Agreed {
    id: String,
    /// Who said so as it began, where that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said_by: Option<ReplicaId>,
}
json_values!(Agreed);

impl Replica {
    /// The id of the key for `what` that all replicas have: `ours`, where none was agreed on before, or nobody else can be.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn agreed(&self, what: &str, ours: &str) -> Result<String, StoreError> {
        if !self.shared {
            return Ok(ours.to_owned());
        }
        let name = what.to_owned();
        loop {
            if let Some(Agreed { id, .. }) = KEYS.get(&*self.store, &name).await? {
                return Ok(id);
            }
            let mut batch = Batch::new();
            batch.insert(&KEYS, &name, &Agreed { id: ours.to_owned(), said_by: None });
            match batch.commit(&*self.store, Durability::Durable).await {
                // Another one came first.
                Ok(_) | Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Has this be the key for `what` from now on. Who runs already is not asked; who starts must know it.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn agree_on(&self, what: &str, ours: &str) -> Result<(), StoreError> {
        if !self.shared {
            return Ok(());
        }
        KEYS.put(&what.to_owned(), &Agreed { id: ours.to_owned(), said_by: None }).commit(&*self.store, Durability::Durable).await.map(drop)
    }

    /// Has this be the key for `what`, unless one that lives has said another as it began: that is answered then. Of those that begin at
    /// one moment the first to say so decides. Called by who holds its lease.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn say(&self, what: &str, ours: &str) -> Result<Option<String>, StoreError> {
        if !self.shared {
            return Ok(None);
        }
        let name = what.to_owned();
        let said = Agreed { id: ours.to_owned(), said_by: Some(self.id.clone()) };
        loop {
            let mut batch = Batch::new();
            match KEYS.row(&*self.store, &name).await? {
                Some(row) if self.holds_lease(row.value.said_by.as_ref()).await? => return Ok(Some(row.value.id).filter(|id| id != ours)),
                Some(row) => batch.replace(&KEYS, &row, &said),
                None => batch.insert(&KEYS, &name, &said),
            };
            match batch.commit(&*self.store, Durability::Durable).await {
                Ok(_) => return Ok(None),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
