//! Which calls are traced, and where they wait to be sent.

use std::{
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use tokio::sync::mpsc;

use super::{context::Context, counted, span::Traced};

/// Traced calls that wait to be sent; what is beyond them is dropped.
const WAITING: usize = 2_048;

/// How many calls are traced in a second.
#[derive(Debug, Clone, Copy)]
pub struct TraceSettings {
    /// Of those whose callers have sampled them.
    pub of_callers: u32,
    /// Of those whose callers say nothing of it.
    pub of_own: u32,
}

/// Set where there is a collector.
static TRACER: OnceLock<Tracer> = OnceLock::new();

#[derive(Debug)]
struct Tracer {
    of_callers: PerSecond,
    of_own: PerSecond,
    waiting: mpsc::Sender<Traced>,
}

/// Traces calls from now on; what answers hands out those that have ended. `None` where that was done before.
pub(super) fn start(settings: TraceSettings) -> Option<mpsc::Receiver<Traced>> {
    let (waiting, ended) = mpsc::channel(WAITING);
    let tracer = Tracer { of_callers: PerSecond::new(settings.of_callers), of_own: PerSecond::new(settings.of_own), waiting };
    TRACER.set(tracer).is_ok().then_some(ended)
}

pub(super) fn is_on() -> bool {
    TRACER.get().is_some()
}

/// The span of a call that is recorded, below the one that its caller gave: whoever has sampled it asks for that, whoever has not asks
/// for none, and neither can have more recorded in a second than the settings say.
pub(super) fn decide(given: Option<Context>) -> Option<Context> {
    let tracer = TRACER.get()?;
    let (rate, asked) = match given {
        Some(Context { sampled: false, .. }) => return None,
        Some(_) => (&tracer.of_callers, "caller"),
        None => (&tracer.of_own, "host"),
    };
    if !rate.take(second()) {
        counted::TRACES_LEFT_OUT.count([asked]);
        return None;
    }
    counted::TRACES.count([asked]);
    Some(given.map_or_else(Context::begin, Context::below))
}

/// Has a call sent that has ended. Never waits.
pub(super) fn hand_over(traced: Traced) {
    let Some(tracer) = TRACER.get() else { return };
    if let Err(mpsc::error::TrySendError::Full(traced) | mpsc::error::TrySendError::Closed(traced)) = tracer.waiting.try_send(traced) {
        counted::SPANS.add(["full"], traced.spans());
    }
}

/// Seconds of this process.
fn second() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_secs() + 1
}

/// So many in each second, without a lock: the second in the upper half, how many it had in the lower.
#[derive(Debug)]
struct PerSecond {
    most: u32,
    used: AtomicU64,
}

impl PerSecond {
    const fn new(most: u32) -> Self {
        Self { most, used: AtomicU64::new(0) }
    }

    fn take(&self, second: u64) -> bool {
        let took = self.used.fetch_update(Relaxed, Relaxed, |used| {
            let (at, before) = (used >> 32, used & u64::from(u32::MAX));
            let before = if at == second & u64::from(u32::MAX) { before } else { 0 };
            (before < u64::from(self.most)).then_some(second << 32 | (before + 1))
        });
        took.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_a_second_and_no_more() {
        let rate = PerSecond::new(2);
        assert_eq!([1, 1, 1, 2, 2, 2].map(|second| rate.take(second)), [true, true, false, true, true, false]);
        assert!(!PerSecond::new(0).take(1));
    }

    #[test]
    fn without_a_collector_nothing_is_traced() {
        assert_eq!(decide(None), None);
        assert_eq!(decide(Some(Context::begin())), None);
    }
}
