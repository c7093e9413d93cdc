//! Places for processes: how many there are at once, and what they hold of the machine's memory together.
//!
//! A place is taken before a process is ordered, and given back when the system has let go of it: one that was killed has its
//! memory for a while yet. What a process holds is measured; until it is, [`UNMEASURED_BYTES`] stand for it. Zygotes have
//! no places, and what they hold is not for others either. One process may always be, however little memory there is.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, futures::Notified};

use crate::{groups::Bounds, users::Turn, zygote::Census};

/// What a process is taken to hold until it is measured: above what one has of its own when it has loaded a handler.
pub(crate) const UNMEASURED_BYTES: u64 = 16 << 20;

/// See the module's documentation.
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
    /// The part of that whose processes were ended, and are there yet.
    leaving: Share,
    /// Those who wait for a place.
    waiting: usize,
    zygotes: Census,
    /// Whom processes become, for as long as they have their places.
    users: Turn,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    places: usize,
    bytes: u64,
}

/// What keeps somebody from a place who waits for one, or is more than there is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    Places,
    Memory,
}

/// A place for one process. Dropping it gives it back.
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

/// Somebody who waits for a place.
#[derive(Debug)]
pub(crate) struct Waits<'a>(&'a Places);

impl Places {
    /// So many, one at least, whose processes may hold `most_bytes` together, and become `users`.
    pub(crate) fn new(most: usize, most_bytes: u64, users: Turn) -> Arc<Self> {
        let state = Mutex::new(State { users, ..State::default() });
        Arc::new(Self { most: most.max(1), most_bytes, state, changed: Notify::new() })
    }

    /// A place, if there is one.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Arc<Place>> {
        self.state().take(self).map(|user| self.place(user))
    }

    /// A place that nobody waits for, if there is one.
    pub(crate) fn take_unwanted(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut state = self.state();
        let user = if state.waiting == 0 { state.take(self) } else { None };
        user.map(|user| self.place(user))
    }

    fn place(self: &Arc<Self>, user: Option<u32>) -> Arc<Place> {
        let held = Mutex::new(Held { bytes: UNMEASURED_BYTES, is_leaving: false });
        Arc::new(Place { places: Arc::clone(self), user, bounds: OnceLock::new(), held })
    }

    /// Notes that somebody waits for a place, as long as the value lives.
    pub(crate) fn wait(&self) -> Waits<'_> {
        self.state().waiting += 1;
        Waits(self)
    }

    /// What is lacking once those have left who are about to: for those who wait, or memory for those who are there.
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.lack_with(0)
    }

    /// The same of those who wait and of `others`, who do not.
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

    /// Says that a process is idle: one who waits may have it, or its place.
    pub(crate) fn note_idle(&self) {
        if self.state().waiting > 0 {
            self.changed.notify_waiters();
        }
    }

    /// Ends when a place was given back, or may be had by ending somebody. [Enabled](Notified::enable) it misses nothing.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// How many processes there are, with those that are on their way and those that are about to leave.
    pub(crate) fn taken(&self) -> usize {
        self.state().taken.places
    }

    /// What they hold together.
    pub(crate) fn bytes(&self) -> u64 {
        self.state().taken.bytes
    }

    /// Notes what the zygotes were measured to hold.
    pub(crate) fn note_zygotes(&self, zygotes: Census) {
        let before = std::mem::replace(&mut self.state().zygotes, zygotes);
        if zygotes.bytes < before.bytes {
            self.note_idle();
        }
    }

    /// What the zygotes were when they were last looked at.
    pub(crate) fn zygotes(&self) -> Census {
        self.state().zygotes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whom the process of a place becomes, if there is one.
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
    /// Whom its process becomes, and no other one: `None` where it stays who the host is.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// Puts bounds around its process, which was just started: for good.
    pub(crate) fn bind(&self, bounds: Bounds) {
        let _ = self.bounds.set(bounds);
    }

    /// Those bounds, once there is a process.
    pub(crate) fn bounds(&self) -> Option<&Bounds> {
        self.bounds.get()
    }

    /// What its process was measured to hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.held().bytes
    }

    /// Notes what its process was measured to hold.
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

    /// Notes that its process was ended.
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
