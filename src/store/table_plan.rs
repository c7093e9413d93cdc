//! Plans: a table's entry in the schema, before its values have a type.

use super::{key::KeyPrefix, space::Space, write::Write};

/// A table's entry in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablePlan {
    /// Its name in the schema.
    pub name: &'static str,
    /// The space of its rows.
    pub space: Space,
    /// The prefix of its keys. It distinguishes tables in the same space.
    pub prefix: &'static str,
    /// The type of its keys.
    pub key: &'static str,
    /// The table that it is an index of, or an empty string.
    pub index_of: &'static str,
    /// Whether its changes are in the change log.
    pub followed: bool,
}

/// Returns the entry of a row in an index of its table, or `None` if the row has none. It is written together with the
/// row.
pub type IndexFn<K, V> = fn(&K, &V) -> Option<IndexEntry>;

/// A row of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry(pub(super) Write);

impl IndexEntry {
    /// Returns the write that adds the entry.
    pub(super) fn put(self) -> Write {
        self.0
    }

    /// Returns the write that removes the entry.
    pub(super) fn delete(self) -> Write {
        Write { value: None, ..self.0 }
    }
}

/// Returns the stored form of a key: the table's prefix followed by the key.
pub(super) fn stored_key<K>(plan: &TablePlan, key: &impl KeyPrefix<K>) -> Vec<u8> {
    let mut at = Vec::with_capacity(plan.prefix.len() + 64);
    at.extend_from_slice(plan.prefix.as_bytes());
    key.begin(&mut at);
    at
}
