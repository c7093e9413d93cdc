//! Tables as declared in the schema, before their values get a type.

use std::{fmt, marker::PhantomData};

use super::{
    key::Key,
    plan::{Entry, Index, Plan, stored_key},
    table::{Counter, Table},
    value::Value,
    write::Write,
};

/// A table of the schema whose values have no type yet.
pub struct Declared<K> {
    plan: &'static Plan,
    keys: PhantomData<fn(K) -> K>,
}

impl<K: Key> Declared<K> {
    /// Creates a table from its plan.
    #[must_use]
    pub const fn new(plan: &'static Plan) -> Self {
        Self { plan, keys: PhantomData }
    }

    /// Returns the table's entry in the schema.
    #[must_use]
    pub const fn plan(self) -> &'static Plan {
        self.plan
    }

    /// Returns the table with values of type `V`.
    #[must_use]
    pub const fn holding<V: Value>(self) -> Table<K, V> {
        Table { plan: self.plan, indexes: &[], types: PhantomData }
    }

    /// Returns the table with values of type `V` and with its indexes.
    #[must_use]
    pub const fn indexed<V: Value>(self, indexes: &'static [Index<K, V>]) -> Table<K, V> {
        Table { plan: self.plan, indexes, types: PhantomData }
    }

    /// Returns the table as a table of sums.
    #[must_use]
    pub const fn counting(self) -> Counter<K> {
        Counter { plan: self.plan, keys: PhantomData }
    }

    /// Builds a row of this table, which is an index.
    #[must_use]
    pub fn entry<V: Value>(self, key: &K, value: &V) -> Entry {
        Entry(Write { space: self.plan.space, key: stored_key(self.plan, key), value: Some(value.to_bytes()) })
    }
}

impl<K> Clone for Declared<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Declared<K> {}

impl<K> fmt::Debug for Declared<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plan.name)
    }
}
