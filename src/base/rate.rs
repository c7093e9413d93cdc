//! How often one key, such as a client's address, may ask, and how much at once.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

/// Requests that a key may make at once, as a multiple of those it may make in a second.
const BURST: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// Requests per second of each key (GCRA).
#[derive(Debug)]
pub struct Rate<K: Hash + Eq + Clone> {
    limiter: DefaultKeyedRateLimiter<K>,
    clock: DefaultClock,
    per_second: NonZeroU32,
}

impl<K: Hash + Eq + Clone> Rate<K> {
    /// `per_second` requests for each key, and twice as many at once.
    #[must_use]
    pub fn new(per_second: NonZeroU32) -> Self {
        Self::with_burst(per_second, per_second.saturating_mul(BURST))
    }

    /// The same, with so many at once instead.
    #[must_use]
    pub fn with_burst(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let limiter = RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst));
        Self { limiter, clock: DefaultClock::default(), per_second }
    }

    /// What one key may do in a second.
    #[must_use]
    pub fn per_second(&self) -> NonZeroU32 {
        self.per_second
    }

    /// Seconds until the key may ask again, if it may not now.
    pub fn wait(&self, key: &K) -> Option<u64> {
        let not_until = self.limiter.check_key(key).err()?;
        Some(not_until.wait_time_from(self.clock.now()).as_secs() + 1)
    }

    /// Takes `some` of what the key may do, if it may do as much now.
    pub fn take(&self, key: &K, some: NonZeroU32) -> bool {
        self.limiter.check_key_n(key, some).is_ok_and(|taken| taken.is_ok())
    }

    /// Forgets keys that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        self.limiter.retain_recent();
    }
}

/// So many at once of each key.
#[derive(Debug)]
pub struct ConcurrencyLimit<K: Hash + Eq + Clone> {
    most: usize,
    /// Permits that are given.
    now: Arc<Mutex<HashMap<K, usize>>>,
}

/// Leave of a key to do one thing more at once, until it is dropped.
#[derive(Debug)]
pub struct Permit<K: Hash + Eq + Clone> {
    key: K,
    now: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Clone> ConcurrencyLimit<K> {
    /// `most` for each key at once.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, now: Arc::default() }
    }

    /// What each key may do at once.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// A permit for `key`, unless it has as many as it may.
    #[must_use]
    pub fn take(&self, key: K) -> Option<Permit<K>> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.get(&key).is_some_and(|permits| *permits >= self.most) {
            return None;
        }
        *now.entry(key.clone()).or_default() += 1;
        Some(Permit { key, now: Arc::clone(&self.now) })
    }
}

impl<K: Hash + Eq + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permits) = now.get_mut(&self.key) {
            *permits -= 1;
            if *permits == 0 {
                now.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_permits_and_nothing_is_left_of_them() {
        let limit = ConcurrencyLimit::new(2);
        let permits = [limit.take("a"), limit.take("a"), limit.take("b")].map(Option::unwrap);
        assert!(limit.take("a").is_none() && limit.take("b").is_some());
        drop(permits);
        assert!(limit.take("a").is_some());
        assert!(limit.now.lock().unwrap().is_empty());
    }
}
