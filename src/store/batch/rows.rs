//! Operations of a batch on table rows and counters.

use super::Batch;
use crate::{
    key::Key,
    table::{Counter, Row, Table},
    table_plan::{IndexEntry, stored_key},
    value::Value,
    write::{Add, Check, SumLimit},
};

impl Batch {
    /// Requires that there is no row at `key`.
    pub fn absent<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> &mut Self {
        let plan = table.plan;
        self.checks.push(Check { space: plan.space, key: stored_key(plan, key), expected: None });
        self
    }

    /// Requires that `row` is unchanged since it was read.
    pub fn holds<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>) -> &mut Self {
        let check = Check { space: table.plan.space, key: row.at.clone(), expected: Some(row.bytes.clone()) };
        // An update may have added the same check already.
        if !self.checks.contains(&check) {
            self.checks.push(check);
        }
        self
    }

    /// Puts `value` at `key`, replacing any row. Tables with indexes need [`Batch::insert`] and [`Batch::replace`]
    /// instead.
    pub fn put<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> &mut Self {
        self.put_bytes(table, key, value.to_bytes())
    }

    /// Puts a value that is already encoded by [`Value::to_bytes`]. Otherwise like [`Batch::put`].
    pub fn put_bytes<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: Vec<u8>) -> &mut Self {
        debug_assert!(table.indexes.is_empty(), "{table:?} has indexes: they need the row that was there");
        self.write(table.plan, stored_key(table.plan, key), Some(value))
    }

    /// Inserts a row. The commit conflicts if there is one at `key`.
    pub fn insert<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> &mut Self {
        self.absent(table, key).put_new(table, key, value)
    }

    /// Puts a new row and its index entries without checking that there is none. Use it for keys that nobody else can
    /// have created.
    pub fn put_new<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K, value: &V) -> &mut Self {
        for index in table.indexes {
            self.writes.extend(index(key, value).map(IndexEntry::put));
        }
        self.write(table.plan, stored_key(table.plan, key), Some(value.to_bytes()))
    }

    /// Replaces `row` with `value`. The commit conflicts if the row has changed. Call it only once for a row.
    pub fn replace<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>, value: &V) -> &mut Self {
        self.holds(table, row);
        for index in table.indexes {
            let (before, after) = (index(&row.key, &row.value), index(&row.key, value));
            if before != after {
                self.writes.extend(before.map(IndexEntry::delete));
                self.writes.extend(after.map(IndexEntry::put));
            }
        }
        self.write(table.plan, row.at.clone(), Some(value.to_bytes()))
    }

    /// Replaces `row` with `value`, or inserts it at `key` if there is no row.
    pub fn replace_or_insert<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: Option<&Row<K, V>>, key: &K, value: &V) -> &mut Self {
        match row {
            Some(row) => self.replace(table, row, value),
            None => self.insert(table, key, value),
        }
    }

    /// Removes `row`. The commit conflicts if the row has changed.
    pub fn remove<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>) -> &mut Self {
        self.holds(table, row).sweep(table, row)
    }

    /// Removes `row` and its index entries without a check. Use it for rows that no longer change.
    pub fn sweep<K: Key, V: Value>(&mut self, table: &Table<K, V>, row: &Row<K, V>) -> &mut Self {
        for index in table.indexes {
            self.writes.extend(index(&row.key, &row.value).map(IndexEntry::delete));
        }
        self.write(table.plan, row.at.clone(), None)
    }

    /// Deletes the row at `key` if there is one. Not for tables with indexes.
    pub fn delete<K: Key, V: Value>(&mut self, table: &Table<K, V>, key: &K) -> &mut Self {
        debug_assert!(table.indexes.is_empty(), "{table:?} has indexes: they need the row that was there");
        self.write(table.plan, stored_key(table.plan, key), None)
    }

    /// Adds `by` to the sum at `key`. The sum must stay within `limit`.
    pub fn add<K: Key>(&mut self, counter: &Counter<K>, key: &K, by: i128, limit: SumLimit) -> &mut Self {
        let at = stored_key(counter.plan, key);
        if counter.plan.followed {
            self.changelog.push((counter.plan.space, at.clone()));
        }
        self.adds.push(Add { space: counter.plan.space, key: at, by, limit });
        self
    }
}
