//! Calls sent ahead: written to a worker's socket while the worker is still at another call.
//!
//! A handler that answers within microseconds costs less than waking a process for each of its calls. Its
//! calls are therefore pipelined, as requests are in HTTP or Redis: the worker finds the next ones in its
//! socket and runs them one after the other, and each hands the worker on to the next.
//!
//! ```text
//! call A  drive ─────────────▶ Done ─┐
//! call B    send_ahead ─▶ wait ──────┴▶ drive: its Done may be here already ─▶ the next, or the shelf
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

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    net::UnixStream,
    sync::oneshot,
    time::{Instant, timeout_at},
};
use tollhouse_protocol::{Spent, ToWorker, frame};

use crate::{
    core::Core,
    gate::{Ask, Entry},
    process::Process,
    shelf::Lent,
    watch::Budget,
    wire::Buffers,
};

/// What a call of a worker costs that has shown nothing yet, or that asked for something, in microseconds.
const UNKNOWN_US: u64 = 1_000_000;

/// By which part of itself the estimate falls with each call that cost less.
const FALL: u64 = 8;

/// First size of a frame that is sent ahead, in bytes.
const FRAME_BYTES: usize = 1 << 10;

/// Largest frame that is sent ahead, in bytes. Sixteen of them about fill a socket's buffer.
const MAX_AHEAD_BYTES: usize = 16 << 10;

/// The calls that were sent ahead to one worker.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// Most calls that wait here.
    most: usize,
    /// Processor time of all that wait here, at most, in microseconds.
    time_us: u64,
    state: Mutex<State>,
    /// Held while a call is sent, so that calls are written in the order of `ahead`. Locked before `state`.
    writing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    /// Whether a call may be sent ahead: the running one was written whole and has asked for nothing, all that was sent
    /// ahead was written whole, and the worker is not about to go on the shelf.
    open: bool,
    /// What a call costs at most, by the last ones, in microseconds. Rises at once, falls slowly.
    cost_us: u64,
    /// In the order in which they were sent.
    ahead: VecDeque<Next>,
    /// What the socket did not take of the last one. From then on it is not open.
    rest: Vec<u8>,
}

/// A call that was sent ahead, as the call before it sees it.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) budget: Budget,
    pub(crate) turn: oneshot::Sender<HandedOn>,
}

/// The worker. Its running slot goes with it.
#[derive(Debug)]
pub(crate) struct HandedOn {
    pub(crate) process: Arc<Process>,
    pub(crate) buffers: Buffers,
}

impl Pipeline {
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
    pub(crate) fn next(&self, spent: &Spent) -> Option<Next> {
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
    fn send(&self, stream: &UnixStream, frame: &[u8], budget: Budget) -> Option<oneshot::Receiver<HandedOn>> {
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

    fn room_in(&self, state: &State) -> usize {
        let bearable = usize::try_from(self.time_us / state.cost_us.max(1)).unwrap_or(usize::MAX).min(self.most);
        if state.open { bearable.saturating_sub(state.ahead.len()) } else { 0 }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was sent ahead and waits for its turn. Dropping it gives the call up.
#[derive(Debug)]
pub(crate) struct SentAhead<'a> {
    core: &'a Arc<Core>,
    ask: Ask<'a>,
    turn: oneshot::Receiver<HandedOn>,
    since: Instant,
}

impl<'a> SentAhead<'a> {
    /// Sends a call ahead to `process`, if that takes one now.
    pub(crate) fn send(core: &'a Arc<Core>, ask: Ask<'a>, process: &Process, call: &ToWorker, budget: Budget) -> Option<Self> {
        let mut encoded = Vec::with_capacity(FRAME_BYTES);
        frame::encode(call, &mut encoded).ok().filter(|()| encoded.len() <= MAX_AHEAD_BYTES)?;
        let turn = process.link.pipeline.send(&process.link.stream, &encoded, budget)?;
        Some(Self { core, ask, turn, since: Instant::now() })
    }

    /// When it was sent.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Waits for the turn of this call; `None` when it does not come until `deadline`, or will not come: the worker
    /// has declined or ended.
    pub(crate) async fn turn(mut self, deadline: Instant) -> Option<(Lent<'a>, Entry<'a>)> {
        let handed_on = timeout_at(deadline, &mut self.turn).await.ok()?.ok()?;
        Some(self.take(handed_on))
    }

    fn take(&self, HandedOn { process, buffers }: HandedOn) -> (Lent<'a>, Entry<'a>) {
        (Lent::handed_on(self.core, process, buffers), self.core.gate.inherit(self.ask))
    }
}

impl Drop for SentAhead<'_> {
    fn drop(&mut self) {
        self.turn.close();
        // Its turn came while it was given up: ends the worker, which may have begun.
        if let Ok(turn) = self.turn.try_recv() {
            drop(self.take(turn));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::Interest;
    use tollhouse_protocol::Limits;

    use super::*;

    const TIME: Duration = Duration::from_micros(250);

    fn budget() -> Budget {
        Budget::of_call(&Limits::default())
    }

    /// A pipeline whose worker's calls have cost `cost_us` of late, at its next call.
    fn open(most: usize, cost_us: u64) -> Pipeline {
        let pipeline = Pipeline::new(most, TIME);
        for _ in 0..100 {
            assert!(pipeline.next(&Spent { cpu_us: cost_us, ..Spent::default() }).is_none());
        }
        pipeline.open();
        pipeline
    }

    fn after(pipeline: &Pipeline, spent: Spent) -> usize {
        assert!(pipeline.next(&spent).is_none());
        pipeline.open();
        pipeline.room()
    }

    #[tokio::test]
    async fn there_is_room_for_what_is_soon_done() {
        assert_eq!(open(16, 5).room(), 16);
        assert_eq!(open(16, 80).room(), 3);
        assert_eq!(open(16, 251).room(), 0);
        assert_eq!(open(0, 5).room(), 0);
        assert!(!open(0, 5).is_brief() && open(1, 5).is_brief());
        let unknown = Pipeline::new(16, TIME);
        unknown.open();
        assert_eq!(unknown.room(), 0);
    }

    #[tokio::test]
    async fn one_long_call_or_one_op_is_not_soon_forgotten() {
        let pipeline = open(16, 5);
        assert_eq!(after(&pipeline, Spent { cpu_us: 500_000, ..Spent::default() }), 0);
        let calls = (1..).find(|_| after(&pipeline, Spent::default()) > 0).unwrap();
        assert!((40..80).contains(&calls), "{calls}");
        assert_eq!(after(&pipeline, Spent { ops: 1, ..Spent::default() }), 0);
        assert_eq!(after(&open(16, 5), Spent { cpu_us: u64::MAX, ..Spent::default() }), 0);
    }

    #[tokio::test]
    async fn nothing_is_sent_ahead_where_it_is_closed_or_full() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let pipeline = open(2, 5);
        let waiting = [(); 3].map(|()| pipeline.send(&ours, b"frame", budget()));
        assert!(waiting[0].is_some() && waiting[1].is_some() && waiting[2].is_none());
        assert!(pipeline.decline() && pipeline.decline() && !pipeline.decline());
        pipeline.close(&mut Buffers::default());
        assert!(pipeline.send(&ours, b"frame", budget()).is_none());
    }

    #[tokio::test]
    async fn what_the_socket_does_not_take_is_written_by_whoever_comes_next() {
        // More than it takes at once.
        let frame: Vec<_> = (0..1 << 20).flat_map(u32::to_le_bytes).collect();
        for is_full in [true, false] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut sent = Vec::new();
            while is_full && ours.try_write(&[0; 1 << 12]).is_ok() {
                sent.extend_from_slice(&[0; 1 << 12]);
            }
            let pipeline = open(2, 5);
            ours.ready(Interest::READABLE | Interest::WRITABLE).now_or_never();
            assert!(pipeline.send(&ours, &frame, budget()).is_some());
            assert_eq!((pipeline.len(), pipeline.room()), (1, 0), "nothing may come between its parts");
            assert!(!pipeline.decline(), "it cannot have been read");
            sent.extend_from_slice(&frame);
            let (mut buffers, mut read) = (Buffers::default(), Vec::new());
            pipeline.take_rest(&mut buffers);
            while read.len() < sent.len() {
                buffers.flush(&ours).unwrap();
                tokio::select! { room = buffers.changed(&ours) => room.unwrap(), bytes = theirs.readable() => bytes.unwrap() }
                _ = theirs.try_read_buf(&mut read);
            }
            assert!(buffers.are_empty() && read == sent);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn calls_are_written_in_the_order_of_their_turns() {
        const CALLS: u8 = 32;
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.writable().await.unwrap();
        let pipeline = Pipeline::new(CALLS.into(), Duration::MAX);
        for _ in 0..500 {
            pipeline.open();
            std::thread::scope(|threads| {
                let send = |call| pipeline.send(&ours, &[call], Budget { wall_ms: call.into(), ..budget() });
                for first in 0..4 {
                    threads.spawn(move || (first..CALLS).step_by(4).for_each(|call| assert!(send(call).is_some())));
                }
            });
            let mut written = Vec::new();
            while written.len() < CALLS.into() {
                theirs.readable().await.unwrap();
                _ = theirs.try_read_buf(&mut written);
            }
            let turns = std::iter::from_fn(|| pipeline.next(&Spent::default())).map(|next| next.budget.wall_ms);
            assert!(turns.eq(written.into_iter().map(u64::from)));
        }
    }

    #[tokio::test]
    async fn whoever_waits_learns_of_the_end() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let pipeline = open(2, 5);
        let waiting = pipeline.send(&ours, b"frame", budget()).unwrap();
        pipeline.end();
        assert!(waiting.await.is_err());
        assert!(pipeline.send(&ours, b"frame", budget()).is_none());
    }
}
