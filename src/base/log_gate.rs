//! Limits a log line that strangers or an outage can cause again and again.

use std::time::Duration;

use tokio::time::Instant;

use crate::lock::Lock;

/// Default minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Lets a log line through once in an interval.
#[derive(Debug)]
pub struct LogGate {
    interval: Duration,
    state: Lock<GateState>,
}

#[derive(Debug)]
struct GateState {
    last: Option<Instant>,
    skipped: u64,
}

impl Default for LogGate {
    fn default() -> Self {
        Self::new()
    }
}

impl LogGate {
    /// Creates a gate for one line in 10 s.
    pub const fn new() -> Self {
        Self::every(INTERVAL)
    }

    /// Creates a gate for one line in `interval`.
    pub const fn every(interval: Duration) -> Self {
        Self { interval, state: Lock::new(GateState { last: None, skipped: 0 }) }
    }

    /// Returns the number of lines that were skipped before this one, or `None` if this one is to be skipped too.
    pub fn pass(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.last.is_some_and(|last| now.duration_since(last) < self.interval) {
            state.skipped += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.skipped))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_passes_in_an_interval_and_the_skipped_ones_are_counted() {
        for (gate, interval) in [(LogGate::default(), INTERVAL), (LogGate::every(6 * INTERVAL), 6 * INTERVAL)] {
            let passed: Vec<_> = (0..3).map(|_| gate.pass()).collect();
            advance(interval).await;
            assert_eq!((passed, gate.pass()), (vec![Some(0), None, None], Some(2)));
        }
    }
}
