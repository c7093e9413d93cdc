//! Alarms for operators: unpaid runs, open settlements, burned gas, and payments that were used elsewhere.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;
use tollhouse_telemetry::counted::SETTLEMENT_FAULTS;

use super::{
    Gate,
    recent::{Moment, Recent},
};

/// Thresholds for alarms: unpaid runs per minute, and open settlements.
const MANY_UNPAID: u64 = 100;
const MANY_OPEN: usize = 100;

/// Duration of the alarm after a payment was used elsewhere.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Time that an alarm must be off before it is logged again.
const OVER_FOR: Duration = Duration::from_secs(60);

/// Number of kinds of alarms.
const KINDS: usize = 4;

/// The state of alarms.
#[derive(Debug)]
pub(super) struct Alarms {
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Payments that were used elsewhere.
    elsewhere: Recent,
    /// When each alarm was last on.
    last_on: [Option<Instant>; KINDS],
}

impl Alarms {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), state: Mutex::default() }
    }

    /// Counts a payment that was used before this host used it.
    pub(super) fn spent_elsewhere(&self) {
        SETTLEMENT_FAULTS.count(["elsewhere"]);
        self.state().elsewhere.add(1, self.now());
    }

    fn now(&self) -> Moment {
        Moment::new(self.begun.elapsed(), WINDOW)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// Returns unpaid runs, burned gas and warnings, for operators.
    #[must_use]
    pub fn unpaid(&self) -> Value {
        let warnings: Vec<_> = self.warnings().into_iter().flatten().collect();
        json!({ "runsLastMinute": self.throttle.unpaid(), "gas": self.gas.status(), "warnings": warnings })
    }

    fn warnings(&self) -> [Option<String>; KINDS] {
        let (runs, open) = (self.throttle.unpaid(), self.open_intents());
        let elsewhere = self.alarms.state().elsewhere.total(self.alarms.now());
        [
            (runs >= MANY_UNPAID).then(|| format!("{runs} runs of the last minute were not paid for")),
            (open >= MANY_OPEN).then(|| format!("{open} settlements are open: nobody has said yet how they ended")),
            self.gas.is_high().then(|| "settlements have burned more than half of the gas that they may burn in an hour".to_owned()),
            (elsewhere > 0).then(|| {
                format!(
                    "{elsewhere} payments of the last hour were used before this host used them: look whether another store has the same `payTo`"
                )
            }),
        ]
    }

    /// Logs each alarm once when it begins.
    pub(super) fn log_alarms(&self) {
        let (warnings, now) = (self.warnings(), Instant::now());
        let mut state = self.alarms.state();
        for (warning, last_on) in warnings.into_iter().zip(&mut state.last_on) {
            let Some(warning) = warning else { continue };
            if last_on.replace(now).is_none_or(|last| now.duration_since(last) > OVER_FOR) {
                tracing::warn!("alarm: {warning}");
            }
        }
    }

    /// Counts gas as burned by an unspecified payer.
    #[cfg(test)]
    pub(crate) fn burn_gas(&self, gas: u64) {
        let burner = super::gas::Burner { payer: "somebody".to_owned(), builder: None };
        self.gas.burned(&burner, super::BurnedGas { gas, wei: 0 });
    }
}
