//! The change log in the tree: one entry for each commit that changed a followed table, written in the commit's batch
//! together with the removal of the oldest entry.

use sled::Tree;

use super::sink::Sink;
use crate::{
    Changes, CommittedChange, Space, StoreError,
    changes::{RETAINED, numbers},
    journal::ChangeEntry,
};

/// First byte of the keys of entries. No space has this number.
pub(super) const ENTRIES: u8 = 0xfd;

/// Writes an entry to `to` and removes the one that it displaces.
pub(super) fn keep(ChangeEntry { number, keys }: &ChangeEntry, to: &mut impl Sink) -> Result<(), StoreError> {
    let entry = postcard::to_stdvec(keys).map_err(StoreError::away)?;
    to.put(entry_key(*number)[..].into(), entry.into())?;
    if let Some(old) = number.checked_sub(RETAINED) {
        to.take(entry_key(old)[..].into())?;
    }
    Ok(())
}

/// Writes an entry, as encoded in a tree, to `to`.
pub(super) fn put(number: &[u8], entry: &[u8], to: &mut impl Sink) -> Result<(), StoreError> {
    to.put([&[ENTRIES], number].concat().into(), entry.into())
}

/// Reads the changes after number `after`. The caller must ensure that no commit is applied meanwhile.
pub(super) fn read(tree: &Tree, after: u64, limit: usize) -> Result<Changes, StoreError> {
    let newest = newest(tree)?;
    let Some((from, to)) = numbers(after, newest, limit) else { return Ok(Changes::none(newest, true)) };
    let mut changes = Vec::new();
    for number in from..=to {
        // A missing or malformed entry is treated like one that is gone.
        let entry = tree.get(entry_key(number)).map_err(StoreError::away)?;
        let keys = entry.and_then(|entry| postcard::from_bytes::<Vec<(u8, Vec<u8>)>>(&entry).ok());
        let Some(keys) = keys else { return Ok(Changes::none(newest, true)) };
        let keys = keys.into_iter().filter_map(|(space, key)| Some((Space::of_number(space)?, key))).collect();
        changes.push(CommittedChange { number, keys });
    }
    Ok(Changes { changes, newest, truncated: false })
}

/// Returns the number of the newest entry, or 0 if there is none.
pub(super) fn newest(tree: &Tree) -> Result<u64, StoreError> {
    let last = tree.scan_prefix([ENTRIES]).keys().next_back().transpose().map_err(StoreError::away)?;
    Ok(last.and_then(|key| key.last_chunk().copied()).map_or(0, u64::from_be_bytes))
}

fn entry_key(number: u64) -> [u8; 9] {
    let mut key = [ENTRIES; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}
