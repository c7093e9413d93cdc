//! Decides which calls are traced, and queues them for sending.

use std::{
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use tokio::sync::mpsc;

use super::{context::Context, counters, span::TracedCall};

/// Maximum number of traced calls in the queue. More are dropped.
const WAITING: usize = 2_048;

/// Limits on the number of calls traced per second.
#[derive(Debug, Clone, Copy)]
pub struct TraceSettings {
    /// Limit for calls whose callers have sampled them.
    pub of_callers: u32,
    /// Limit for calls whose callers send no trace context.
    pub of_own: u32,
}

/// Set if there is a collector.
static TRACER: OnceLock<Tracer> = OnceLock::new();

#[derive(Debug)]
struct Tracer {
    of_callers: PerSecondLimit,
    of_own: PerSecondLimit,
    waiting: mpsc::Sender<TracedCall>,
}

/// Starts to trace calls. Returns the queue of completed calls, or `None` if tracing has already been started.
pub(super) fn start(settings: TraceSettings) -> Option<mpsc::Receiver<TracedCall>> {
    let (waiting, ended) = mpsc::channel(WAITING);
    let tracer = Tracer { of_callers: PerSecondLimit::new(settings.of_callers), of_own: PerSecondLimit::new(settings.of_own), waiting };
    TRACER.set(tracer).is_ok().then_some(ended)
}

pub(super) fn is_on() -> bool {
    TRACER.get().is_some()
}

/// Decides whether a call is recorded, and returns its span below the caller's. A caller that samples its trace
/// requests recording; a caller that does not, declines it. No more calls per second are recorded than the settings
/// allow.
pub(super) fn decide(given: Option<Context>) -> Option<Context> {
    let tracer = TRACER.get()?;
    let (rate, request) = match given {
        Some(Context { sampled: false, .. }) => return None,
        Some(_) => (&tracer.of_callers, "caller"),
        None => (&tracer.of_own, "host"),
    };
    if !rate.take(second()) {
        counters::TRACES_LEFT_OUT.count([request]);
        return None;
    }
    counters::TRACES.count([request]);
    Some(given.map_or_else(Context::begin, Context::below))
}

/// Queues a completed call for sending. Never waits.
pub(super) fn hand_over(traced: TracedCall) {
    let Some(tracer) = TRACER.get() else { return };
    if let Err(mpsc::error::TrySendError::Full(traced) | mpsc::error::TrySendError::Closed(traced)) = tracer.waiting.try_send(traced) {
        counters::SPANS.add(["full"], traced.spans());
    }
}

/// Returns the number of the current second of this process.
fn second() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_secs() + 1
}

/// A lock-free limit per second: the upper half has the second, the lower half the number used in it.
#[derive(Debug)]
struct PerSecondLimit {
    max: u32,
    used: AtomicU64,
}

impl PerSecondLimit {
    const fn new(max: u32) -> Self {
        Self { max, used: AtomicU64::new(0) }
    }

    fn take(&self, second: u64) -> bool {
        let elapsed = self.used.fetch_update(Relaxed, Relaxed, |used| {
            let (at, before) = (used >> 32, used & u64::from(u32::MAX));
            let before = if at == second & u64::from(u32::MAX) { before } else { 0 };
            (before < u64::from(self.max)).then_some(second << 32 | (before + 1))
        });
        elapsed.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_per_second_is_enforced() {
        let rate = PerSecondLimit::new(2);
        assert_eq!([1, 1, 1, 2, 2, 2].map(|second| rate.take(second)), [true, true, false, true, true, false]);
        assert!(!PerSecondLimit::new(0).take(1));
    }

    #[test]
    fn without_a_collector_nothing_is_traced() {
        assert_eq!(decide(None), None);
        assert_eq!(decide(Some(Context::begin())), None);
    }
}
