//! Places for processes: limits their number and their total memory.
//!
//! A place is taken before a process is started, and released when the process is gone from the
//! system, because a killed process keeps its memory for a while. The memory of a process is
//! measured. Until then it counts as [`UNMEASURED_BYTES`]. Zygotes need no place, but their memory
//! counts. One process is always allowed, however little memory there is.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, futures::Notified};
use tollhouse_fair::lock::Lock;

use crate::{cgroups::GroupLimits, users::UserAllocator, zygote::ZygoteCounts};

/// Assumed memory of a process before it is measured. More than a process with a loaded handler
/// has.
pub(crate) const UNMEASURED_BYTES: u64 = 16 << 20;

/// The places of a pool.
#[derive(Debug)]
pub(crate) struct ProcessSlots {
    max: usize,
    max_bytes: u64,
    state: Lock<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    taken: Share,
    /// The part of `taken` whose processes were ended but are not gone yet.
    leaving: Share,
    /// Number of waiters for a place.
    waiting: usize,
    zygotes: ZygoteCounts,
    /// The users that processes run as, each assigned for the lifetime of a place.
    users: UserAllocator,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    slots: usize,
    bytes: u64,
}

/// The resource that is short: a waiter cannot get a place, or the limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    Places,
    Memory,
}

/// A place for one process. Dropping it releases the place.
#[derive(Debug)]
pub(crate) struct ProcessSlot {
    slots: Arc<ProcessSlots>,
    user: Option<u32>,
    group_limits: OnceLock<GroupLimits>,
    held: Lock<HeldSlot>,
}

#[derive(Debug)]
struct HeldSlot {
    bytes: u64,
    is_leaving: bool,
}

/// Registers a waiter for a place while it lives.
#[derive(Debug)]
pub(crate) struct SlotWaiter<'a>(&'a ProcessSlots);

impl ProcessSlots {
    /// Creates `max` places, at least one, for processes that hold at most `max_bytes` together
    /// and run as `users`.
    pub(crate) fn new(max: usize, max_bytes: u64, users: UserAllocator) -> Arc<Self> {
        let state = Lock::new(State { users, ..State::default() });
        Arc::new(Self { max: max.max(1), max_bytes, state, changed: Notify::new() })
    }

    /// Takes a place, if one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Arc<ProcessSlot>> {
        self.state.lock().take(self).map(|user| self.slot(user))
    }

    /// Takes a place, if one is free and nobody waits for it.
    pub(crate) fn take_unused(self: &Arc<Self>) -> Option<Arc<ProcessSlot>> {
        let mut state = self.state.lock();
        let user = if state.waiting == 0 { state.take(self) } else { None };
        user.map(|user| self.slot(user))
    }

    fn slot(self: &Arc<Self>, user: Option<u32>) -> Arc<ProcessSlot> {
        let held = Lock::new(HeldSlot { bytes: UNMEASURED_BYTES, is_leaving: false });
        Arc::new(ProcessSlot { slots: Arc::clone(self), user, group_limits: OnceLock::new(), held })
    }

    /// Registers a waiter for a place, as long as the value lives.
    pub(crate) fn wait(&self) -> SlotWaiter<'_> {
        self.state.lock().waiting += 1;
        SlotWaiter(self)
    }

    /// Returns the resource that is short even after the ended processes are gone: places or memory
    /// for waiters, or memory for existing processes.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        self.shortage_with(0)
    }

    /// Returns the shortage as if `others` were waiting too.
    pub(crate) fn shortage_with(&self, others: usize) -> Option<Shortage> {
        let State { taken, leaving, waiting, zygotes, .. } = *self.state.lock();
        let waiting = waiting + others;
        let staying = Share { slots: taken.slots - leaving.slots, bytes: taken.bytes - leaving.bytes };
        if staying.slots == 0 {
            None
        } else if staying.slots + waiting > self.max {
            Some(Shortage::Places)
        } else {
            (staying.bytes + zygotes.bytes + waiting as u64 * UNMEASURED_BYTES > self.max_bytes).then_some(Shortage::Memory)
        }
    }

    /// Signals that a process is idle, so that a waiter can use it or its place.
    pub(crate) fn notify_idle(&self) {
        if self.state.lock().waiting > 0 {
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
        self.state.lock().taken.slots
    }

    /// Returns the memory of all processes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().taken.bytes
    }

    /// Records the measured memory of the zygotes.
    pub(crate) fn record_zygotes(&self, zygotes: ZygoteCounts) {
        let before = std::mem::replace(&mut self.state.lock().zygotes, zygotes);
        if zygotes.bytes < before.bytes {
            self.notify_idle();
        }
    }

    /// Returns the last measurement of the zygotes.
    pub(crate) fn zygotes(&self) -> ZygoteCounts {
        self.state.lock().zygotes
    }
}

impl State {
    /// Takes a place if one is free, with the user of its process.
    fn take(&mut self, slots: &ProcessSlots) -> Option<Option<u32>> {
        let bytes = self.taken.bytes + UNMEASURED_BYTES;
        let is_free = self.taken.slots < slots.max && (self.taken.slots == 0 || bytes + self.zygotes.bytes <= slots.max_bytes);
        is_free.then(|| {
            self.taken = Share { slots: self.taken.slots + 1, bytes };
            self.users.take()
        })
    }
}

impl ProcessSlot {
    /// Returns the user of its process, which no other process has. `None` means the host's own
    /// user.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// Sets the limits of its process, which has just started. They are final.
    pub(crate) fn bind(&self, group_limits: GroupLimits) {
        let _ = self.group_limits.set(group_limits);
    }

    /// Returns those limits, once there is a process.
    pub(crate) fn group_limits(&self) -> Option<&GroupLimits> {
        self.group_limits.get()
    }

    /// Returns the measured memory of its process, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    /// Records the measured memory of its process, in bytes.
    pub(crate) fn note(&self, bytes: u64) {
        let mut held = self.held.lock();
        let mut state = self.slots.state.lock();
        state.taken.bytes = state.taken.bytes - held.bytes + bytes;
        if held.is_leaving {
            state.leaving.bytes = state.leaving.bytes - held.bytes + bytes;
        }
        let frees_memory = bytes < held.bytes && state.waiting > 0;
        held.bytes = bytes;
        drop(state);
        if frees_memory {
            self.slots.changed.notify_waiters();
        }
    }

    /// Records that its process was ended.
    pub(crate) fn leave(&self) {
        let mut held = self.held.lock();
        if !held.is_leaving {
            held.is_leaving = true;
            let leaving = &mut self.slots.state.lock().leaving;
            *leaving = Share { slots: leaving.slots + 1, bytes: leaving.bytes + held.bytes };
        }
    }
}

impl Drop for ProcessSlot {
    fn drop(&mut self) {
        self.leave();
        let bytes = self.bytes();
        let is_wanted = {
            let State { taken, leaving, waiting, users, .. } = &mut *self.slots.state.lock();
            self.user.into_iter().for_each(|user| users.release(user));
            for share in [taken, leaving] {
                *share = Share { slots: share.slots - 1, bytes: share.bytes - bytes };
            }
            *waiting > 0
        };
        if is_wanted {
            self.slots.changed.notify_waiters();
        }
    }
}

impl Drop for SlotWaiter<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}
