//! Attempts that may fail, such as the check of a credential. Until its result is known, an attempt counts as a failure
//! of its key. So simultaneous attempts cannot all run before the first failure is counted.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{penalty::Penalties, uses};

/// Limits the attempts of each key to the failures that the key has left.
#[derive(Debug)]
pub struct Attempts<K> {
    penalties: Arc<Penalties<K>>,
    /// The queues of keys that have an attempt open or waiting.
    queues: Mutex<HashMap<K, KeyQueue>>,
}

/// A queue and the number of attempts in it.
#[derive(Debug, Default)]
struct KeyQueue {
    queue: Arc<Queue>,
    attempts: usize,
}

/// The attempts of one key.
#[derive(Debug, Default)]
struct Queue {
    /// Held by the attempt that begins next. The others wait for it in the order in which they arrived.
    next: tokio::sync::Mutex<()>,
    /// Number of attempts whose result is not known.
    open: AtomicU32,
    /// Notified when one of them ends.
    ended: Notify,
}

impl<K: Hash + Eq + Clone> Attempts<K> {
    /// Counts failed attempts in `penalties`.
    #[must_use]
    pub fn new(penalties: Penalties<K>) -> Self {
        Self { penalties: Arc::new(penalties), queues: Mutex::default() }
    }

    /// Returns the counted failures.
    #[must_use]
    pub fn penalties(&self) -> &Arc<Penalties<K>> {
        &self.penalties
    }

    /// Begins an attempt of the key. While open attempts take all failures that the key has left, waits until one of
    /// them ends.
    ///
    /// # Errors
    ///
    /// How long the key must wait because it has failed too often.
    pub async fn begin(self: &Arc<Self>, key: K) -> Result<Attempt<K>, Duration> {
        let place = self.enter(key);
        {
            let _next = place.queue.next.lock().await;
            loop {
                // An attempt that fails is counted before it ends. So reading in this order misses none.
                let open = place.queue.open.load(Ordering::SeqCst);
                let now = uses::now();
                if let Some(wait) = self.penalties.wait(&place.key, now) {
                    return Err(wait);
                }
                if self.penalties.may_fail(&place.key, open.saturating_add(1), now) {
                    break;
                }
                place.queue.ended.notified().await;
            }
            place.queue.open.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Attempt { place })
    }

    fn enter(self: &Arc<Self>, key: K) -> Place<K> {
        let mut queues = self.queues();
        let shared = queues.entry(key.clone()).or_default();
        shared.attempts += 1;
        let queue = Arc::clone(&shared.queue);
        drop(queues);
        Place { attempts: Arc::clone(self), key, queue }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<K, KeyQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue of a key.
#[derive(Debug)]
struct Place<K: Hash + Eq + Clone> {
    attempts: Arc<Attempts<K>>,
    key: K,
    queue: Arc<Queue>,
}

impl<K: Hash + Eq + Clone> Drop for Place<K> {
    fn drop(&mut self) {
        let mut queues = self.attempts.queues();
        if let Some(shared) = queues.get_mut(&self.key) {
            shared.attempts -= 1;
            if shared.attempts == 0 {
                queues.remove(&self.key);
            }
        }
    }
}

/// An open attempt. Until it is dropped, it counts as a failure of its key.
#[derive(Debug)]
pub struct Attempt<K: Hash + Eq + Clone> {
    place: Place<K>,
}

impl<K: Hash + Eq + Clone> Attempt<K> {
    /// Records that the attempt failed.
    pub fn fail(self) {
        self.place.attempts.penalties.count(self.place.key.clone(), uses::now());
    }
}

impl<K: Hash + Eq + Clone> Drop for Attempt<K> {
    fn drop(&mut self) {
        self.place.queue.open.fetch_sub(1, Ordering::SeqCst);
        self.place.queue.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use futures_util::future::join_all;
    use tokio::{sync::Barrier, task::yield_now};

    use super::*;

    /// Number of attempts that arrive together.
    const TOGETHER: usize = 200;

    fn attempts(per_minute: u32) -> Arc<Attempts<u32>> {
        let per_minute = NonZeroU32::new(per_minute).unwrap();
        Arc::new(Attempts::new(Penalties::new(per_minute, Duration::from_secs(60 * 60))))
    }

    /// Begins attempts of one key at the same moment. Returns how many ran. `fail` decides whether they fail.
    async fn together(attempts: &Arc<Attempts<u32>>, fail: bool) -> usize {
        let barrier = Arc::new(Barrier::new(TOGETHER));
        let tasks = (0..TOGETHER).map(|_| {
            let (attempts, barrier) = (Arc::clone(attempts), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                let Ok(attempt) = attempts.begin(1).await else { return false };
                yield_now().await;
                if fail {
                    attempt.fail();
                }
                true
            })
        });
        join_all(tasks).await.into_iter().filter(|ran| *ran.as_ref().unwrap()).count()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn simultaneous_attempts_run_only_until_the_limit_is_reached() {
        for most in [1, 3, 10] {
            let attempts = attempts(most);
            assert_eq!(together(&attempts, true).await, most as usize);
            assert!(attempts.begin(1).await.is_err());
            assert!(attempts.begin(2).await.is_ok(), "another key");
            assert!(attempts.queues().is_empty());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn simultaneous_attempts_that_succeed_all_run() {
        for most in [1, 3] {
            let attempts = attempts(most);
            assert_eq!(together(&attempts, false).await, TOGETHER);
            assert!(!attempts.penalties().has_failed(&1, uses::now()) && attempts.queues().is_empty());
        }
    }

    #[tokio::test]
    async fn abandoned_attempt_does_not_block_its_queue() {
        let attempts = attempts(1);
        let first = attempts.begin(1).await.unwrap();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let attempts = Arc::clone(&attempts);
                tokio::spawn(async move { attempts.begin(1).await.is_ok() })
            })
            .collect();
        while attempts.queues()[&1].attempts < 3 {
            yield_now().await;
        }
        for abandoned in waiting {
            abandoned.abort();
            assert!(abandoned.await.unwrap_err().is_cancelled());
        }
        drop(first);
        assert!(attempts.begin(1).await.is_ok());
        assert!(attempts.queues().is_empty());
    }
}
