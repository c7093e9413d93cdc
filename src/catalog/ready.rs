//! What was made of endpoints last, as much of it as there is room for.
//!
//! What is in use is never let go of: whoever makes it again would make another, and what is changed of one is not changed of the other.
//! It is let go of in turn, but for what was asked for since its last turn.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::OwnedMutexGuard;

use crate::tool::Slug;

/// How many are looked at for room, each time that one more is kept.
const LOOKED_AT: usize = 64;

/// What is kept of an endpoint.
pub(super) trait Kept: Clone {
    /// What it takes in memory, about.
    fn bytes(&self) -> usize;

    /// Whether anybody but who keeps it has it.
    fn is_in_use(&self) -> bool;
}

/// What was made of endpoints, by slug.
pub(super) struct Ready<T> {
    most_bytes: usize,
    held: Mutex<Held<T>>,
    /// Who makes what, so that nobody makes the same.
    making: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

struct Held<T> {
    all: HashMap<Slug, One<T>>,
    bytes: usize,
    /// Whose turn it is next to be let go of. Some of them are kept no more.
    turns: VecDeque<Slug>,
}

struct One<T> {
    kept: T,
    bytes: usize,
    is_asked_for: bool,
}

impl<T> fmt::Debug for Ready<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held();
        f.debug_struct("Ready").field("kept", &held.all.len()).field("bytes", &held.bytes).finish_non_exhaustive()
    }
}

impl<T> Ready<T> {
    fn held(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Kept> Ready<T> {
    /// Room for so many bytes, about.
    pub(super) fn new(most_bytes: usize) -> Self {
        let held = Held { all: HashMap::new(), bytes: 0, turns: VecDeque::new() };
        Self { most_bytes, held: Mutex::new(held), making: Mutex::default() }
    }

    /// What is kept of an endpoint.
    pub(super) fn get(&self, slug: &str) -> Option<T> {
        let mut held = self.held();
        let one = held.all.get_mut(slug)?;
        one.is_asked_for = true;
        Some(one.kept.clone())
    }

    /// All that is kept.
    pub(super) fn all(&self) -> Vec<T> {
        self.held().all.values().map(|one| one.kept.clone()).collect()
    }

    /// Keeps what was made, in place of what was kept; answers what had to go for it.
    pub(super) fn put(&self, slug: &Slug, kept: T) -> Vec<T> {
        let bytes = kept.bytes();
        self.held().put(slug, (kept, bytes), self.most_bytes)
    }

    /// Keeps what was made, unless something is kept already, which is answered then, or it is not `current` any more. With what had to
    /// go for it.
    pub(super) fn keep(&self, slug: &Slug, made: T, current: impl FnOnce() -> bool) -> Option<(T, Vec<T>)> {
        let bytes = made.bytes();
        let mut held = self.held();
        if let Some(one) = held.all.get(slug) {
            return Some((one.kept.clone(), vec![]));
        }
        // Whoever changes something changes it first, and then looks what is kept of it.
        if !current() {
            return None;
        }
        let gone = held.put(slug, (made.clone(), bytes), self.most_bytes);
        Some((made, gone))
    }

    /// Keeps nothing of an endpoint any more; answers what was kept.
    pub(super) fn remove(&self, slug: &str) -> Option<T> {
        let mut held = self.held();
        let one = held.all.remove(slug)?;
        held.bytes -= one.bytes;
        Some(one.kept)
    }

    /// Keeps nothing any more.
    pub(super) fn clear(&self) {
        let mut held = self.held();
        (held.bytes, held.turns) = (0, VecDeque::new());
        let gone = std::mem::take(&mut held.all);
        drop(held);
        drop(gone);
    }

    /// The turn to make something of an endpoint, as long as the value lives.
    pub(super) async fn turn(&self, slug: &str) -> Making<'_, T> {
        let lock = Arc::clone(self.making().entry(slug.to_owned()).or_default());
        let mut making = Making { ready: self, slug: slug.to_owned(), lock: Some(Arc::clone(&lock)), turn: None };
        making.turn = Some(lock.lock_owned().await);
        making
    }

    fn making(&self) -> MutexGuard<'_, HashMap<String, Arc<tokio::sync::Mutex<()>>>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Kept> Held<T> {
    fn put(&mut self, slug: &Slug, (kept, bytes): (T, usize), most_bytes: usize) -> Vec<T> {
        self.bytes += bytes;
        match self.all.insert(slug.clone(), One { kept, bytes, is_asked_for: true }) {
            Some(before) => self.bytes -= before.bytes,
            None => self.turns.push_back(slug.clone()),
        }
        if self.turns.len() > 2 * self.all.len() + LOOKED_AT {
            let mut seen = std::collections::HashSet::new();
            self.turns.retain(|slug| self.all.contains_key(slug) && seen.insert(slug.clone()));
        }
        self.make_room(most_bytes)
    }

    fn make_room(&mut self, most_bytes: usize) -> Vec<T> {
        let mut gone = Vec::new();
        for _ in 0..LOOKED_AT.min(2 * self.turns.len()) {
            if self.bytes <= most_bytes {
                break;
            }
            let Some(slug) = self.turns.pop_front() else { break };
            let Some(one) = self.all.get_mut(&slug) else { continue };
            if std::mem::take(&mut one.is_asked_for) || one.kept.is_in_use() {
                self.turns.push_back(slug);
            } else if let Some(one) = self.all.remove(&slug) {
                self.bytes -= one.bytes;
                gone.push(one.kept);
            }
        }
        gone
    }
}

/// A turn to make something of an endpoint.
pub(super) struct Making<'r, T: Kept> {
    ready: &'r Ready<T>,
    slug: String,
    lock: Option<Arc<tokio::sync::Mutex<()>>>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl<T: Kept> Drop for Making<'_, T> {
    fn drop(&mut self) {
        let mut making = self.ready.making();
        self.turn = None;
        // The one in the map is left where nobody else waits.
        if self.lock.take().is_some_and(|lock| Arc::strong_count(&lock) == 2) {
            making.remove(&self.slug);
        }
    }
}
