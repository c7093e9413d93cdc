//! Alarms for operators: unpaid runs, open settlements, burned gas, gas of underpaid settlements, and payments that were
//! used elsewhere.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;
use tollhouse_telemetry::counters::SETTLEMENT_FAULTS;

use super::{
    Payments,
    sliding_window::{SlidingWindow, WindowMoment},
};
#[cfg(test)]
use crate::{BurnedGas, SettlementGas};

/// Thresholds for alarms: unpaid runs per minute, and open settlements.
const MANY_UNPAID: u64 = 100;
const MANY_OPEN: usize = 100;

/// Duration of the alarm after a payment was used elsewhere.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Time that an alarm must be off before it is logged again.
const OVER_FOR: Duration = Duration::from_secs(60);

const KINDS: usize = 5;

#[derive(Debug)]
pub(super) struct Alarms {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    elsewhere: SlidingWindow,
    last_on: [Option<Instant>; KINDS],
}

impl Alarms {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }

    /// Counts a payment that was used before this host used it.
    pub(super) fn spent_elsewhere(&self) {
        SETTLEMENT_FAULTS.count(["elsewhere"]);
        self.state().elsewhere.add(1, self.now());
    }

    /// Returns how many payments of the last hour were used before this host used them.
    fn elsewhere(&self) -> u64 {
        self.state().elsewhere.total(self.now())
    }

    fn log(&self, warnings: [Option<String>; KINDS]) {
        let now = Instant::now();
        for (warning, last_on) in warnings.into_iter().zip(&mut self.state().last_on) {
            let Some(warning) = warning else { continue };
            if last_on.replace(now).is_none_or(|last| now.duration_since(last) > OVER_FOR) {
                tracing::warn!("alarm: {warning}");
            }
        }
    }

    fn now(&self) -> WindowMoment {
        WindowMoment::new(self.started.elapsed(), WINDOW)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Payments {
    /// Returns unpaid runs, burned gas and warnings, for operators.
    #[must_use]
    pub fn unpaid(&self) -> Value {
        let warnings: Vec<_> = self.warnings().into_iter().flatten().collect();
        json!({ "runsLastMinute": self.throttle.unpaid(), "gas": self.gas.status(), "warnings": warnings })
    }

    fn warnings(&self) -> [Option<String>; KINDS] {
        let (runs, open) = (self.throttle.unpaid(), self.open_intents());
        let elsewhere = self.alarms.elsewhere();
        [
            (runs >= MANY_UNPAID).then(|| format!("{runs} runs of the last minute were not paid for")),
            (open >= MANY_OPEN).then(|| format!("{open} settlements are open: nobody has said yet how they ended")),
            self.gas.is_high().then(|| "settlements have burned more than half of the gas that they may burn in an hour".to_owned()),
            self.gas.is_underpaid_high().then(|| {
                "settlements below `--least-settlement-usd` have used more than half of the gas that they may use in an hour, \
                 and bring less than it costs"
                    .to_owned()
            }),
            (elsewhere > 0).then(|| {
                format!(
                    "{elsewhere} payments of the last hour were used before this host used them: look whether another store has the same `payTo`"
                )
            }),
        ]
    }

    /// Returns the gas burned in the last hour by a payer, from an address, and for the tools of a builder.
    #[cfg(test)]
    pub(crate) fn gas_burned_by(&self, payer: &str, from: std::net::IpAddr, builder: &str) -> [u64; 3] {
        let builder = Some(builder.to_owned());
        self.gas.burned_by(&super::gas::Burner { from: Some(from), builder, ..super::gas::Burner::of_payer(payer.to_owned()) })
    }

    /// Counts gas as used by an underpaid settlement of an unspecified payer.
    #[cfg(test)]
    pub(crate) fn use_underpaid_gas(&self, gas: u64) {
        let (ordinary, excess) = (BurnedGas { gas, wei: 0 }, BurnedGas { gas: 0, wei: 0 });
        self.gas.settled(&super::gas::Burner::of_payer("somebody".to_owned()), SettlementGas { ordinary, excess }, true);
    }

    pub(super) fn log_alarms(&self) {
        self.alarms.log(self.warnings());
    }

    #[cfg(test)]
    pub(crate) fn burn_gas(&self, gas: u64) {
        _ = self.gas.burned(&super::gas::Burner::of_payer("somebody".to_owned()), BurnedGas { gas, wei: 0 });
    }
}
