//! A failure limiter: how often a key, such as a client's address, may fail before it must wait.

use std::{
    hash::Hash,
    num::NonZeroU32,
    sync::MutexGuard,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    gcra::{self, Gcra, Tally, named},
    lock::Lock,
};

/// The period that a key's budget is for.
pub const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of keys remembered. Above it, the keys with the fewest failures are forgotten.
const MAX_KEYS: usize = 16_384;

/// Limits failures per minute for each key, in a burst or spread out (GCRA).
#[derive(Debug)]
pub struct FailureLimiter<K> {
    per_minute: NonZeroU32,
    /// After this time all failures are forgiven, however many there were.
    longest: Duration,
    uses: Lock<Gcra<K>>,
    /// A failure that is counted before a later lock, and the number of locks before that.
    #[cfg(test)]
    interleaved: Lock<Option<(usize, K)>>,
}

/// Whether an attempt of a key can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It can begin.
    Now,
    /// Perhaps after an open attempt has ended. There is at least one.
    Later,
    /// Not before this time has passed, because the key has failed too often.
    Refused(Duration),
}

impl<K: Hash + Eq + Clone> FailureLimiter<K> {
    /// Allows `per_minute` failures for each key. All failures are forgiven after `longest`.
    #[must_use]
    pub fn new(per_minute: NonZeroU32, max_len: Duration) -> Self {
        Self {
            per_minute,
            longest: max_len,
            uses: Lock::default(),
            #[cfg(test)]
            interleaved: Lock::default(),
        }
    }

    /// Returns the number of failures that a key may have in a minute.
    #[must_use]
    pub fn per_minute(&self) -> NonZeroU32 {
        self.per_minute
    }

    /// Returns how long the key must wait from `now` until one failure is forgiven, or `None` if it need not wait.
    pub fn wait(&self, key: &K, now: Instant) -> Option<Duration> {
        let behind = self.uses().behind(key, now);
        self.wait_with(behind)
    }

    /// Returns how long a key with this debt must wait.
    fn wait_with(&self, behind: Duration) -> Option<Duration> {
        let wait = (behind + self.interval()).saturating_sub(WINDOW);
        (!wait.is_zero()).then_some(wait)
    }

    /// Returns whether an attempt of the key can begin at `now`, given the number of its attempts that are open. Each of
    /// these can still fail.
    ///
    /// It reads the failures once, because others can be counted at any time. Without an open attempt, the answer is
    /// never [`Admission::Later`].
    pub(super) fn admit(&self, key: &K, open: u32, now: Instant) -> Admission {
        let behind = self.uses().behind(key, now);
        if let Some(wait) = self.wait_with(behind) {
            return Admission::Refused(wait);
        }
        let max = behind.saturating_add(self.interval().saturating_mul(open.saturating_add(1)));
        if open == 0 || max <= WINDOW { Admission::Now } else { Admission::Later }
    }

    /// Returns whether the key has failures that are not yet forgiven at `now`.
    #[cfg(test)]
    pub(super) fn has_failures(&self, key: &K, now: Instant) -> bool {
        !self.uses().behind(key, now).is_zero()
    }

    /// Records a failure of the key.
    pub fn count(&self, key: K, now: Instant) {
        let mut uses = self.uses();
        let behind = self.behind(&mut uses, &key, 1, now);
        uses.use_here(&key, 1, now, behind, WINDOW / 10);
    }

    /// Makes room for the key and returns its debt after `failed` more failures.
    fn behind(&self, uses: &mut Gcra<K>, key: &K, failed: u32, now: Instant) -> Duration {
        uses.evict(key, MAX_KEYS, now);
        (uses.behind(key, now) + self.interval().saturating_mul(failed)).min(self.longest)
    }

    /// Forgives all failures of the key.
    pub fn forgive(&self, key: &K) {
        self.uses().forget(key);
    }

    /// Forgets keys without unforgiven failures, so that memory use stays flat.
    pub fn prune_idle(&self) {
        self.uses().prune_idle(gcra::now());
    }

    /// Returns the time in which one failure is forgiven.
    fn interval(&self) -> Duration {
        WINDOW / self.per_minute.get()
    }

    fn uses(&self) -> MutexGuard<'_, Gcra<K>> {
        #[cfg(test)]
        self.interleave();
        self.uses.lock()
    }

    /// Counts a failure of the key between the next lock and the one after it, as another thread can.
    #[cfg(test)]
    pub(super) fn fail_after_next_lock(&self, key: K) {
        *self.interleaved.lock() = Some((1, key));
    }

    #[cfg(test)]
    fn interleave(&self) {
        let mut interleaved = self.interleaved.lock();
        match interleaved.take() {
            Some((0, key)) => {
                drop(interleaved);
                self.count(key, gcra::now());
            }
            Some((locks, key)) => *interleaved = Some((locks - 1, key)),
            None => {}
        }
    }
}

impl<K: Hash + Eq + Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Tally for FailureLimiter<K> {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.uses().take(max)
    }

    fn used_elsewhere(&self, name: &str, failed: u64) {
        if let Some(key) = named(name) {
            let (now, mut uses) = (gcra::now(), self.uses());
            let behind = self.behind(&mut uses, &key, u32::try_from(failed).unwrap_or(u32::MAX), now);
            uses.use_elsewhere(key, now, behind);
        }
    }
}

#[cfg(test)]
mod tests;
