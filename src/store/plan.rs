//! Plans: what the schema says of a table, before its values have a type.

use super::{key::StartOf, space::Space, write::Write};

/// What the schema says of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// As the schema names it.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// Where its rows lie.
    pub space: Space,
    /// What its keys start with; tells tables of one space apart.
    pub prefix: &'static str,
    /// The type of its keys.
    pub key: &'static str,
    /// The type of its values.
    pub value: &'static str,
    /// What becomes of its rows.
    pub kept: Kept,
    /// The table whose rows it finds, where it is an index; else empty.
    pub index_of: &'static str,
    /// Whether its changes are in the log of changes.
    pub followed: bool,
}

/// How long rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// For good, or until someone deletes them.
    Forever,
    /// As long as what is named here.
    With(&'static str),
    /// Until what is named here.
    Until(&'static str),
}

/// The entry that a row has in an index of its table; `None` for rows that have none. Written with the row.
pub type Index<K, V> = fn(&K, &V) -> Option<Entry>;

/// A row of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry(pub(super) Write);

impl Entry {
    /// The write that puts it.
    pub(super) fn put(self) -> Write {
        self.0
    }

    /// The write that takes it away.
    pub(super) fn delete(self) -> Write {
        Write { value: None, ..self.0 }
    }
}

/// The key as it is stored: the table's prefix, then the key.
pub(super) fn stored_key<K>(plan: &Plan, key: &impl StartOf<K>) -> Vec<u8> {
    let mut at = Vec::with_capacity(plan.prefix.len() + 64);
    at.extend_from_slice(plan.prefix.as_bytes());
    key.begin(&mut at);
    at
}
