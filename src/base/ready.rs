//! A bounded cache of values that are built from stored records, most of them endpoints.
//!
//! A value in use is never evicted: a second copy would be built, and a change to one copy would not reach the other. Other values are
//! evicted in turn, except those that were used since their last turn (the CLOCK algorithm).

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::OwnedMutexGuard;

/// Maximum number of entries examined for eviction each time an entry is added.
const LOOKED_AT: usize = 64;

/// A value that the cache can hold.
pub trait Kept: Clone {
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
pub trait KeptShared {
    /// Returns the approximate memory it takes, in bytes.
    fn bytes(&self) -> usize;

    /// Returns whether it must stay in the cache while it has `holders` holders, including the cache.
    fn is_in_use(&self, holders: usize) -> bool;

    /// Returns whether it was built completely.
    fn is_whole(&self) -> bool {
        true
    }
}

impl<T: KeptShared> Kept for Arc<T> {
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
pub struct Ready<K, T> {
    most_bytes: usize,
    held: Mutex<Held<K, T>>,
    /// Locks by key, so that no value is built twice at the same time.
    making: Mutex<HashMap<K, Turn>>,
}

/// When and why the last attempt to build the value failed.
type Failed = Option<(Instant, String)>;

/// The lock shared by everyone who wants to build the same value.
type Turn = Arc<tokio::sync::Mutex<Failed>>;

struct Held<K, T> {
    all: HashMap<K, One<T>>,
    bytes: usize,
    /// The order in which keys are considered for eviction. Some of them may no longer be cached.
    turns: VecDeque<K>,
}

struct One<T> {
    kept: T,
    bytes: usize,
    is_asked_for: bool,
}

impl<K, T> fmt::Debug for Ready<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held();
        f.debug_struct("Ready").field("kept", &held.all.len()).field("bytes", &held.bytes).finish_non_exhaustive()
    }
}

impl<K, T> Ready<K, T> {
    fn held(&self) -> MutexGuard<'_, Held<K, T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, T: Kept> Ready<K, T> {
    /// Creates a cache for about `most_bytes` bytes.
    pub fn new(most_bytes: usize) -> Self {
        let held = Held { all: HashMap::new(), bytes: 0, turns: VecDeque::new() };
        Self { most_bytes, held: Mutex::new(held), making: Mutex::default() }
    }

    /// Returns the cached value of `key`.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let mut held = self.held();
        let one = held.all.get_mut(key)?;
        one.is_asked_for = true;
        Some(one.kept.clone())
    }

    /// Returns all cached values.
    pub fn all(&self) -> Vec<T> {
        self.held().all.values().map(|one| one.kept.clone()).collect()
    }

    /// Caches a value in place of the previous one. Returns the values that were evicted for it.
    pub fn put(&self, key: &K, kept: T) -> Vec<T> {
        let bytes = kept.bytes();
        self.held().put(key, (kept, bytes), self.most_bytes)
    }

    /// Caches a built value and returns it with the values that were evicted for it. If a complete value is already cached, returns that
    /// instead. Returns `None` if the value is no longer `current`.
    pub fn keep(&self, key: &K, made: T, current: impl FnOnce() -> bool) -> Option<(T, Vec<T>)> {
        let bytes = made.bytes();
        let mut held = self.held();
        if let Some(one) = held.all.get(key).filter(|one| one.kept.is_whole()) {
            return Some((one.kept.clone(), vec![]));
        }
        // A writer changes the record first and looks at the cache afterwards, so that this check misses no change.
        if !current() {
            return None;
        }
        let gone = held.put(key, (made.clone(), bytes), self.most_bytes);
        Some((made, gone))
    }

    /// Removes and returns the cached value of `key`.
    pub fn remove<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let mut held = self.held();
        let one = held.all.remove(key)?;
        held.bytes -= one.bytes;
        Some(one.kept)
    }

    /// Removes all values.
    pub fn clear(&self) {
        let mut held = self.held();
        (held.bytes, held.turns) = (0, VecDeque::new());
        let gone = std::mem::take(&mut held.all);
        drop(held);
        drop(gone);
    }

    /// Waits for the lock on building the value of `key`. Dropping the result releases it.
    pub async fn turn(&self, key: &K) -> Making<'_, K, T> {
        let lock = Arc::clone(self.making().entry(key.clone()).or_default());
        let mut making = Making { ready: self, key: key.clone(), lock: Some(Arc::clone(&lock)), turn: None };
        making.turn = Some(lock.lock_owned().await);
        making
    }

    fn making(&self) -> MutexGuard<'_, HashMap<K, Turn>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, T: Kept> Held<K, T> {
    fn put(&mut self, key: &K, (kept, bytes): (T, usize), most_bytes: usize) -> Vec<T> {
        self.bytes += bytes;
        match self.all.insert(key.clone(), One { kept, bytes, is_asked_for: true }) {
            Some(before) => self.bytes -= before.bytes,
            None => self.turns.push_back(key.clone()),
        }
        if self.turns.len() > 2 * self.all.len() + LOOKED_AT {
            let mut seen = HashSet::new();
            self.turns.retain(|key| self.all.contains_key(key) && seen.insert(key.clone()));
        }
        self.make_room(most_bytes)
    }

    fn make_room(&mut self, most_bytes: usize) -> Vec<T> {
        let mut gone = Vec::new();
        for _ in 0..LOOKED_AT.min(2 * self.turns.len()) {
            if self.bytes <= most_bytes {
                break;
            }
            let Some(key) = self.turns.pop_front() else { break };
            let Some(one) = self.all.get_mut(&key) else { continue };
            if std::mem::take(&mut one.is_asked_for) || one.kept.is_in_use() {
                self.turns.push_back(key);
            } else if let Some(one) = self.all.remove(&key) {
                self.bytes -= one.bytes;
                gone.push(one.kept);
            }
        }
        gone
    }
}

/// The lock on building one value.
pub struct Making<'r, K: Clone + Eq + Hash, T: Kept> {
    ready: &'r Ready<K, T>,
    key: K,
    lock: Option<Turn>,
    turn: Option<OwnedMutexGuard<Failed>>,
}

impl<K: Clone + Eq + Hash, T: Kept> Making<'_, K, T> {
    /// Returns why the previous holder of the lock failed, if it failed since `then`. Another attempt so soon would fail too.
    pub fn failed_since(&self, then: Instant) -> Option<&str> {
        let (at, why) = self.turn.as_deref()?.as_ref()?;
        (*at >= then).then_some(why)
    }

    /// Records why the value was not built, for those who wait for the lock.
    pub fn fail(&mut self, why: String) {
        if let Some(turn) = &mut self.turn {
            **turn = Some((Instant::now(), why));
        }
    }
}

impl<K: Clone + Eq + Hash, T: Kept> Drop for Making<'_, K, T> {
    fn drop(&mut self) {
        let mut making = self.ready.making();
        self.turn = None;
        // A count of 2 means that nobody else waits: one is in the map and one is here.
        if self.lock.take().is_some_and(|lock| Arc::strong_count(&lock) == 2) {
            making.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
