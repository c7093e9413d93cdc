//! Queues of log lines, with rate limits.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, oneshot};
use tollhouse_base::{id::EndpointId, queues::Queues, rate::Rate};
use tollhouse_tool::Owner;

use super::{
    LogPlace, LogSettings,
    settings::{BURST, OWNER},
};

/// Bytes of a line besides its text: its key, and its place in a queue.
const LINE: usize = 128;

/// An encoded line. It is encoded when it is queued, so that its size is known.
pub(super) struct Line {
    pub(super) place: LogPlace,
    pub(super) entry: Vec<u8>,
}

impl Line {
    pub(super) fn bytes(&self) -> usize {
        LINE + self.entry.len()
    }
}

/// Why a line was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Why {
    /// The log's rate limit was exceeded.
    Rate,
    /// The store could not keep up.
    Room,
}

/// One queue for each tool, served in turn.
pub(super) struct Waiting {
    state: Mutex<State>,
    endpoints: Rate<EndpointId>,
    owners: Rate<Owner>,
    dropped: AtomicU64,
    /// Notified when there is work.
    pub(super) some: Notify,
}

struct State {
    queues: Queues<EndpointId, Line>,
    /// Callers that wait until everything queued now is written.
    flushes: Vec<oneshot::Sender<()>>,
    /// Dropped lines that the tool's log does not mention yet.
    untold: HashMap<(EndpointId, Why), u64>,
    closed: bool,
}

/// Work for the writer.
pub(super) struct Taken {
    pub(super) lines: Vec<(EndpointId, Line)>,
    pub(super) flushes: Vec<oneshot::Sender<()>>,
}

impl Waiting {
    pub(super) fn new(settings: &LogSettings) -> Self {
        let per_owner = settings.rate.saturating_mul(OWNER);
        let (queues, flushes, untold) = (Queues::new(settings.waiting), Vec::new(), HashMap::new());
        Self {
            state: Mutex::new(State { queues, flushes, untold, closed: false }),
            endpoints: Rate::with_burst(settings.rate, settings.rate.saturating_mul(BURST)),
            owners: Rate::with_burst(per_owner, per_owner.saturating_mul(BURST)),
            dropped: AtomicU64::new(0),
            some: Notify::new(),
        }
    }

    /// Queues a line, or drops and counts one.
    pub(super) fn push(&self, owner: &Owner, endpoint: &EndpointId, line: Line) {
        let bytes = NonZeroU32::new(u32::try_from(line.bytes()).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
        let may_come = self.endpoints.take(endpoint, bytes) && self.owners.take(owner, bytes);
        let mut state = self.state();
        if may_come {
            let State { queues, untold, .. } = &mut *state;
            queues.push(endpoint, line.bytes(), line, |lost| self.count(untold, lost, Why::Room));
        } else {
            self.count(&mut state.untold, endpoint, Why::Rate);
        }
        drop(state);
        self.some.notify_one();
    }

    fn count(&self, untold: &mut HashMap<(EndpointId, Why), u64>, endpoint: &EndpointId, why: Why) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        *untold.entry((endpoint.clone(), why)).or_default() += 1;
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
        self.state().flushes.push(done);
        self.some.notify_one();
        let _ = wait.await;
    }

    /// Makes the writer end when all lines are written.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.some.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Returns whether the writer should not wait for more lines, because somebody waits for the current ones.
    pub(super) fn is_pressing(&self) -> bool {
        let state = self.state();
        state.closed || !state.flushes.is_empty()
    }

    /// Takes up to `some` lines, or all lines if somebody waits for them.
    pub(super) fn take(&self, some: usize) -> Taken {
        let mut state = self.state();
        let flushes = std::mem::take(&mut state.flushes);
        let some = if flushes.is_empty() { some } else { usize::MAX };
        let lines = std::iter::from_fn(|| state.queues.pop()).take(some).collect();
        Taken { lines, flushes }
    }

    /// Returns the number of lines of each tool that were dropped since the last call.
    pub(super) fn take_untold(&self) -> HashMap<(EndpointId, Why), u64> {
        std::mem::take(&mut self.state().untold)
    }

    pub(super) fn has_untold(&self) -> bool {
        !self.state().untold.is_empty()
    }

    /// Forgets inactive tools and owners, so that memory use stays flat.
    pub(super) fn forget_quiet(&self) {
        self.endpoints.forget_quiet();
        self.owners.forget_quiet();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
