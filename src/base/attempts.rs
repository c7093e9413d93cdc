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

use tokio::{sync::Notify, time::timeout};

use super::{
    failure_limiter::{Admission, FailureLimiter},
    gcra,
};

/// Maximum number of attempts of a key that wait. Further ones are refused.
const MAX_WAITING: usize = 1024;

/// Maximum time that an attempt waits.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How long a key should wait after one of these two limits refused an attempt.
const BUSY: Duration = Duration::from_secs(1);

/// Why an attempt cannot begin, and after which time the key can try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptError {
    /// The key has failed too often.
    Failed(Duration),
    /// Too many attempts of the key wait, or this one has waited too long.
    Busy(Duration),
}

/// Limits the attempts of each key to the failures that the key has left.
#[derive(Debug)]
pub struct Attempts<K> {
    penalties: Arc<FailureLimiter<K>>,
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
    pub fn new(penalties: FailureLimiter<K>) -> Self {
        Self { penalties: Arc::new(penalties), queues: Mutex::default() }
    }

    /// Returns the counted failures.
    #[must_use]
    pub fn penalties(&self) -> &Arc<FailureLimiter<K>> {
        &self.penalties
    }

    /// Begins an attempt of the key. While open attempts take all failures that the key has left, waits until one of
    /// them ends, for 10 seconds at most.
    ///
    /// # Errors
    ///
    /// [`AttemptError`].
    pub async fn begin(self: &Arc<Self>, key: K) -> Result<Attempt<K>, AttemptError> {
        let position = self.enter(key).ok_or(AttemptError::Busy(BUSY))?;
        let opened = timeout(MAX_WAIT, self.open(&position)).await;
        match opened {
            Ok(Ok(())) => Ok(Attempt { position }),
            Ok(Err(wait)) => Err(AttemptError::Failed(wait)),
            Err(_elapsed) => Err(AttemptError::Busy(BUSY)),
        }
    }

    /// Opens an attempt as soon as the key's failures allow it.
    ///
    /// # Errors
    ///
    /// How long the key must wait because it has failed too often.
    async fn open(&self, position: &Place<K>) -> Result<(), Duration> {
        let _next = position.queue.next.lock().await;
        loop {
            // An attempt that fails is counted before it ends. So reading in this order misses none.
            let open = position.queue.open.load(Ordering::SeqCst);
            match self.penalties.admit(&position.key, open, gcra::now()) {
                Admission::Now => break,
                // An attempt was open, so its end wakes this one.
                Admission::Later => position.queue.ended.notified().await,
                Admission::Refused(wait) => return Err(wait),
            }
        }
        position.queue.open.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Takes a place in the queue of a key, or returns `None` if [`MAX_WAITING`] attempts of the key wait.
    fn enter(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut queues = self.queues();
        let shared = queues.entry(key.clone()).or_default();
        let open = shared.queue.open.load(Ordering::SeqCst) as usize;
        if shared.attempts.saturating_sub(open) >= MAX_WAITING {
            return None;
        }
        shared.attempts += 1;
        let queue = Arc::clone(&shared.queue);
        drop(queues);
        Some(Place { attempts: Arc::clone(self), key, queue })
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
    position: Place<K>,
}

impl<K: Hash + Eq + Clone> Attempt<K> {
    /// Records that the attempt failed.
    pub fn fail(self) {
        self.position.attempts.penalties.count(self.position.key.clone(), gcra::now());
    }
}

impl<K: Hash + Eq + Clone> Drop for Attempt<K> {
    fn drop(&mut self) {
        self.position.queue.open.fetch_sub(1, Ordering::SeqCst);
        self.position.queue.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use futures_util::future::join_all;
    use tokio::{
        sync::Barrier,
        task::{JoinHandle, yield_now},
        time::Instant,
    };

    use super::*;

    /// Number of attempts that arrive together.
    const TOGETHER: usize = 200;

    fn attempts(per_minute: u32) -> Arc<Attempts<u32>> {
        let per_minute = NonZeroU32::new(per_minute).unwrap();
        Arc::new(Attempts::new(FailureLimiter::new(per_minute, Duration::from_secs(60 * 60))))
    }

    /// Begins an attempt of key 1 in a task, and ends it.
    fn spawn_attempt(attempts: &Arc<Attempts<u32>>) -> JoinHandle<Result<(), AttemptError>> {
        let attempts = Arc::clone(attempts);
        tokio::spawn(async move { attempts.begin(1).await.map(drop) })
    }

    /// Waits until this many attempts of key 1 are open or waiting.
    async fn entered(attempts: &Arc<Attempts<u32>>, count: usize) {
        while attempts.queues()[&1].attempts < count {
            yield_now().await;
        }
    }

    /// Returns the result of `work`, which must not take forever.
    async fn ends<T>(work: impl Future<Output = T>) -> T {
        timeout(Duration::from_secs(60 * 60), work).await.expect("it waits for an event that never comes")
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
        for max in [1, 3, 10] {
            let attempts = attempts(max);
            assert_eq!(together(&attempts, true).await, max as usize);
            assert!(attempts.begin(1).await.is_err());
            assert!(attempts.begin(2).await.is_ok(), "another key");
            assert!(attempts.queues().is_empty());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn simultaneous_attempts_that_succeed_all_run() {
        for max in [1, 3] {
            let attempts = attempts(max);
            assert_eq!(together(&attempts, false).await, TOGETHER);
            assert!(!attempts.penalties().record_failure(&1, gcra::now()) && attempts.queues().is_empty());
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

    /// Failures are also counted without an attempt, for example those on other hosts.
    #[tokio::test(start_paused = true)]
    async fn failure_counted_while_an_attempt_begins_makes_none_wait_forever() {
        let attempts = attempts(1);
        attempts.penalties().fail_after_next_lock(1);
        assert_eq!(ends(attempts.begin(1)).await.map(drop), Ok(()), "the failure came later");
        let refused = Err(AttemptError::Failed(Duration::from_secs(60)));
        assert_eq!(ends(attempts.begin(1)).await.map(drop), refused, "the limit is reached, and no attempt is open");
        assert!(attempts.queues().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failure_counted_while_an_attempt_waits_refuses_it() {
        let attempts = attempts(2);
        let open = attempts.begin(1).await.unwrap();
        attempts.penalties().count(1, gcra::now());
        let waiting = spawn_attempt(&attempts);
        entered(&attempts, 2).await;
        attempts.penalties().count(1, gcra::now());
        drop(open);
        assert_eq!(ends(waiting).await.unwrap(), Err(AttemptError::Failed(Duration::from_secs(30))));
        assert!(attempts.queues().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_do_not_wait_forever() {
        let attempts = attempts(1);
        let open = attempts.begin(1).await.unwrap();
        let started = Instant::now();
        let results = ends(join_all((0..3).map(|_| spawn_attempt(&attempts)))).await;
        assert!(results.into_iter().all(|result| result.unwrap() == Err(AttemptError::Busy(BUSY))));
        assert!((MAX_WAIT..MAX_WAIT + BUSY).contains(&started.elapsed()), "{:?}", started.elapsed());
        drop(open);
        assert!(attempts.begin(1).await.is_ok());
        assert!(attempts.queues().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_attempts_of_a_key_are_bounded() {
        let attempts = attempts(1);
        let open = attempts.begin(1).await.unwrap();
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| spawn_attempt(&attempts)).collect();
        entered(&attempts, MAX_WAITING + 1).await;
        let started = Instant::now();
        assert_eq!(attempts.begin(1).await.map(drop), Err(AttemptError::Busy(BUSY)));
        assert_eq!(started.elapsed(), Duration::ZERO, "it is refused at once");
        assert!(attempts.begin(2).await.is_ok(), "another key");
        drop(open);
        assert!(ends(join_all(waiting)).await.into_iter().all(|result| result.unwrap().is_ok()));
        assert!(attempts.queues().is_empty());
    }
}
