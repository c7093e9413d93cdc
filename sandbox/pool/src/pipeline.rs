//! Pipelining: calls are written to a worker's socket while the worker is still busy with another
//! call.
//!
//! For a handler that answers within microseconds, waking a process costs more than the call. Its
//! calls are therefore pipelined, like requests in HTTP or Redis: the worker reads the next calls
//! from its socket and runs them in order, and each call hands the worker over to the next.
//!
//! ```text
//! call A  drive ─────────────▶ Done ─┐
//! call B    send_ahead ─▶ wait ──────┴▶ drive: its Done may be here already ─▶ the next call, or idle
//! ```
//!
//! A call is sent ahead instead of getting its own process if its endpoint is busy, nobody waits
//! for a slot, and the calls that already wait at the worker should be done soon, judging by the
//! cost of its last calls. If the running call waits for something after all, its worker declines
//! the calls that were sent ahead (see [`ToHost::Declined`](tollhouse_protocol::ToHost::Declined)).
//!
//! Invariant: a call that was sent ahead has no effect before its turn. Only its own task reads its
//! ops and logs, so until then it can be run elsewhere or abandoned. If the next call of a worker
//! was abandoned, or a call ends abnormally, the worker is ended and waiting calls go elsewhere.
//! Invariant: calls are written in the order of their turns, each completely before the next.
//! Otherwise a call could get the answer of another.

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Duration};

use tokio::{net::UnixStream, sync::oneshot};
use tollhouse_fair::lock::Lock;
use tollhouse_protocol::Spent;

use crate::{budget::Budget, wire::Buffers};

/// Assumed cost of a call, in microseconds, if the worker has run none yet or its last call used
/// ops.
const UNKNOWN_US: u64 = 1_000_000;

/// The estimate falls by 1/`FALL` with each cheaper call.
const FALL: u64 = 8;

/// The calls that were sent ahead to one worker. `T` is what a call receives from its predecessor
/// when its turn comes.
#[derive(Debug)]
pub(crate) struct Pipeline<T> {
    /// Maximum number of waiting calls.
    max: usize,
    /// Maximum processor time of all waiting calls, in microseconds.
    time_us: u64,
    state: Lock<State<T>>,
    /// Held while a call is sent, so that calls are written in the order of `ahead`. Locked before
    /// `state`.
    writing: Lock<()>,
}

#[derive(Debug)]
struct State<T> {
    /// Whether a call can be sent ahead: the running call and all those sent ahead were written
    /// completely, the running call has used no ops, and the worker is not about to become idle.
    open: bool,
    /// Estimated maximum cost of a call, from the last ones, in microseconds. Rises at once, falls
    /// slowly.
    cost_us: u64,
    /// In sending order.
    ahead: VecDeque<Next<T>>,
    /// The unwritten rest of the last call. While there is one, `open` is false.
    rest: Vec<u8>,
}

/// A call that was sent ahead, as its predecessor sees it.
#[derive(Debug)]
pub(crate) struct Next<T> {
    pub(crate) budget: Budget,
    pub(crate) turn: oneshot::Sender<T>,
}

impl<T> Pipeline<T> {
    /// Creates a pipeline for at most `max` calls that take at most `time` together.
    pub(crate) fn new(max: usize, time: Duration) -> Self {
        let state = State { open: false, cost_us: UNKNOWN_US, ahead: VecDeque::new(), rest: Vec::new() };
        Self { max, time_us: u64::try_from(time.as_micros()).unwrap_or(u64::MAX), state: Lock::new(state), writing: Lock::default() }
    }

    /// Permits sending calls ahead. The worker's current call must have been written completely.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.open = state.rest.is_empty();
    }

    /// Returns how many calls can be sent ahead now.
    pub(crate) fn room(&self) -> usize {
        self.capacity_in(&self.state.lock())
    }

    /// Stops sending calls ahead, because the running call uses an op or waits. The unwritten rest
    /// moves to `buffers` and must be written first.
    pub(crate) fn close(&self, buffers: &mut Buffers) {
        // Waits for a call that is being written.
        let _writing = self.writing.lock();
        let mut state = self.state.lock();
        state.open = false;
        buffers.put_encoded(&mut state.rest);
    }

    /// Moves the unwritten rest to `buffers`, for the call whose turn has come. With a rest the
    /// pipeline is closed, so whatever is being written now belongs to a later call.
    pub(crate) fn take_rest(&self, buffers: &mut Buffers) {
        buffers.put_encoded(&mut self.state.lock().rest);
    }

    /// Returns whether calls can be sent ahead once this worker runs one.
    pub(crate) fn is_brief(&self) -> bool {
        self.max > 0 && self.state.lock().cost_us <= self.time_us
    }

    /// Returns the number of calls that wait for their turn.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().ahead.len()
    }

    /// Removes the first call because the worker declined it. Returns false if that is impossible:
    /// no call waits, or it was not written completely.
    pub(crate) fn decline(&self) -> bool {
        let mut state = self.state.lock();
        state.rest.is_empty() && state.ahead.pop_front().is_some()
    }

    /// Returns the call that the worker runs next. Without one, no more calls can be sent ahead.
    pub(crate) fn next(&self, spent: &Spent) -> Option<Next<T>> {
        let mut state = self.state.lock();
        let cost_us = if spent.ops == 0 { spent.cpu_us } else { UNKNOWN_US };
        state.cost_us = cost_us.max(state.cost_us - state.cost_us / FALL);
        let next = state.ahead.pop_front();
        state.open &= next.is_some();
        next
    }

    /// Ends the pipeline together with its worker. Waiting calls must run elsewhere.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.open = false;
        state.ahead.clear();
    }

    /// Writes `frame` if there is room.
    pub(crate) fn send(&self, stream: &UnixStream, frame: &[u8], budget: Budget) -> Option<oneshot::Receiver<T>> {
        let _writing = self.writing.lock();
        let (turn, waiting) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if self.capacity_in(&state) == 0 {
                return None;
            }
            // Before writing, because the answer can arrive before `try_write` returns.
            state.ahead.push_back(Next { budget, turn });
        }
        // A closed socket takes nothing. The next call to use it will notice.
        let written = stream.try_write(frame).unwrap_or(0);
        if written < frame.len() {
            let mut state = self.state.lock();
            state.open = false;
            state.rest.extend_from_slice(&frame[written..]);
        }
        Some(waiting)
    }

    fn capacity_in(&self, state: &State<T>) -> usize {
        let affordable = usize::try_from(self.time_us / state.cost_us.max(1)).unwrap_or(usize::MAX).min(self.max);
        if state.open { affordable.saturating_sub(state.ahead.len()) } else { 0 }
    }
}
