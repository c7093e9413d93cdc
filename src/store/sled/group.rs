//! Groups: commits that are decided one after the other and written together.
//!
//! Each commit sees the tree with the writes of the commits before it. Readers see none of them until all are written.

use std::collections::BTreeMap;

use sled::Tree;

use super::values;
use crate::{
    Batch, Space, StoreError, add,
    journal::{ChangeEntry, RowPart},
};

/// Approximate bytes of writes in a group. A full group takes no more commits.
const FULL: usize = 4 * 1024 * 1024;

/// The writes of the commits in a group.
#[derive(Debug, Default)]
pub(super) struct CommitGroup {
    writes: BTreeMap<Space, BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    changelog: Vec<Vec<(Space, Vec<u8>)>>,
    bytes: usize,
}

impl CommitGroup {
    /// Checks a commit, applies its additions, and adds it to the group. A rejected commit changes nothing.
    pub(super) fn decide(&mut self, tree: &Tree, batch: Batch) -> Result<Vec<i128>, StoreError> {
        let Batch { checks, mut writes, adds, changelog: changed } = batch;
        for check in checks {
            if self.get(tree, check.space, &check.key)?.as_deref() != check.expected.as_deref() {
                return Err(StoreError::Conflict);
            }
        }
        let sums = add::decide(adds, &mut writes, |space, key| self.get(tree, space, key))?;
        for write in writes {
            self.bytes += write.key.len() + write.value.as_ref().map_or(0, Vec::len);
            self.writes.entry(write.space).or_default().insert(write.key, write.value);
        }
        if !changed.is_empty() {
            self.changelog.push(changed);
        }
        Ok(sums)
    }

    /// Returns whether the group takes no more commits.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.changelog.is_empty()
    }

    /// Returns the rows to write, and the change-log entries, numbered after `newest`.
    pub(super) fn into_rows(self, newest: u64) -> (Vec<RowPart>, Vec<ChangeEntry>) {
        let rows = self
            .writes
            .into_iter()
            .flat_map(|(space, keys)| keys.into_iter().map(move |(key, value)| RowPart { space: space as u8, key, value }));
        let bytes = |keys: Vec<(Space, Vec<u8>)>| keys.into_iter().map(|(space, key)| (space as u8, key)).collect();
        let entries = (newest + 1..).zip(self.changelog).map(|(number, keys)| ChangeEntry { number, keys: bytes(keys) });
        (rows.collect(), entries.collect())
    }

    fn get(&self, tree: &Tree, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.writes.get(&space).and_then(|keys| keys.get(key)) {
            Some(value) => Ok(value.clone()),
            None => values::get(tree, space, key),
        }
    }
}
