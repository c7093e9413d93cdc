//! Limits a log line that strangers can cause.

use std::time::Duration;

use tokio::time::Instant;
use tollhouse_base::lock::Lock;

/// Minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Lets a log line through once in 10 seconds.
#[derive(Debug, Default)]
pub(crate) struct LogGate(Lock<GateState>);

#[derive(Debug, Default)]
struct GateState {
    last: Option<Instant>,
    skipped: u64,
}

impl LogGate {
    /// Returns the number of lines that were skipped before this one, or `None` if this one is to be skipped too.
    pub(crate) fn pass(&self) -> Option<u64> {
        let mut state = self.0.lock();
        let now = Instant::now();
        if state.last.is_some_and(|last| now.duration_since(last) < INTERVAL) {
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
    async fn one_line_passes_in_ten_seconds_and_counts_the_skipped_ones() {
        let gate = LogGate::default();
        let passed: Vec<_> = (0..3).map(|_| gate.pass()).collect();
        advance(INTERVAL).await;
        assert_eq!((passed, gate.pass()), (vec![Some(0), None, None], Some(2)));
    }
}
