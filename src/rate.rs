//! How often one key, such as a client's address, may ask.

use std::{hash::Hash, num::NonZeroU32};

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
        let quota = Quota::per_second(per_second).allow_burst(per_second.saturating_mul(BURST));
        Self { limiter: RateLimiter::keyed(quota), clock: DefaultClock::default(), per_second }
    }

    #[must_use]
    pub fn per_second(&self) -> NonZeroU32 {
        self.per_second
    }

    /// Seconds until the key may ask again, if it may not now.
    pub fn wait(&self, key: &K) -> Option<u64> {
        let not_until = self.limiter.check_key(key).err()?;
        Some(not_until.wait_time_from(self.clock.now()).as_secs() + 1)
    }

    /// Forgets keys that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        self.limiter.retain_recent();
    }
}
