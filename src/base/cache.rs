//! A bounded cache of values that are built from stored records, most of them endpoints.
//!
//! A value in use is never evicted: a second copy would be built, and a change to one copy would not reach the other. Other values are
//! evicted in turn, except those that were used since their last turn (the CLOCK algorithm).

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::Arc,
    time::Instant,
};

use tokio::sync::OwnedMutexGuard;

use crate::lock::Lock;

/// Maximum number of entries examined for eviction each time an entry is added.
const MAX_EXAMINED: usize = 64;

/// A value that the cache can hold.
pub trait CacheKey: Clone {
    /// Returns the approximate memory it takes, in bytes.
    fn bytes(&self) -> usize;

    /// Returns whether anyone besides the cache holds it.
    fn is_in_use(&self) -> bool;

    /// Returns whether it was built completely. A partial value is replaced by a complete one.
    fn is_whole(&self) -> bool {
        true
    }
}

/// A value that is cached behind an [`Arc`] and shared by its users.
pub trait SharedCacheKey {
    /// Returns the approximate memory it takes, in bytes.
    fn bytes(&self) -> usize;

    /// Returns whether it must stay in the cache while it has `holders` holders, including the cache.
    fn is_in_use(&self, holders: usize) -> bool;

    /// Returns whether it was built completely.
    fn is_whole(&self) -> bool {
        true
    }
}

impl<T: SharedCacheKey> CacheKey for Arc<T> {
    fn bytes(&self) -> usize {
        (**self).bytes()
    }

    fn is_in_use(&self) -> bool {
        (**self).is_in_use(Arc::strong_count(self))
    }

    fn is_whole(&self) -> bool {
        (**self).is_whole()
    }
}

/// A cache of built values by key.
pub struct Cache<K, T> {
    max_bytes: usize,
    held: Lock<CacheState<K, T>>,
    /// Locks by key, so that no value is built twice at the same time.
    making: Lock<HashMap<K, BuildTurn>>,
}

/// Why a value could not be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError {
    /// The reason, in words.
    pub reason: String,
    /// Whether another attempt fails too until somebody acts.
    pub is_permanent: bool,
}

/// When and why the last attempt to build the value failed.
type BuildFailure = Option<(Instant, BuildError)>;

/// The lock shared by everyone who wants to build the same value.
type BuildTurn = Arc<tokio::sync::Mutex<BuildFailure>>;

struct CacheState<K, T> {
    all: HashMap<K, CacheEntry<T>>,
    bytes: usize,
    /// The order in which keys are considered for eviction. Some of them may no longer be cached.
    turns: VecDeque<K>,
}

struct CacheEntry<T> {
    value: T,
    bytes: usize,
    was_used: bool,
}

impl<K: Clone + Eq + Hash, T: CacheKey> Cache<K, T> {
    /// Creates a cache for about `max_bytes` bytes.
    pub fn new(max_bytes: usize) -> Self {
        let held = CacheState { all: HashMap::new(), bytes: 0, turns: VecDeque::new() };
        Self { max_bytes, held: Lock::new(held), making: Lock::default() }
    }

    /// Returns the cached value of `key`.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let mut held = self.held.lock();
        let entry = held.all.get_mut(key)?;
        entry.was_used = true;
        Some(entry.value.clone())
    }

    /// Returns all cached values.
    pub fn all(&self) -> Vec<T> {
        self.held.lock().all.values().map(|one| one.value.clone()).collect()
    }

    /// Caches a value in place of the previous one. Returns the values that were evicted for it.
    pub fn put(&self, key: &K, stored: T) -> Vec<T> {
        let bytes = stored.bytes();
        self.held.lock().put(key, (stored, bytes), self.max_bytes)
    }

    /// Caches a built value and returns it with the values that were evicted for it. If a complete value is already cached, returns that
    /// instead. Returns `None` if the value is no longer `current`.
    pub fn keep(&self, key: &K, value: T, current: impl FnOnce() -> bool) -> Option<(T, Vec<T>)> {
        let bytes = value.bytes();
        let mut held = self.held.lock();
        if let Some(one) = held.all.get(key).filter(|one| one.value.is_whole()) {
            return Some((one.value.clone(), vec![]));
        }
        // A writer changes the record first and looks at the cache afterwards, so that this check misses no change.
        if !current() {
            return None;
        }
        let removed = held.put(key, (value.clone(), bytes), self.max_bytes);
        Some((value, removed))
    }

    /// Removes and returns the cached value of `key`.
    pub fn remove<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let mut held = self.held.lock();
        let one = held.all.remove(key)?;
        held.bytes -= one.bytes;
        Some(one.value)
    }

    /// Removes all values.
    pub fn clear(&self) {
        let mut held = self.held.lock();
        (held.bytes, held.turns) = (0, VecDeque::new());
        let removed = std::mem::take(&mut held.all);
        drop(held);
        drop(removed);
    }

    /// Waits for the lock on building the value of `key`. Dropping the result releases it.
    pub async fn turn(&self, key: &K) -> CacheBuild<'_, K, T> {
        let lock = Arc::clone(self.making.lock().entry(key.clone()).or_default());
        let mut making = CacheBuild { cache: self, key: key.clone(), lock: Some(Arc::clone(&lock)), turn: None };
        making.turn = Some(lock.lock_owned().await);
        making
    }
}

impl<K: Clone + Eq + Hash, T: CacheKey> CacheState<K, T> {
    fn put(&mut self, key: &K, (stored, bytes): (T, usize), max_bytes: usize) -> Vec<T> {
        self.bytes += bytes;
        match self.all.insert(key.clone(), CacheEntry { value: stored, bytes, was_used: true }) {
            Some(before) => self.bytes -= before.bytes,
            None => self.turns.push_back(key.clone()),
        }
        if self.turns.len() > 2 * self.all.len() + MAX_EXAMINED {
            let mut seen = HashSet::new();
            self.turns.retain(|key| self.all.contains_key(key) && seen.insert(key.clone()));
        }
        self.make_room(max_bytes)
    }

    fn make_room(&mut self, max_bytes: usize) -> Vec<T> {
        let mut removed = Vec::new();
        for _ in 0..MAX_EXAMINED.min(2 * self.turns.len()) {
            if self.bytes <= max_bytes {
                break;
            }
            let Some(key) = self.turns.pop_front() else { break };
            let Some(one) = self.all.get_mut(&key) else { continue };
            if std::mem::take(&mut one.was_used) || one.value.is_in_use() {
                self.turns.push_back(key);
            } else if let Some(one) = self.all.remove(&key) {
                self.bytes -= one.bytes;
                removed.push(one.value);
            }
        }
        removed
    }
}

/// The lock on building one value.
pub struct CacheBuild<'r, K: Clone + Eq + Hash, T: CacheKey> {
    cache: &'r Cache<K, T>,
    key: K,
    lock: Option<BuildTurn>,
    turn: Option<OwnedMutexGuard<BuildFailure>>,
}

impl<K: Clone + Eq + Hash, T: CacheKey> CacheBuild<'_, K, T> {
    /// Returns why the previous holder of the lock failed, if it failed since `then`. Another attempt so soon would fail too.
    pub fn failed_since(&self, then: Instant) -> Option<&BuildError> {
        let (at, error) = self.turn.as_deref()?.as_ref()?;
        (*at >= then).then_some(error)
    }

    /// Records why the value was not built, for the tasks that wait for the lock.
    pub fn fail(&mut self, error: BuildError) {
        if let Some(turn) = &mut self.turn {
            **turn = Some((Instant::now(), error));
        }
    }
}

impl<K: Clone + Eq + Hash, T: CacheKey> Drop for CacheBuild<'_, K, T> {
    fn drop(&mut self) {
        let mut making = self.cache.making.lock();
        self.turn = None;
        // A count of 2 means that no other task waits: one is in the map and one is here.
        if self.lock.take().is_some_and(|lock| Arc::strong_count(&lock) == 2) {
            making.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
