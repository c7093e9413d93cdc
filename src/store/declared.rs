//! Tables as declared in the schema, before their values get a type.

use std::marker::PhantomData;

use super::{
    Store, StoreError,
    key::Key,
    table::{Counter, Table},
    table_plan::{IndexEntry, IndexFn, TablePlan, stored_key},
    value::Value,
    write::Write,
};

/// A table of the schema whose values have no type yet.
pub struct DeclaredTable<K> {
    plan: &'static TablePlan,
    keys: PhantomData<fn(K) -> K>,
}

impl<K: Key> DeclaredTable<K> {
    /// Creates a table from its plan.
    pub const fn new(plan: &'static TablePlan) -> Self {
        Self { plan, keys: PhantomData }
    }

    /// Returns the table's entry in the schema.
    pub const fn plan(self) -> &'static TablePlan {
        self.plan
    }

    /// Returns the table with values of type `V`.
    pub const fn holding<V: Value>(self) -> Table<K, V> {
        Table { plan: self.plan, indexes: &[], types: PhantomData }
    }

    /// Returns the table with values of type `V` and with its indexes.
    pub const fn indexed<V: Value>(self, indexes: &'static [IndexFn<K, V>]) -> Table<K, V> {
        Table { plan: self.plan, indexes, types: PhantomData }
    }

    /// Returns whether the table has any row, without decoding it.
    pub async fn has_rows(self, store: &dyn Store) -> Result<bool, StoreError> {
        let rows = self.counting().rows();
        Ok(rows.count(store, &rows.all(), 1).await? > 0)
    }

    /// Returns the table as a table of sums.
    pub const fn counting(self) -> Counter<K> {
        Counter { plan: self.plan, keys: PhantomData }
    }

    /// Builds a row of this table, which is an index.
    pub fn entry<V: Value>(self, key: &K, value: &V) -> IndexEntry {
        IndexEntry(Write { space: self.plan.space, key: stored_key(self.plan, key), value: Some(value.to_bytes()) })
    }
}

impl<K> Clone for DeclaredTable<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for DeclaredTable<K> {}
