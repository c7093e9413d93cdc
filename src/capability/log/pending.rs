//! Queues of log lines, with rate limits.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::sync::{Notify, oneshot};
use tollhouse_base::{fair_queue::FairQueue, id::EndpointId, lock::Lock, rate_limit::RateLimiter};
use tollhouse_tool::Owner;

use super::{
    LogPosition, LogSettings,
    settings::{BURST, OWNER},
};

/// Bytes of a line besides its text: its key, and its place in a queue.
const LINE: usize = 128;

/// An encoded line. It is encoded when it is queued, so that its size is known.
pub(super) struct PendingLine {
    pub(super) position: LogPosition,
    pub(super) entry: Vec<u8>,
}

impl PendingLine {
    pub(super) fn bytes(&self) -> usize {
        LINE + self.entry.len()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DropReason {
    /// The log's rate limit was exceeded.
    Rate,
    /// The store could not keep up.
    Room,
}

/// One queue for each tool, served in turn.
pub(super) struct PendingLines {
    state: Lock<State>,
    endpoints: RateLimiter<EndpointId>,
    owners: RateLimiter<Owner>,
    dropped: AtomicU64,
    /// Notified when there is work.
    pub(super) some: Notify,
}

struct State {
    queues: FairQueue<EndpointId, PendingLine>,
    /// Callers that wait until everything queued now is written.
    flushes: Vec<oneshot::Sender<()>>,
    /// Dropped lines that the tool's log does not mention yet.
    unreported: HashMap<(EndpointId, DropReason), u64>,
    closed: bool,
}

pub(super) struct TakenLines {
    pub(super) lines: Vec<(EndpointId, PendingLine)>,
    pub(super) flushes: Vec<oneshot::Sender<()>>,
}

impl PendingLines {
    pub(super) fn new(settings: &LogSettings) -> Self {
        let per_owner = settings.rate.saturating_mul(OWNER);
        let (queues, flushes, unreported) = (FairQueue::new(settings.waiting), Vec::new(), HashMap::new());
        Self {
            state: Lock::new(State { queues, flushes, unreported, closed: false }),
            endpoints: RateLimiter::with_burst(settings.rate, settings.rate.saturating_mul(BURST)),
            owners: RateLimiter::with_burst(per_owner, per_owner.saturating_mul(BURST)),
            dropped: AtomicU64::new(0),
            some: Notify::new(),
        }
    }

    /// Queues a line, or drops and counts one.
    pub(super) fn push(&self, owner: &Owner, endpoint: &EndpointId, line: PendingLine) {
        let bytes = NonZeroU32::new(u32::try_from(line.bytes()).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
        let may_come = self.endpoints.take(endpoint, bytes) && self.owners.take(owner, bytes);
        let mut state = self.state.lock();
        if may_come {
            let State { queues, unreported, .. } = &mut *state;
            queues.push(endpoint, line.bytes(), line, |lost| self.count(unreported, lost, DropReason::Room));
        } else {
            self.count(&mut state.unreported, endpoint, DropReason::Rate);
        }
        drop(state);
        self.some.notify_one();
    }

    fn count(&self, unreported: &mut HashMap<(EndpointId, DropReason), u64>, endpoint: &EndpointId, reason: DropReason) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        *unreported.entry((endpoint.clone(), reason)).or_default() += 1;
    }

    /// Counts lines that were queued but could not be written.
    pub(super) fn lost(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Returns the number of lines dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything queued now is written or given up.
    pub(super) async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        self.state.lock().flushes.push(done);
        self.some.notify_one();
        let _ = wait.await;
    }

    /// Makes the writer end when all lines are written.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.some.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns whether the writer should not wait for more lines, because somebody waits for the current ones.
    pub(super) fn is_nearly_full(&self) -> bool {
        let state = self.state.lock();
        state.closed || !state.flushes.is_empty()
    }

    /// Takes up to `some` lines, or all lines if somebody waits for them.
    pub(super) fn take(&self, some: usize) -> TakenLines {
        let mut state = self.state.lock();
        let flushes = std::mem::take(&mut state.flushes);
        let some = if flushes.is_empty() { some } else { usize::MAX };
        let lines = std::iter::from_fn(|| state.queues.pop()).take(some).collect();
        TakenLines { lines, flushes }
    }

    /// Returns the number of lines of each tool that were dropped since the last call.
    pub(super) fn take_unreported(&self) -> HashMap<(EndpointId, DropReason), u64> {
        std::mem::take(&mut self.state.lock().unreported)
    }

    pub(super) fn has_unreported(&self) -> bool {
        !self.state.lock().unreported.is_empty()
    }

    /// Forgets inactive tools and owners, so that memory use stays flat.
    pub(super) fn prune_idle(&self) {
        self.endpoints.prune_idle();
        self.owners.prune_idle();
    }
}
