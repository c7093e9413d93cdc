//! Remembers for a short time what a node has said about accounts, so that many payments of one account cost few
//! requests. Counts the requests that a node refused because there were too many.

use std::{collections::HashMap, hash::Hash, time::Duration};

use tokio::time::Instant;
use tollhouse_base::lock::Lock;

/// Maximum number of remembered values. If more are needed at once, all are forgotten.
const MAX_KEYS: usize = 4_096;

/// Values that a node returned within the last `ttl`.
#[derive(Debug)]
pub(crate) struct RecentReads<K, V> {
    ttl: Duration,
    values: Lock<HashMap<K, (Instant, V)>>,
}

impl<K: Hash + Eq, V: Copy> RecentReads<K, V> {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self { ttl, values: Lock::default() }
    }

    /// Returns the value of a key, if it is recent.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.values.lock().get(key).filter(|(at, _)| at.elapsed() < self.ttl).map(|(_, value)| *value)
    }

    pub(crate) fn put(&self, key: K, value: V) {
        let mut values = self.values.lock();
        if values.len() >= MAX_KEYS {
            values.retain(|_, (at, _)| at.elapsed() < self.ttl);
        }
        if values.len() >= MAX_KEYS {
            values.clear();
        }
        values.insert(key, (Instant::now(), value));
    }

    pub(crate) fn forget(&self, key: &K) {
        self.values.lock().remove(key);
    }
}

/// Length of a period. The refusals of the current period and of the one before are counted.
const PERIOD: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct RateRefusals(Lock<Periods>);

#[derive(Debug)]
struct Periods {
    began: Instant,
    current: u64,
    previous: u64,
}

impl RateRefusals {
    pub(super) fn new() -> Self {
        Self(Lock::new(Periods { began: Instant::now(), current: 0, previous: 0 }))
    }

    pub(super) fn add(&self) {
        self.with(|periods| periods.current += 1);
    }

    /// Returns the number of refused requests of the last minute.
    pub(super) fn last_minute(&self) -> u64 {
        self.with(|periods| periods.current + periods.previous)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Periods) -> T) -> T {
        let mut periods = self.0.lock();
        let elapsed = periods.began.elapsed();
        if elapsed >= PERIOD {
            let previous = if elapsed < 2 * PERIOD { periods.current } else { 0 };
            *periods = Periods { began: Instant::now(), current: 0, previous };
        }
        f(&mut periods)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_are_remembered_until_they_are_old_or_forgotten() {
        let reads = RecentReads::new(Duration::from_secs(1));
        reads.put("a", 1);
        reads.put("b", 2);
        reads.forget(&"b");
        assert_eq!((reads.get(&"a"), reads.get(&"b")), (Some(1), None));
        advance(Duration::from_secs(1)).await;
        assert_eq!(reads.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn remembered_reads_of_a_node_are_bounded() {
        let reads = RecentReads::new(Duration::from_secs(1));
        for key in 0..3 * MAX_KEYS {
            reads.put(key, ());
            assert!(reads.values.lock().len() <= MAX_KEYS && reads.get(&key).is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_requests_count_for_about_a_minute() {
        let refusals = RateRefusals::new();
        refusals.add();
        refusals.add();
        advance(PERIOD).await;
        refusals.add();
        assert_eq!(refusals.last_minute(), 3);
        advance(PERIOD).await;
        assert_eq!(refusals.last_minute(), 1);
        advance(3 * PERIOD).await;
        assert_eq!(refusals.last_minute(), 0);
    }
}
