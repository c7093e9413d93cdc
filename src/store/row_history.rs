//! Rows as they were written at some time, for comparison with the current ones.

use super::{
    Store, StoreError,
    key::Key,
    space::Space,
    table::{RawRow, Table},
    value::Value,
};

/// A row of any table as it was written at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRow {
    space: Space,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The state of a row since it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFate {
    /// It is unchanged.
    Same,
    /// It has changed.
    Other,
    /// It was deleted.
    Gone,
}

impl WrittenRow {
    /// Creates a row from what was written.
    pub fn new(space: Space, key: Vec<u8>, value: Vec<u8>) -> Self {
        Self { space, key, value }
    }

    /// Returns the row if it belongs to `table`.
    pub fn of<K: Key, V: Value>(&self, table: &Table<K, V>) -> Option<RawRow> {
        (self.space == table.plan.space && self.key.starts_with(table.plan.prefix.as_bytes()))
            .then(|| RawRow { at: self.key.clone(), bytes: self.value.clone().into() })
    }

    /// Compares it with the store.
    pub async fn became(&self, store: &dyn Store) -> Result<RowFate, StoreError> {
        Ok(match store.get(self.space, &self.key).await? {
            Some(there) if there == self.value => RowFate::Same,
            Some(_) => RowFate::Other,
            None => RowFate::Gone,
        })
    }
}
