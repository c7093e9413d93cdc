//! Limits the request rate and the concurrency of a key, such as a client's address.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    gcra::{Gcra, Tally, named, now},
    lock::Lock,
};

/// Size of a burst, as a multiple of the requests allowed per second.
const BURST: NonZeroU32 = NonZeroU32::new(2).unwrap();

const NANOS: u64 = 1_000_000_000;

/// Maximum number of keys remembered. Above it, the least used keys are forgotten.
const MAX_KEYS: usize = 65_536;

/// Limits requests per second for each key (GCRA). Keys have a bounded size: names from clients are shortened or
/// rejected before they become keys.
#[derive(Debug)]
pub struct RateLimiter<K> {
    per_second: NonZeroU32,
    /// The time in which a full burst recovers.
    whole: Duration,
    uses: Lock<Gcra<K>>,
}

impl<K: Hash + Eq + Clone> RateLimiter<K> {
    /// Allows `per_second` requests for each key, and bursts of twice as many.
    #[must_use]
    pub fn new(per_second: NonZeroU32) -> Self {
        Self::with_burst(per_second, per_second.saturating_mul(BURST))
    }

    /// Allows `per_second` requests for each key, and bursts of `burst`.
    #[must_use]
    pub fn with_burst(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self { per_second, whole: time_of(burst.get().into(), per_second), uses: Lock::default() }
    }

    /// Returns the number of requests that one key may make per second.
    #[must_use]
    pub fn per_second(&self) -> NonZeroU32 {
        self.per_second
    }

    /// Returns the seconds until the key may make another request, or `None` if it may make one now.
    pub fn wait(&self, key: &K) -> Option<u64> {
        self.admit(key, NonZeroU32::MIN, now()).err().map(|wait| wait.as_secs() + 1)
    }

    /// Takes `some` requests from the key's budget. Returns whether there was enough.
    pub fn take(&self, key: &K, some: NonZeroU32) -> bool {
        self.admit(key, some, now()).is_ok()
    }

    /// Takes `some` requests from the key's budget, or returns how long to wait for them.
    fn admit(&self, key: &K, some: NonZeroU32, now: Instant) -> Result<(), Duration> {
        let mut uses = self.uses.lock();
        let behind = uses.behind(key, now) + time_of(some.get().into(), self.per_second);
        match behind.checked_sub(self.whole).filter(|wait| !wait.is_zero()) {
            Some(wait) => Err(wait),
            None => {
                uses.evict(key, MAX_KEYS, now);
                uses.use_here(key, some.get().into(), now, behind, self.whole / 10);
                Ok(())
            }
        }
    }

    /// Forgets keys with a full budget, so that memory use stays flat.
    pub fn prune_idle(&self) {
        self.uses.lock().prune_idle(now());
    }
}

impl<K: Hash + Eq + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Tally for RateLimiter<K> {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.uses.lock().take(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        if let Some(key) = named(name) {
            let (now, mut uses) = (now(), self.uses.lock());
            let behind = uses.behind(&key, now) + time_of(used, self.per_second);
            uses.evict(&key, MAX_KEYS, now);
            uses.use_elsewhere(key, now, behind);
        }
    }
}

/// Returns the time in which `some` requests recover.
fn time_of(some: u64, per_second: NonZeroU32) -> Duration {
    Duration::from_nanos(some.saturating_mul(NANOS) / u64::from(per_second.get()))
}

/// Limits how many operations of each key run at the same time.
#[derive(Debug)]
pub struct ConcurrencyLimit<K: Hash + Eq + Clone> {
    max: usize,
    /// Number of permits in use, by key.
    now: Arc<Lock<HashMap<K, usize>>>,
}

/// Permission for one more concurrent operation of a key. Dropping it releases it.
#[derive(Debug)]
pub struct Permit<K: Hash + Eq + Clone> {
    key: K,
    now: Arc<Lock<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Clone> ConcurrencyLimit<K> {
    /// Allows `max` concurrent operations for each key.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, now: Arc::default() }
    }

    /// Returns the number of concurrent operations allowed for each key.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns a permit for `key`, or `None` if all of its permits are in use.
    #[must_use]
    pub fn take(&self, key: K) -> Option<Permit<K>> {
        let mut now = self.now.lock();
        if now.get(&key).is_some_and(|permits| *permits >= self.max) {
            return None;
        }
        *now.entry(key.clone()).or_default() += 1;
        Some(Permit { key, now: Arc::clone(&self.now) })
    }
}

impl<K: Hash + Eq + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut now = self.now.lock();
        if let Some(permits) = now.get_mut(&self.key) {
            *permits -= 1;
            if *permits == 0 {
                now.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
