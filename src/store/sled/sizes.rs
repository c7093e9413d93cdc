//! What each space holds: counted with every commit, on the writing thread.
//!
//! The count is kept in the tree, written once for each group of commits. A tree without one was written by a
//! version that did not count: its keys are counted in their order, some at a time between commits, and commits
//! are added as far as the counting has come.

use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use sled::Db;

use super::values::{self, Change};
use crate::store::{Size, Sizes, Space};

/// Where the count lies: among the keys of no space.
const KEY: &[u8] = b"\xfesizes";

/// Keys counted at once; the next commit waits for them.
const SOME: usize = 500;

/// The count, as the tree keeps it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    /// Space's number → size.
    spaces: Vec<(u8, u64, u64)>,
    /// The last key that is counted; `None` once all are.
    counted: Option<Vec<u8>>,
}

/// The count, and where others read it.
#[derive(Debug)]
pub(super) struct Counter {
    spaces: [Size; Space::ALL.len()],
    counted: Option<Vec<u8>>,
    changed: bool,
    shared: Arc<RwLock<Sizes>>,
}

impl Counter {
    /// The count of a tree.
    pub(super) fn open(db: &Db, new: bool) -> sled::Result<Self> {
        let stored = match db.get(KEY)? {
            Some(bytes) => postcard::from_bytes(&bytes).ok(),
            None => new.then(Stored::default),
        };
        let stored = stored.unwrap_or(Stored { counted: Some(vec![]), ..Stored::default() });
        let mut spaces = [Size::default(); Space::ALL.len()];
        for (number, entries, bytes) in stored.spaces {
            if let Some(size) = spaces.get_mut(usize::from(number)) {
                *size = Size { entries, bytes };
            }
        }
        let counter = Self { spaces, counted: stored.counted, changed: true, shared: Arc::default() };
        counter.share();
        Ok(counter)
    }

    /// Where the count can be read.
    pub(super) fn shared(&self) -> Arc<RwLock<Sizes>> {
        Arc::clone(&self.shared)
    }

    /// True while there is something left to count.
    pub(super) fn is_behind(&self) -> bool {
        self.counted.is_some()
    }

    /// Adds what a commit did.
    pub(super) fn add(&mut self, changes: &[Change]) {
        for Change { key, before, after } in changes {
            // The counting comes by later.
            if self.counted.as_ref().is_some_and(|counted| key > counted) {
                continue;
            }
            let Some(size) = key.first().and_then(|number| self.spaces.get_mut(usize::from(*number))) else { continue };
            if let Some(bytes) = before {
                size.entries = size.entries.saturating_sub(1);
                size.bytes = size.bytes.saturating_sub(*bytes as u64);
            }
            if let Some(bytes) = after {
                size.entries += 1;
                size.bytes += *bytes as u64;
            }
            self.changed = true;
        }
    }

    /// Counts some of what was there before.
    pub(super) fn go_on(&mut self, db: &Db) -> sled::Result<()> {
        let Some(counted) = self.counted.take() else { return Ok(()) };
        let mut last = None;
        for pair in db.range((std::ops::Bound::Excluded(counted), std::ops::Bound::Unbounded)).take(SOME) {
            let (key, head) = pair?;
            // Behind the spaces come the pieces of their values.
            let Some(size) = key.first().and_then(|number| self.spaces.get_mut(usize::from(*number))) else {
                last = None;
                break;
            };
            size.entries += 1;
            size.bytes += (key.len() - 1 + values::value_bytes(&head)) as u64;
            last = Some(key.to_vec());
        }
        self.counted = last;
        self.changed = true;
        Ok(())
    }

    /// Tells readers, and writes the count into the tree.
    pub(super) fn keep(&mut self, db: &Db) -> sled::Result<()> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        self.share();
        let sized = (0..).zip(&self.spaces).filter(|(_, size)| size.entries > 0);
        let spaces = sized.map(|(number, size)| (number, size.entries, size.bytes)).collect();
        let stored = postcard::to_stdvec(&Stored { spaces, counted: self.counted.clone() });
        db.insert(KEY, stored.map_err(|error| sled::Error::Unsupported(error.to_string()))?)?;
        Ok(())
    }

    fn share(&self) {
        let spaces = Space::ALL.into_iter().zip(self.spaces).filter(|(_, size)| size.entries > 0).collect();
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = Sizes { spaces, complete: self.counted.is_none() };
    }
}
