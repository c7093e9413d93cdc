//! Alarms for operators: unpaid runs, open settlements, burned gas, gas of underpaid settlements, payments that were used
//! elsewhere, and nodes that refuse requests.

use std::time::Duration;

use tokio::time::Instant;
use tollhouse_base::lock::Lock;
use tollhouse_telemetry::counters::SETTLEMENT_FAULTS;

use super::sliding_window::{SlidingWindow, WindowMoment};

/// Duration of the alarm after a payment was used elsewhere.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Time that an alarm must be off before it is logged again.
const OVER_FOR: Duration = Duration::from_secs(60);

pub(super) const KINDS: usize = 6;

#[derive(Debug)]
pub(super) struct Alarms {
    started: Instant,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    elsewhere: SlidingWindow,
    last_on: [Option<Instant>; KINDS],
}

impl Alarms {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), state: Lock::default() }
    }

    /// Counts a payment that was used before this host used it.
    pub(super) fn spent_elsewhere(&self) {
        SETTLEMENT_FAULTS.count(["elsewhere"]);
        self.state.lock().elsewhere.add(1, self.now());
    }

    /// Returns how many payments of the last hour were used before this host used them.
    pub(super) fn elsewhere(&self) -> u64 {
        self.state.lock().elsewhere.total(self.now())
    }

    pub(super) fn log(&self, warnings: [Option<String>; KINDS]) {
        let now = Instant::now();
        for (warning, last_on) in warnings.into_iter().zip(&mut self.state.lock().last_on) {
            let Some(warning) = warning else { continue };
            if last_on.replace(now).is_none_or(|last| now.duration_since(last) > OVER_FOR) {
                tracing::warn!("alarm: {warning}");
            }
        }
    }

    fn now(&self) -> WindowMoment {
        WindowMoment::new(self.started.elapsed(), WINDOW)
    }
}
