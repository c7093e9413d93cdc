//! A host's cache of the listed sellers.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

/// Maximum number of owners in the cache.
const REMEMBERED: usize = 100_000;

/// The sellers that this host knows to be listed.
#[derive(Debug, Default)]
pub(super) struct SellerCache {
    owners: Mutex<HashMap<u32, HashSet<String>>>,
    /// Whether all owners with sales in the store are listed.
    pub(super) all: AtomicBool,
}

impl SellerCache {
    pub(super) fn has(&self, stretch: u32, share: &str) -> bool {
        self.owners().get(&stretch).is_some_and(|owners| owners.contains(share))
    }

    pub(super) fn remember(&self, stretch: u32, share: &str) {
        let mut stretches = self.owners();
        let full = stretches.values().map(HashSet::len).sum::<usize>() >= REMEMBERED;
        let forgotten = if full { std::mem::take(&mut *stretches) } else { HashMap::new() };
        stretches.entry(stretch).or_default().insert(share.to_owned());
        drop(stretches);
        // Dropped outside of the lock.
        drop(forgotten);
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<u32, HashSet<String>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
