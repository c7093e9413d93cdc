//! Bytes in transit between the host and its workers: requests of ops, room reserved for their
//! answers, and answers that no socket has taken yet.
//!
//! An op begins only when its bytes fit: those of its request, and as many as its answer can have.
//! They count until the socket has taken the answer. A call has
//! [`CALL_BYTES`](tollhouse_protocol::limits::CALL_BYTES). An owner can have as much as all owners
//! leave free: a single owner gets half, two get a third each, and a newcomer always finds as much
//! as the largest owner has.
//!
//! Invariant: a call with nothing in transit can begin an op, however much others hold. So no call waits
//! for the end of another, and there is no deadlock. The total is therefore at most the maximum
//! plus one op and its request for each call.

use std::collections::HashMap;

use tokio::sync::{Notify, futures::Notified};
use tollhouse_fair::lock::Lock;

/// Bytes in transit of all calls.
#[derive(Debug)]
pub(crate) struct FlowControl {
    max: usize,
    state: Lock<State>,
    /// Notified whenever bytes are released.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    owners: HashMap<Box<str>, OwnerShare>,
}

#[derive(Debug, Default)]
struct OwnerShare {
    held: usize,
    accounts: usize,
}

impl FlowControl {
    /// Creates the accounts for at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, state: Lock::default(), freed: Notify::new() }
    }

    pub(crate) fn account<'a>(&'a self, owner: &'a str) -> CallAccount<'a> {
        CallAccount { flow: self, owner, held: None }
    }

    /// Returns the bytes in transit now.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.state.lock().held
    }
}

/// The bytes in transit of one call. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct CallAccount<'a> {
    flow: &'a FlowControl,
    owner: &'a str,
    /// `None` before the first op, because most calls have none.
    held: Option<usize>,
}

impl<'a> CallAccount<'a> {
    /// Sets the bytes in transit, even if they do not fit.
    pub(crate) fn set(&mut self, bytes: usize) {
        if self.held.unwrap_or_default() != bytes {
            self.change(bytes, |_, _| true);
        }
    }

    /// Sets the bytes in transit if the increase fits the owner's share.
    pub(crate) fn try_set(&mut self, bytes: usize) -> bool {
        let max = self.flow.max;
        self.change(bytes, |owner, all| owner <= max.saturating_sub(all))
    }

    /// Waits until bytes are released after this future was enabled.
    pub(crate) fn freed(&self) -> Notified<'a> {
        self.flow.freed.notified()
    }

    /// Calls `fits` with the new totals of the owner and of all owners.
    fn change(&mut self, bytes: usize, fits: impl FnOnce(usize, usize) -> bool) -> bool {
        let before = self.held.unwrap_or_default();
        let mut state = self.flow.state.lock();
        let all = state.held - before + bytes;
        let share = match state.owners.get_mut(self.owner) {
            Some(share) => share,
            None => state.owners.entry(self.owner.into()).or_default(),
        };
        if self.held.is_none() {
            share.accounts += 1;
            self.held = Some(0);
        }
        if !fits(share.held - before + bytes, all) {
            return false;
        }
        share.held = share.held - before + bytes;
        state.held = all;
        drop(state);
        self.held = Some(bytes);
        if bytes < before {
            self.flow.freed.notify_waiters();
        }
        true
    }
}

impl Drop for CallAccount<'_> {
    fn drop(&mut self) {
        if self.held.is_none() {
            return;
        }
        self.set(0);
        let mut state = self.flow.state.lock();
        if let Some(share) = state.owners.get_mut(self.owner) {
            share.accounts -= 1;
            if share.accounts == 0 {
                state.owners.remove(self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests;
