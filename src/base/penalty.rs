//! How often a key, such as a client's address, may fail before it waits.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The time that the budget of a key is for.
pub const WINDOW: Duration = Duration::from_secs(60);

/// Most keys that are remembered. Beyond that, those that failed least are forgotten.
const MAX_KEYS: usize = 16_384;

/// Failures per minute of each key, at once or spread (GCRA).
#[derive(Debug)]
pub struct Penalties<K> {
    per_minute: NonZeroU32,
    /// Within how long all is forgiven, however much a key has failed at once.
    longest: Duration,
    /// Key → when its budget is whole again.
    keys: Mutex<HashMap<K, Instant>>,
}

impl<K: Hash + Eq + Clone> Penalties<K> {
    /// `per_minute` failures of each key; all are forgiven after `longest`.
    #[must_use]
    pub fn new(per_minute: NonZeroU32, longest: Duration) -> Self {
        Self { per_minute, longest, keys: Mutex::default() }
    }

    /// What a key may fail in a minute.
    #[must_use]
    pub fn per_minute(&self) -> NonZeroU32 {
        self.per_minute
    }

    /// How long the key waits from `now` on until one failure is forgiven, if it has failed too often.
    pub fn wait(&self, key: &K, now: Instant) -> Option<Duration> {
        let whole_at = self.keys().get(key).copied()?;
        let wait = (whole_at + self.interval()).saturating_duration_since(now).saturating_sub(WINDOW);
        (!wait.is_zero()).then_some(wait)
    }

    /// Whether the key has failures that are not forgiven by `now`.
    pub fn has_failed(&self, key: &K, now: Instant) -> bool {
        self.keys().get(key).is_some_and(|whole_at| *whole_at > now)
    }

    /// Remembers that the key has failed.
    pub fn count(&self, key: K, now: Instant) {
        let mut keys = self.keys();
        if keys.len() >= MAX_KEYS && !keys.contains_key(&key) {
            keys.retain(|_, whole_at| *whole_at > now);
            if keys.len() >= MAX_KEYS
                && let Some(least) = keys.iter().min_by_key(|(_, whole_at)| **whole_at).map(|(key, _)| key.clone())
            {
                keys.remove(&least);
            }
        }
        let whole_at = keys.entry(key).or_insert(now);
        *whole_at = ((*whole_at).max(now) + self.interval()).min(now + self.longest);
    }

    /// Forgives the key everything.
    pub fn forgive(&self, key: &K) {
        self.keys().remove(key);
    }

    /// Forgets keys whose budget is whole, so that memory stays flat.
    pub fn forget_quiet(&self) {
        let now = Instant::now();
        self.keys().retain(|_, whole_at| *whole_at > now);
    }

    /// The time in which one failure is forgiven.
    fn interval(&self) -> Duration {
        WINDOW / self.per_minute.get()
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<K, Instant>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalties(per_minute: u32) -> Penalties<u32> {
        Penalties::new(NonZeroU32::new(per_minute).unwrap(), Duration::from_secs(60 * 60))
    }

    #[test]
    fn a_key_that_fails_too_often_waits_until_one_failure_is_forgiven() {
        let (penalties, begun) = (penalties(6), Instant::now());
        for _ in 0..6 {
            assert_eq!(penalties.wait(&1, begun), None);
            penalties.count(1, begun);
        }
        assert_eq!(penalties.wait(&1, begun), Some(Duration::from_secs(10)));
        assert_eq!(penalties.wait(&2, begun), None, "another key");
        let later = begun + Duration::from_secs(10);
        assert_eq!(penalties.wait(&1, later), None);
        penalties.count(1, later);
        assert_eq!(penalties.wait(&1, later), Some(Duration::from_secs(10)));
        assert_eq!(penalties.wait(&1, later + WINDOW), None);
        assert!(penalties.has_failed(&1, later) && !penalties.has_failed(&1, later + WINDOW) && !penalties.has_failed(&2, later));
        penalties.forgive(&1);
        assert_eq!((penalties.wait(&1, later), penalties.has_failed(&1, later)), (None, false));
    }

    #[test]
    fn what_failed_at_once_is_waited_for_but_not_for_ever() {
        let (penalties, now) = (penalties(60), Instant::now());
        (0..120).for_each(|_| penalties.count(1, now));
        assert_eq!(penalties.wait(&1, now), Some(Duration::from_secs(61)));
        (0..100_000).for_each(|_| penalties.count(1, now));
        assert!(penalties.wait(&1, now).unwrap() <= Duration::from_secs(60 * 60));
    }

    #[test]
    fn many_keys_do_not_fill_the_memory_nor_push_out_who_fails_most() {
        let (penalties, now) = (penalties(2), Instant::now());
        (0..3).for_each(|_| penalties.count(0, now));
        (1..MAX_KEYS as u32 + 100).for_each(|key| penalties.count(key, now));
        assert_eq!(penalties.keys().len(), MAX_KEYS);
        assert!(penalties.wait(&0, now).is_some());
    }
}
