//! Limits the request rate and the concurrency of a key, such as a client's address.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};

use super::gcra::{Gcra, Tally, named, now};

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
    uses: Mutex<Gcra<K>>,
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
        Self { per_second, whole: time_of(burst.get().into(), per_second), uses: Mutex::default() }
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
        let mut uses = self.uses();
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
        self.uses().prune_idle(now());
    }

    fn uses(&self) -> MutexGuard<'_, Gcra<K>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Tally for RateLimiter<K> {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.uses().take(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        if let Some(key) = named(name) {
            let (now, mut uses) = (now(), self.uses());
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
    now: Arc<Mutex<HashMap<K, usize>>>,
}

/// Permission for one more concurrent operation of a key. Dropping it releases it.
#[derive(Debug)]
pub struct Permit<K: Hash + Eq + Clone> {
    key: K,
    now: Arc<Mutex<HashMap<K, usize>>>,
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
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.get(&key).is_some_and(|permits| *permits >= self.max) {
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

    fn rate(per_second: u32, burst: u32) -> RateLimiter<u8> {
        RateLimiter::with_burst(NonZeroU32::new(per_second).unwrap(), NonZeroU32::new(burst).unwrap())
    }

    fn some(some: u32) -> NonZeroU32 {
        NonZeroU32::new(some).unwrap()
    }

    #[test]
    fn a_key_may_do_so_much_at_once_and_then_as_much_as_comes_back() {
        let (rate, started) = (rate(10, 20), Instant::now());
        for _ in 0..20 {
            assert_eq!(rate.admit(&1, some(1), started), Ok(()));
        }
        assert_eq!(rate.admit(&1, some(1), started), Err(Duration::from_millis(100)));
        assert_eq!(rate.admit(&2, some(20), started), Ok(()), "another key");
        assert_eq!(rate.admit(&3, some(21), started), Err(Duration::from_millis(100)), "more than there ever is");
        let later = started + Duration::from_millis(300);
        assert_eq!(rate.admit(&1, some(4), later), Err(Duration::from_millis(100)));
        assert_eq!(rate.admit(&1, some(3), later), Ok(()));
        assert!(rate.take(&4, some(20)) && !rate.take(&4, some(20)));
        assert_eq!((rate.wait(&4), rate.wait(&5)), (Some(1), None));
        rate.uses().prune_idle(started + Duration::from_secs(60));
        assert_eq!(rate.uses().len(), 0);
    }

    #[test]
    fn rates_of_many_and_of_few_are_kept_to() {
        let (many, started) = (rate(u32::MAX, u32::MAX), Instant::now());
        assert_eq!(many.admit(&1, some(u32::MAX), started), Ok(()));
        assert!(many.admit(&1, some(u32::MAX), started + Duration::from_millis(999)).is_err());
        assert_eq!(many.admit(&1, some(u32::MAX), started + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn keys_are_bounded_and_who_has_used_most_stays() {
        let rate: RateLimiter<u32> = RateLimiter::with_burst(NonZeroU32::new(10).unwrap(), NonZeroU32::new(20).unwrap());
        let now = Instant::now();
        assert_eq!(rate.admit(&0, some(20), now), Ok(()));
        (1..MAX_KEYS as u32 * 2).for_each(|key| assert_eq!(rate.admit(&key, some(1), now), Ok(())));
        assert!(rate.uses().len() <= MAX_KEYS, "{}", rate.uses().len());
        assert!(rate.admit(&0, some(1), now).is_err());
    }

    #[test]
    fn what_is_used_elsewhere_counts_here_too() {
        let (one, other, now) = (rate(10, 20), rate(10, 20), now());
        assert_eq!(one.take_used(10), [], "nobody has asked before");
        assert_eq!(one.admit(&1, some(2), now), Ok(()));
        assert_eq!(one.take_used(10), [], "it is no more than a tenth");
        assert_eq!(one.admit(&1, some(18), now), Ok(()));
        assert_eq!(one.admit(&2, some(10), now), Ok(()));
        assert_eq!(one.take_used(1), [("1".to_owned(), 20)]);
        assert_eq!(one.take_used(10), [("2".to_owned(), 10)]);
        assert_eq!(one.take_used(10), []);
        other.used_elsewhere("1", 200);
        other.used_elsewhere("no key", 200);
        assert!(!other.take(&1, some(1)) && other.take(&2, some(20)));
        assert_eq!(other.take_used(10), [], "what others have used is not told them");
        assert!(other.wait(&1).is_some_and(|wait| wait > 10), "it has used ten times as much as it may at once");
    }

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
