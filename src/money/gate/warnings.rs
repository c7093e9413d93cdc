//! Warnings for operators, which the state of the host shows and the log repeats as alarms.

use serde_json::{Value, json};

use super::{Gate, alarms::KINDS};

/// Thresholds for alarms: unpaid runs per minute, and open settlements.
const MANY_UNPAID: u64 = 100;
const MANY_OPEN: usize = 100;

impl Gate {
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
            (elsewhere > 0).then(|| {
                format!(
                    "{elsewhere} payments of the last hour were used before this host used them: look whether another store has the same `payTo`"
                )
            }),
        ]
    }

    /// Logs each alarm once when it begins.
    pub(super) fn log_alarms(&self) {
        self.alarms.log(self.warnings());
    }

    /// Counts gas as burned by an unspecified payer.
    #[cfg(test)]
    pub(crate) fn burn_gas(&self, gas: u64) {
        let burner = super::gas::Burner { payer: "somebody".to_owned(), builder: None };
        self.gas.burned(&burner, super::BurnedGas { gas, wei: 0 });
    }
}
