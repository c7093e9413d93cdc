//! Places for processes: limits their number and their total memory.
//!
//! A place is taken before a process is ordered, and released when the process is gone from the
//! system, because a killed process keeps its memory for a while. The memory of a process is
//! measured. Until then it counts as [`UNMEASURED_BYTES`]. Zygotes need no place, but their memory
//! counts. One process is always allowed, however little memory there is.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, futures::Notified};

use crate::{groups::Bounds, users::Turn, zygote::Census};

/// Assumed memory of a process before it is measured. More than a process with a loaded handler
/// has.
pub(crate) const UNMEASURED_BYTES: u64 = 16 << 20;

/// The places of a pool.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    most_bytes: u64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    taken: Share,
    /// The part of `taken` whose processes were ended but are not gone yet.
    leaving: Share,
    /// Number of waiters for a place.
    waiting: usize,
    zygotes: Census,
    /// The users that processes run as, each assigned for the lifetime of a place.
    users: Turn,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    places: usize,
    bytes: u64,
}

/// The resource that is short: a waiter cannot get a place, or the limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    Places,
    Memory,
}

/// A place for one process. Dropping it releases the place.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    user: Option<u32>,
    bounds: OnceLock<Bounds>,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    bytes: u64,
    is_leaving: bool,
}

/// Registers a waiter for a place while it lives.
#[derive(Debug)]
pub(crate) struct Waits<'a>(&'a Places);

impl Places {
    /// Creates `most` places, at least one, for processes that hold at most `most_bytes` together
    /// and run as `users`.
    pub(crate) fn new(most: usize, most_bytes: u64, users: Turn) -> Arc<Self> {
        let state = Mutex::new(State { users, ..State::default() });
        Arc::new(Self { most: most.max(1), most_bytes, state, changed: Notify::new() })
    }

    /// Takes a place, if one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Arc<Place>> {
        self.state().take(self).map(|user| self.place(user))
    }

    /// Takes a place, if one is free and nobody waits for it.
    pub(crate) fn take_unwanted(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut state = self.state();
        let user = if state.waiting == 0 { state.take(self) } else { None };
        user.map(|user| self.place(user))
    }

    fn place(self: &Arc<Self>, user: Option<u32>) -> Arc<Place> {
        let held = Mutex::new(Held { bytes: UNMEASURED_BYTES, is_leaving: false });
        Arc::new(Place { places: Arc::clone(self), user, bounds: OnceLock::new(), held })
    }

    /// Registers a waiter for a place, as long as the value lives.
    pub(crate) fn wait(&self) -> Waits<'_> {
        self.state().waiting += 1;
        Waits(self)
    }

    /// Returns what will be short after the departing processes are gone: places or memory for
    /// waiters, or memory for existing processes.
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.lack_with(0)
    }

    /// Returns the lack as if `others` were waiting too.
    pub(crate) fn lack_with(&self, others: usize) -> Option<Lack> {
        let State { taken, leaving, waiting, zygotes, .. } = *self.state();
        let waiting = waiting + others;
        let staying = Share { places: taken.places - leaving.places, bytes: taken.bytes - leaving.bytes };
        if staying.places == 0 {
            None
        } else if staying.places + waiting > self.most {
            Some(Lack::Places)
        } else {
            (staying.bytes + zygotes.bytes + waiting as u64 * UNMEASURED_BYTES > self.most_bytes).then_some(Lack::Memory)
        }
    }

    /// Signals that a process is idle, so that a waiter may use it or its place.
    pub(crate) fn note_idle(&self) {
        if self.state().waiting > 0 {
            self.changed.notify_waiters();
        }
    }

    /// Returns a future that completes when a place was released, or can be obtained by ending an
    /// idle process. Once [enabled](Notified::enable) it misses no change.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the number of processes, including those that start or end.
    pub(crate) fn taken(&self) -> usize {
        self.state().taken.places
    }

    /// Returns the memory of all processes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().taken.bytes
    }

    /// Records the measured memory of the zygotes.
    pub(crate) fn note_zygotes(&self, zygotes: Census) {
        let before = std::mem::replace(&mut self.state().zygotes, zygotes);
        if zygotes.bytes < before.bytes {
            self.note_idle();
        }
    }

    /// Returns the last measurement of the zygotes.
    pub(crate) fn zygotes(&self) -> Census {
        self.state().zygotes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a place if one is free, with the user of its process.
    fn take(&mut self, places: &Places) -> Option<Option<u32>> {
        let bytes = self.taken.bytes + UNMEASURED_BYTES;
        let is_free = self.taken.places < places.most && (self.taken.places == 0 || bytes + self.zygotes.bytes <= places.most_bytes);
        is_free.then(|| {
            self.taken = Share { places: self.taken.places + 1, bytes };
            self.users.take()
        })
    }
}

impl Place {
    /// Returns the user of its process, which no other process has. `None` means the host's own
    /// user.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// Sets the limits of its process, which has just started. They are final.
    pub(crate) fn bind(&self, bounds: Bounds) {
        let _ = self.bounds.set(bounds);
    }

    /// Returns those limits, once there is a process.
    pub(crate) fn bounds(&self) -> Option<&Bounds> {
        self.bounds.get()
    }

    /// Returns the measured memory of its process, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.held().bytes
    }

    /// Records the measured memory of its process, in bytes.
    pub(crate) fn note(&self, bytes: u64) {
        let mut held = self.held();
        let mut state = self.places.state();
        state.taken.bytes = state.taken.bytes - held.bytes + bytes;
        if held.is_leaving {
            state.leaving.bytes = state.leaving.bytes - held.bytes + bytes;
        }
        let may_do = bytes < held.bytes && state.waiting > 0;
        held.bytes = bytes;
        drop(state);
        if may_do {
            self.places.changed.notify_waiters();
        }
    }

    /// Records that its process was ended.
    pub(crate) fn leave(&self) {
        let mut held = self.held();
        if !held.is_leaving {
            held.is_leaving = true;
            let leaving = &mut self.places.state().leaving;
            *leaving = Share { places: leaving.places + 1, bytes: leaving.bytes + held.bytes };
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
        let bytes = self.bytes();
        let is_wanted = {
            let State { taken, leaving, waiting, users, .. } = &mut *self.places.state();
            self.user.into_iter().for_each(|user| users.give_back(user));
            for share in [taken, leaving] {
                *share = Share { places: share.places - 1, bytes: share.bytes - bytes };
            }
            *waiting > 0
        };
        if is_wanted {
            self.places.changed.notify_waiters();
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}
