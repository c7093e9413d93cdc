//! Batches: what one commit wants, writes and adds.

use super::{
    Add, Check, Durability, Limit, Space, Store, StoreError, Write,
    key::Key,
    plan::{Entry, Plan, stored_key},
    table::{Counter, Row, Table},
    value::Value,
};

/// All of a commit: it happens whole, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// What must hold.
    pub checks: Vec<Check>,
    /// In order: the last write of a key stands.
    pub writes: Vec<Write>,
    /// In order, behind the writes.
    pub adds: Vec<Add>,
    /// Keys that the log of changes tells: of tables that are followed.
    pub told: Vec<(Space, Vec<u8>)>,
}

impl Batch {
    /// One that does nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// That these hold, and these are written.
    #[must_use]
    pub fn of(checks: Vec<Check>, writes: Vec<Write>) -> Self {
        Self { checks, writes, ..Self::default() }
    }

    /// Whether nothing would be there that was not before.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        self.writes.is_empty() && self.adds.is_empty()
    }

    /// Wants no row at `key`.
    pub fn absent<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> &mut Self {
        let plan = table.plan;
        self.checks.push(Check { space: plan.space, key: stored_key(plan, key), expected: None });
        self
    }

    /// Wants `row` to be there still, as it was read.
    pub fn holds<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>) -> &mut Self {
        let space = table.plan.space;
        // Inside an update it is wanted already.
        let same = |check: &Check| check.space == space && check.key == row.at && check.expected.as_ref() == Some(&row.bytes);
        if !self.checks.iter().any(same) {
            self.checks.push(Check { space, key: row.at.clone(), expected: Some(row.bytes.clone()) });
        }
        self
    }

    /// Puts `value` at `key`, whatever is there. Not for tables with indexes, whose rows are inserted and replaced.
    pub fn put<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> &mut Self {
        debug_assert!(table.indexes.is_empty(), "{table:?} has indexes: they need the row that was there");
        let at = stored_key(table.plan, key);
        self.write(table.plan, at, Some(value.to_bytes()))
    }

    /// Puts a row where none is.
    pub fn insert<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> &mut Self {
        self.absent(table, key).put_new(table, key, value)
    }

    /// Puts a row, and its entries in the table's indexes, where none is: for keys that nobody else can have made.
    pub fn put_new<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> &mut Self {
        for index in table.indexes {
            self.writes.extend(index(key, value).map(Entry::put));
        }
        let at = stored_key(table.plan, key);
        self.write(table.plan, at, Some(value.to_bytes()))
    }

    /// Puts `value` in the place of `row`, which must be there still. Once for a row.
    pub fn replace<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>, value: &V) -> &mut Self {
        self.holds(table, row);
        for index in table.indexes {
            let (before, after) = (index(&row.key, &row.value), index(&row.key, value));
            if before != after {
                self.writes.extend(before.map(Entry::delete));
                self.writes.extend(after.map(Entry::put));
            }
        }
        self.write(table.plan, row.at.clone(), Some(value.to_bytes()))
    }

    /// Takes away `row`, which must be there still.
    pub fn remove<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>) -> &mut Self {
        self.holds(table, row).sweep(table, row)
    }

    /// Takes away `row` and its entries, whatever became of it: for rows that nobody changes any more.
    pub fn sweep<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>) -> &mut Self {
        for index in table.indexes {
            self.writes.extend(index(&row.key, &row.value).map(Entry::delete));
        }
        self.write(table.plan, row.at.clone(), None)
    }

    /// Takes away what is at `key`, if anything is. Not for tables with indexes.
    pub fn delete<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> &mut Self {
        debug_assert!(table.indexes.is_empty(), "{table:?} has indexes: they need the row that was there");
        self.write(table.plan, stored_key(table.plan, key), None)
    }

    /// Adds `by` to the sum at `key`, which must stay within `limit`.
    pub fn add<K: Key>(&mut self, counter: &Counter<K>, key: &K, by: i64, limit: Limit) -> &mut Self {
        let at = stored_key(counter.plan, key);
        if counter.plan.followed {
            self.told.push((counter.plan.space, at.clone()));
        }
        self.adds.push(Add { space: counter.plan.space, key: at, by, limit });
        self
    }

    /// Has all of `other` happen too, behind what is there.
    pub fn append(&mut self, other: Self) -> &mut Self {
        self.checks.extend(other.checks);
        self.writes.extend(other.writes);
        self.adds.extend(other.adds);
        self.told.extend(other.told);
        self
    }

    /// Both, this one first.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.append(other);
        self
    }

    /// Whether the row of its first write is there: tells of a batch of new rows, whose commit was not confirmed, if it
    /// happened.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn landed(&self, store: &(impl Store + ?Sized)) -> Result<bool, StoreError> {
        match self.writes.first() {
            Some(write) => Ok(store.get(write.space, &write.key).await?.is_some()),
            None => Ok(true),
        }
    }

    /// Commits it; answers what the sums of its additions became, in their order.
    ///
    /// # Errors
    ///
    /// As [`Store::apply`].
    pub async fn commit(self, store: &(impl Store + ?Sized), durability: Durability) -> Result<Vec<i64>, StoreError> {
        store.apply(self, durability).await
    }

    pub(super) fn write(&mut self, plan: &Plan, at: Vec<u8>, value: Option<Vec<u8>>) -> &mut Self {
        if plan.followed {
            self.told.push((plan.space, at.clone()));
        }
        self.writes.push(Write { space: plan.space, key: at, value });
        self
    }
}
