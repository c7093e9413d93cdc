//! Calls sent ahead: written to a worker's socket while the worker is still at another call.
//!
//! A handler that answers within microseconds costs less than waking a process for each of its calls. Its
//! calls are therefore pipelined, as requests are in HTTP or Redis: the worker finds the next ones in its
//! socket and runs them one after the other, and each hands the worker over to the next.
//!
//! ```text
//! call A  drive ─────────────▶ Done ─┐
//! call B    send_ahead ─▶ wait ──────┴▶ drive: its Done may be here already ─▶ the next, or the idle
//! ```
//!
//! A call is sent ahead rather than given a process of its own where its endpoint is busy, nobody waits
//! for a slot, and what waits at the worker already is soon done, by what its last calls cost. Where the
//! running call waits for something after all, its worker declines what was sent ahead, see
//! [`ToHost::Declined`](tollhouse_protocol::ToHost::Declined).
//!
//! Invariant: a call that was sent ahead has no effect before its turn. What it asks for and logs is
//! read by its own task alone, so until then it may be run elsewhere, or given up. A worker whose next
//! call was given up is ended, and so is one whose call ends in disorder; who waits there goes elsewhere.
//! Invariant: calls are written in the order in which they get their turns, each whole before the next;
//! else one would get the answer of another.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{net::UnixStream, sync::oneshot};
use tollhouse_protocol::Spent;

use crate::{budget::Budget, wire::Buffers};

/// What a call of a worker costs that has shown nothing yet, or that asked for something, in microseconds.
const UNKNOWN_US: u64 = 1_000_000;

/// By which part of itself the estimate falls with each call that cost less.
const FALL: u64 = 8;

/// The calls that were sent ahead to one worker. `T` is what the call before hands over to each when its turn comes.
#[derive(Debug)]
pub(crate) struct Pipeline<T> {
    /// Most calls that wait here.
    most: usize,
    /// Processor time of all that wait here, at most, in microseconds.
    time_us: u64,
    state: Mutex<State<T>>,
    /// Held while a call is sent, so that calls are written in the order of `ahead`. Locked before `state`.
    writing: Mutex<()>,
}

#[derive(Debug)]
struct State<T> {
    /// Whether a call may be sent ahead: the running one was written whole and has asked for nothing, all that was sent
    /// ahead was written whole, and the worker is not about to be idle.
    open: bool,
    /// What a call costs at most, by the last ones, in microseconds. Rises at once, falls slowly.
    cost_us: u64,
    /// In the order in which they were sent.
    ahead: VecDeque<Next<T>>,
    /// What the socket did not take of the last one. From then on it is not open.
    rest: Vec<u8>,
}

/// A call that was sent ahead, as the call before it sees it.
#[derive(Debug)]
pub(crate) struct Next<T> {
    pub(crate) budget: Budget,
    pub(crate) turn: oneshot::Sender<T>,
}

impl<T> Pipeline<T> {
    /// For `most` calls, and no more than take `time` together.
    pub(crate) fn new(most: usize, time: Duration) -> Self {
        let state = State { open: false, cost_us: UNKNOWN_US, ahead: VecDeque::new(), rest: Vec::new() };
        Self { most, time_us: u64::try_from(time.as_micros()).unwrap_or(u64::MAX), state: Mutex::new(state), writing: Mutex::default() }
    }

    /// Lets calls be sent ahead. The worker's call must have been written whole.
    pub(crate) fn open(&self) {
        let mut state = self.lock();
        state.open = state.rest.is_empty();
    }

    /// How many calls may be sent ahead now.
    pub(crate) fn room(&self) -> usize {
        self.room_in(&self.lock())
    }

    /// Lets no more calls be sent ahead: the running one asks for something, or waits. What is left to be written is to
    /// go out before anything else.
    pub(crate) fn close(&self, buffers: &mut Buffers) {
        // Waits for a call that is being written.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        state.open = false;
        buffers.put_encoded(&mut state.rest);
    }

    /// Leaves it to the call whose turn has come to write what is left to be written. With anything left it is closed, and
    /// what is being written now is of a later call.
    pub(crate) fn take_rest(&self, buffers: &mut Buffers) {
        buffers.put_encoded(&mut self.lock().rest);
    }

    /// Whether calls may be sent ahead once this worker runs one.
    pub(crate) fn is_brief(&self) -> bool {
        self.most > 0 && self.lock().cost_us <= self.time_us
    }

    /// Calls that wait for their turn.
    pub(crate) fn len(&self) -> usize {
        self.lock().ahead.len()
    }

    /// The worker sent the first of them back; false when it cannot have: there is none, or it was not written whole.
    pub(crate) fn decline(&self) -> bool {
        let mut state = self.lock();
        state.rest.is_empty() && state.ahead.pop_front().is_some()
    }

    /// The call that the worker runs next; without one nothing more may be sent ahead.
    pub(crate) fn next(&self, spent: &Spent) -> Option<Next<T>> {
        let mut state = self.lock();
        let cost_us = if spent.ops == 0 { spent.cpu_us } else { UNKNOWN_US };
        state.cost_us = cost_us.max(state.cost_us - state.cost_us / FALL);
        let next = state.ahead.pop_front();
        state.open &= next.is_some();
        next
    }

    /// Ends it with its worker: whoever waits learns that it is to go elsewhere.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.open = false;
        state.ahead.clear();
    }

    /// Writes `frame`, if there is room.
    pub(crate) fn send(&self, stream: &UnixStream, frame: &[u8], budget: Budget) -> Option<oneshot::Receiver<T>> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (turn, waiting) = oneshot::channel();
        {
            let mut state = self.lock();
            if self.room_in(&state) == 0 {
                return None;
            }
            // Before it is written: its answer may be here before `try_write` returns.
            state.ahead.push_back(Next { budget, turn });
        }
        // A socket that has ended takes nothing, and whoever comes next finds out.
        let written = stream.try_write(frame).unwrap_or(0);
        if written < frame.len() {
            let mut state = self.lock();
            state.open = false;
            state.rest.extend_from_slice(&frame[written..]);
        }
        Some(waiting)
    }

    fn room_in(&self, state: &State<T>) -> usize {
        let bearable = usize::try_from(self.time_us / state.cost_us.max(1)).unwrap_or(usize::MAX).min(self.most);
        if state.open { bearable.saturating_sub(state.ahead.len()) } else { 0 }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
