//! Inspection: reads every row of a table in order, to check a store that nobody writes to for consistency.

use std::vec;

use tollhouse_base::check_report::CheckReport;

use super::{Range, Row, Store, StoreError, Table, key::Key, value::Value};

/// The rows of a table that are still to be inspected.
pub struct Inspection<'s, K: 'static, V: 'static> {
    store: &'s dyn Store,
    table: &'s Table<K, V>,
    page: vec::IntoIter<Result<Row<K, V>, StoreError>>,
    rest: Range<K>,
    at_once: usize,
}

impl<K: Key, V: Value> Table<K, V> {
    /// Inspects every row from the first, reading `at_once` rows at a time.
    pub fn inspect<'s>(&'s self, store: &'s dyn Store, at_once: usize) -> Inspection<'s, K, V> {
        Inspection { store, table: self, page: Vec::new().into_iter(), rest: self.all(), at_once }
    }
}

impl<K: Key, V: Value> Inspection<'_, K, V> {
    /// Returns the next readable row, or `None` after the last. Unreadable rows are recorded as flaws.
    pub async fn next(&mut self, flaws: &mut CheckReport) -> Result<Option<Row<K, V>>, StoreError> {
        loop {
            if let Some(row) = self.page.find_map(|row| flaws.checked(row)) {
                return Ok(Some(row));
            }
            let Some(page) = self.table.next(self.store, &mut self.rest, self.at_once).await? else { return Ok(None) };
            self.page = page.into_iter();
        }
    }
}
