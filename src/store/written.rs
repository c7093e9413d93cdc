//! Rows as they were written at some time, held against what is there now.

use super::{
    Store, StoreError,
    key::Key,
    space::Space,
    table::{Table, Unread},
    value::Value,
};

/// A row as it was written at some time, of whatever table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    space: Space,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It is there, as it was written.
    Same,
    /// It is there, and another.
    Other,
    /// Nothing is there.
    Gone,
}

impl Written {
    /// What was written there.
    #[must_use]
    pub fn new(space: Space, key: Vec<u8>, value: Vec<u8>) -> Self {
        Self { space, key, value }
    }

    /// The row, if it is one of this table.
    #[must_use]
    pub fn of<K: Key, V: Value>(&self, table: &Table<K, V>) -> Option<Unread> {
        (self.space == table.plan.space && self.key.starts_with(table.plan.prefix.as_bytes()))
            .then(|| Unread::new(self.key.clone(), self.value.clone()))
    }

    /// What became of it.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn became(&self, store: &dyn Store) -> Result<Became, StoreError> {
        Ok(match store.get(self.space, &self.key).await? {
            Some(there) if there == self.value => Became::Same,
            Some(_) => Became::Other,
            None => Became::Gone,
        })
    }
}
