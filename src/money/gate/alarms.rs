//! What operators are warned of: runs that nobody pays for, settlements whose end is not known, burned gas, and payments that were used
//! elsewhere.

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

/// Unpaid runs within a minute, and open settlements, at which operators are warned.
const MANY_UNPAID: u64 = 100;
const MANY_OPEN: usize = 100;

/// For how long operators are warned of a payment that was used elsewhere.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// How long an alarm has to be over before it is logged again.
const OVER_FOR: Duration = Duration::from_secs(60);

/// Kinds of alarms.
const KINDS: usize = 4;

/// What alarms need that nothing else remembers.
#[derive(Debug)]
pub(super) struct Alarms {
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Payments that were used elsewhere.
    elsewhere: Recent,
    /// When each alarm was on last.
    last_on: [Option<Instant>; KINDS],
}

impl Alarms {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), state: Mutex::default() }
    }

    /// A payment was used before this host used it.
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
    /// Runs that nobody paid for, and gas that was burned, for operators.
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

    /// Logs the alarms that have begun since the last time, each once.
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

    /// Counts gas as burned by nobody in particular.
    #[cfg(test)]
    pub(crate) fn burn_gas(&self, gas: u64) {
        let burner = super::gas::Burner { payer: "somebody".to_owned(), builder: None };
        self.gas.burned(&burner, super::BurnedGas { gas, wei: 0 });
    }
}
