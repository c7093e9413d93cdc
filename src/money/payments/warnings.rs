//! Warnings for operators, which the state of the host shows and the log repeats as alarms.

use serde_json::{Value, json};
use tollhouse_base::plural::plural;

use super::{Payments, alarms::KINDS};

/// Thresholds for alarms: unpaid runs per minute, and open settlements.
const MANY_UNPAID: u64 = 100;
const MANY_OPEN: usize = 100;

impl Payments {
    /// Returns unpaid runs, burned gas and warnings, for operators.
    pub fn unpaid(&self) -> Value {
        let warnings: Vec<_> = self.warnings().into_iter().flatten().collect();
        json!({ "runsLastMinute": self.throttle.unpaid(), "gas": self.gas.status(), "warnings": warnings })
    }

    /// Returns the status of each facilitator by network, with its last answers.
    pub fn facilitator_statuses(&self) -> Value {
        let mut statuses = self.facilitators.statuses();
        for (network, status) in statuses.as_object_mut().into_iter().flatten() {
            let [verify, settle] = self.last_answers.describe(network);
            status["lastVerify"] = verify;
            status["lastSettle"] = settle;
        }
        statuses
    }

    /// Returns a message for each facilitator whose last request failed.
    pub fn facilitator_failures(&self) -> Vec<String> {
        self.last_answers.failures()
    }

    fn warnings(&self) -> [Option<String>; KINDS] {
        let (runs, open) = (self.throttle.unpaid(), self.open_intents());
        let elsewhere = self.alarms.elsewhere();
        let refusals = self.facilitators.chains().map(|(network, node)| (network.caip2, node.rate_refusals()));
        let refused = refusals.max_by_key(|(_, refused)| *refused).filter(|(_, refused)| *refused > 0);
        [
            (runs >= MANY_UNPAID).then(|| format!("{runs} runs in the last minute were not paid for")),
            (open >= MANY_OPEN).then(|| format!("{open} settlements are open, and their result is unknown")),
            self.gas.is_high().then(|| "failed settlements have used more than half of their gas allowance for this hour".to_owned()),
            self.gas.is_underpaid_high().then(|| {
                "settlements below `--least-settlement-usd` have used more than half of their gas allowance for this hour, \
                 and bring in less than it costs"
                    .to_owned()
            }),
            refused.map(|(network, refused)| {
                format!(
                    "the node of {network} rejected {} in the last minute because there were too many: raise its quota, or set another node",
                    plural(refused, "request")
                )
            }),
            (elsewhere > 0).then(|| {
                format!(
                    "the authorizations of {} in the last hour were used before this host used them: check whether another store has the same `payTo`",
                    plural(elsewhere, "payment")
                )
            }),
        ]
    }

    pub(super) fn log_alarms(&self) {
        self.alarms.log(self.warnings());
    }
}
