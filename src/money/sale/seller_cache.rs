//! A host's cache of the listed sellers.

use std::collections::{HashMap, HashSet};

use tollhouse_base::lock::Lock;

const MAX_CACHED: usize = 100_000;

/// The sellers that this host knows to be listed, by interval.
#[derive(Debug, Default)]
pub(super) struct SellerCache(Lock<HashMap<u32, HashSet<String>>>);

impl SellerCache {
    pub(super) fn has(&self, interval: u32, share: &str) -> bool {
        self.0.lock().get(&interval).is_some_and(|owners| owners.contains(share))
    }

    pub(super) fn insert(&self, interval: u32, share: &str) {
        let mut owners = self.0.lock();
        let full = owners.values().map(HashSet::len).sum::<usize>() >= MAX_CACHED;
        let evicted = if full { std::mem::take(&mut *owners) } else { HashMap::new() };
        owners.entry(interval).or_default().insert(share.to_owned());
        // The evicted ones are dropped outside of the lock.
        drop(owners);
        drop(evicted);
    }
}
