//! The log of changes in the tree: one entry for each commit that changed a followed table, written in its batch. The entry
//! that falls out at the other end goes in the same batch.

use sled::{Batch, Db};

use crate::store::{
    Change, Changes, Space,
    changes::{KEPT, numbers},
};

/// First byte of the keys of entries; no space has this number.
const ENTRIES: u8 = 0xfd;

/// Where the log ends, as the writing thread knows it.
#[derive(Debug)]
pub(super) struct Journal {
    newest: u64,
}

impl Journal {
    /// The log of a tree.
    pub(super) fn open(db: &Db) -> sled::Result<Self> {
        Ok(Self { newest: newest(db)? })
    }

    /// Has `batch` tell of `keys`; answers the number of the newest entry once it is applied.
    pub(super) fn tell(&self, keys: Vec<(Space, Vec<u8>)>, batch: &mut Batch) -> sled::Result<u64> {
        if keys.is_empty() {
            return Ok(self.newest);
        }
        let number = self.newest + 1;
        let keys: Vec<(u8, Vec<u8>)> = keys.into_iter().map(|(space, key)| (space as u8, key)).collect();
        let entry = postcard::to_stdvec(&keys).map_err(|error| sled::Error::Unsupported(error.to_string()))?;
        batch.insert(entry_key(number).as_slice(), entry);
        if let Some(old) = number.checked_sub(KEPT) {
            batch.remove(entry_key(old).as_slice());
        }
        Ok(number)
    }

    /// Says that the batch was applied.
    pub(super) fn told(&mut self, newest: u64) {
        self.newest = newest;
    }
}

/// The changes after the one with the number `after`. The caller sees to it that no commit is applied meanwhile.
pub(super) fn read(db: &Db, after: u64, limit: usize) -> sled::Result<Changes> {
    let newest = newest(db)?;
    let Some((from, to)) = numbers(after, newest, limit) else { return Ok(Changes::none(newest, true)) };
    let mut changes = Vec::new();
    for number in from..=to {
        // One that is not there, or does not read: told as all that is gone.
        let keys = db.get(entry_key(number))?.and_then(|entry| postcard::from_bytes::<Vec<(u8, Vec<u8>)>>(&entry).ok());
        let Some(keys) = keys else { return Ok(Changes::none(newest, true)) };
        let keys = keys.into_iter().filter_map(|(space, key)| Some((Space::of_number(space)?, key))).collect();
        changes.push(Change { number, keys });
    }
    Ok(Changes { changes, newest, gone: false })
}

fn newest(db: &Db) -> sled::Result<u64> {
    let last = db.scan_prefix([ENTRIES]).keys().next_back().transpose()?;
    Ok(last.and_then(|key| key.last_chunk().copied()).map_or(0, u64::from_be_bytes))
}

fn entry_key(number: u64) -> [u8; 9] {
    let mut key = [ENTRIES; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}
