//! Marks in a store that is being imported into, or whose rows have moved elsewhere. They are never copied.

use serde::{Deserialize, Serialize};
use tollhouse_base::{boxed, clock::Timestamp};
use tollhouse_store::{Batch, Durability, Row, Store, StoreError, Table, import, json_values, schema};

use super::BackupError;

const FILLED_BY: Table<(), FillSource> = schema::FILLED_BY.holding();
const DEPARTED: Table<(), Departure> = schema::DEPARTED.holding();

/// The process that imports into a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillSource {
    /// Id of one attempt, or of all attempts to move one store.
    pub id: String,
    /// The kind of import.
    pub how: FillMode,
    /// When it began.
    pub at: Timestamp,
}
json_values!(FillSource);

/// A store with an import in progress.
#[derive(Debug)]
pub struct FillGuard(Row<(), FillSource>);

/// The kind of import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FillMode {
    /// From a dump.
    Restore,
    /// From another store, whose host then continues with this one.
    Migration,
}

/// The destination of a store's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// Id of all attempts to move this store.
    pub id: String,
    /// The destination, in a form that may be displayed.
    pub to: String,
    /// When the move was complete, or `None` if the rows are still here.
    pub at: Option<Timestamp>,
}
json_values!(Departure);

/// Returns who imports into a store, if the import is not known to be complete.
#[boxed]
pub async fn filled_by(store: &dyn Store) -> Result<Option<FillSource>, StoreError> {
    FILLED_BY.get(store, &()).await
}

/// Begins an import into an empty store. Rows left by an earlier attempt with the same id are deleted.
#[boxed]
pub async fn begin_fill(store: &dyn Store, by: FillSource) -> Result<FillGuard, BackupError> {
    let mut batch = Batch::new();
    match FILLED_BY.row(store, &()).await? {
        Some(before) if before.value.id == by.id => {
            batch.replace(&FILLED_BY, &before, &by);
            batch.commit(store, Durability::Durable).await?;
            import::clear(store).await?;
        }
        Some(Row { value: before, .. }) => {
            return Err(BackupError::Unfinished(format!("a {} into this store began at {}", before.how.name(), before.at)));
        }
        None if import::is_empty(store).await? => {
            batch.insert(&FILLED_BY, &(), &by);
            batch.commit(store, Durability::Durable).await?;
        }
        None => return Err(BackupError::NotEmpty),
    }
    Ok(FillGuard(FILLED_BY.own((), by)))
}

impl FillGuard {
    /// Marks the import as complete.
    /// It conflicts if another attempt has begun meanwhile.
    #[boxed]
    pub async fn ends(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.remove(&FILLED_BY, &self.0);
        batch.commit(store, Durability::Durable).await.map(drop)
    }
}

/// Opens a store to all hosts after the host that imported into it has served it alone.
#[boxed]
pub async fn open_to_all(store: &dyn Store) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.delete(&FILLED_BY, &());
    batch.commit(store, Durability::Durable).await.map(drop)
}

/// Returns where the rows of a store are being moved, or have moved.
#[boxed]
pub async fn departed(store: &dyn Store) -> Result<Option<Departure>, StoreError> {
    DEPARTED.get(store, &()).await
}

/// Records where the rows are being moved, or have moved.
#[boxed]
pub async fn depart(store: &dyn Store, departed: &Departure) -> Result<(), StoreError> {
    DEPARTED.put(&(), departed).commit(store, Durability::Durable).await.map(drop)
}

/// Removes the record that the rows have moved.
#[boxed]
pub async fn stay(store: &dyn Store) -> Result<(), StoreError> {
    let mut batch = Batch::new();
    batch.delete(&DEPARTED, &());
    batch.commit(store, Durability::Durable).await.map(drop)
}

impl FillMode {
    fn name(self) -> &'static str {
        match self {
            Self::Restore => "restore",
            Self::Migration => "migration",
        }
    }
}
