//! Marks: what a store says of itself that is being filled, or whose rows have gone elsewhere. Neither is ever copied.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::{Batch, Durability, Row, Store, StoreError, Table, fill, json_values, schema};

use super::BackupError;

const FILLED_BY: Table<(), FilledBy> = schema::FILLED_BY.holding();
const DEPARTED: Table<(), Departed> = schema::DEPARTED.holding();

/// Who fills a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilledBy {
    /// Of one attempt, or of all attempts of one store to move.
    pub id: String,
    /// In what way.
    pub how: How,
    /// When it began.
    pub at: Timestamp,
}
json_values!(FilledBy);

/// A store on its way to be whole.
#[derive(Debug)]
pub struct Filling(Row<(), FilledBy>);

/// In what way a store is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum How {
    /// From a dump.
    Restore,
    /// From another store, whose host then goes on with this one.
    Migration,
}

/// Where the rows of a store go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departed {
    /// Of all attempts of this store to move.
    pub id: String,
    /// Where to, as it may be shown.
    pub to: String,
    /// When they had gone; none where they are still here.
    pub at: Option<Timestamp>,
}
json_values!(Departed);

/// Who fills a store, if it is not known to be whole.
///
/// # Errors
///
/// The store's.
pub async fn filled_by(store: &dyn Store) -> Result<Option<FilledBy>, StoreError> {
    FILLED_BY.get(store, &()).await
}

/// Begins to fill an empty store. What an attempt with the same id has left there goes.
///
/// # Errors
///
/// [`BackupError::NotEmpty`], [`BackupError::Unfinished`]; the store's.
pub async fn fill_begins(store: &dyn Store, by: FilledBy) -> Result<Filling, BackupError> {
    let mut batch = Batch::new();
    match FILLED_BY.row(store, &()).await? {
        Some(before) if before.value.id == by.id => {
            batch.replace(&FILLED_BY, &before, &by);
            batch.commit(store, Durability::Durable).await?;
            fill::clear(store).await?;
        }
        Some(Row { value: before, .. }) => {
            return Err(BackupError::Unfinished(format!("a {} was begun there at {}", before.how.name(), before.at)));
        }
        None if fill::is_empty(store).await? => {
            batch.insert(&FILLED_BY, &(), &by);
            batch.commit(store, Durability::Durable).await?;
        }
        None => return Err(BackupError::NotEmpty),
    }
    Ok(Filling(FILLED_BY.own((), by)))
}

impl Filling {
    /// Says that the store is whole.
    ///
    /// # Errors
    ///
    /// The store's; [`StoreError::Conflict`] where another attempt has begun meanwhile.
    pub async fn ends(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.remove(&FILLED_BY, &self.0);
        batch.commit(store, Durability::Durable).await.map(drop)
    }
}

/// Says that whoever filled a store, and served it alone, serves it no more.
///
/// # Errors
///
/// The store's.
pub async fn is_open_to_all(store: &dyn Store) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.delete(&FILLED_BY, &());
    batch.commit(store, Durability::Durable).await.map(drop)
}

/// Where the rows of a store go, or have gone.
///
/// # Errors
///
/// The store's.
pub async fn departed(store: &dyn Store) -> Result<Option<Departed>, StoreError> {
    DEPARTED.get(store, &()).await
}

/// Says where they go, or have gone.
///
/// # Errors
///
/// The store's.
pub async fn depart(store: &dyn Store, departed: &Departed) -> Result<(), StoreError> {
    DEPARTED.put(&(), departed).commit(store, Durability::Durable).await.map(drop)
}

/// Takes back that they have gone.
///
/// # Errors
///
/// The store's.
pub async fn stay(store: &dyn Store) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.delete(&DEPARTED, &());
    batch.commit(store, Durability::Durable).await.map(drop)
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Restore => "restore",
            Self::Migration => "migration",
        }
    }
}
