//! Attempts that may fail, such as the check of a credential. Until its result is known, an attempt counts as a failure
//! of its key. So simultaneous attempts cannot all run before the first failure is counted.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

use super::{
    failure_limiter::{Admission, FailureLimiter},
    gcra,
    lock::Lock,
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
    queues: Lock<HashMap<K, KeyQueue>>,
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
        Self { penalties: Arc::new(penalties), queues: Lock::default() }
    }

    /// Returns the counted failures.
    #[must_use]
    pub fn penalties(&self) -> &Arc<FailureLimiter<K>> {
        &self.penalties
    }

    /// Records a failure of the key that was noticed after its attempt had ended.
    pub fn count(&self, key: K) {
        self.penalties.count(key, gcra::now());
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
        let mut queues = self.queues.lock();
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
        let mut queues = self.attempts.queues.lock();
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
mod tests;
