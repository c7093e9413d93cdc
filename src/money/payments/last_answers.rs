//! The last answers of facilitators that show whether they work, for operators.

use serde_json::{Value, json};
use tollhouse_base::{clock::Timestamp, lock::Lock};

use crate::{NOT_SERVED, Network, SettleOutcome, VerifyResult};

/// An answer of a facilitator.
#[derive(Debug, Clone, Copy)]
struct LastAnswer {
    at: Timestamp,
    /// Whether the facilitator worked.
    ok: bool,
    outcome: &'static str,
}

impl LastAnswer {
    fn describe(self) -> Value {
        json!({ "at": self.at, "ok": self.ok, "outcome": self.outcome })
    }
}

/// The last answers of one facilitator.
#[derive(Debug, Default)]
struct Answers {
    verify: Option<LastAnswer>,
    settle: Option<LastAnswer>,
}

/// The last answers of all facilitators, by network.
#[derive(Debug)]
pub(super) struct LastAnswers(Vec<(&'static str, Lock<Answers>)>);

impl LastAnswers {
    pub(super) fn new(networks: impl Iterator<Item = &'static Network>) -> Self {
        Self(networks.map(|network| (network.caip2, Lock::default())).collect())
    }

    fn of(&self, network: &str) -> Option<&Lock<Answers>> {
        self.0.iter().find(|(known, _)| *known == network).map(|(_, answers)| answers)
    }

    /// Records a verdict. Invalid payments are left out, because the host refuses many of them without the facilitator, and
    /// anybody can send them.
    pub(super) fn verified(&self, network: &Network, at: Timestamp, verdict: &VerifyResult) {
        let ok = match verdict {
            VerifyResult::Valid => true,
            VerifyResult::Invalid { reason, .. } if reason == NOT_SERVED => false,
            VerifyResult::Invalid { .. } => return,
            VerifyResult::Unavailable(_) => false,
        };
        if let Some(answers) = self.of(network.caip2) {
            answers.lock().verify = Some(LastAnswer { at, ok, outcome: verdict.name() });
        }
    }

    /// Records the outcome of a settlement.
    pub(super) fn settled(&self, network: &Network, at: Timestamp, outcome: &SettleOutcome) {
        let ok = match outcome {
            SettleOutcome::Settled(_) => true,
            SettleOutcome::Refused { reason, .. } => reason != NOT_SERVED,
            SettleOutcome::Unsent(_) | SettleOutcome::Unknown(_) | SettleOutcome::Lost(_) => false,
        };
        if let Some(answers) = self.of(network.caip2) {
            answers.lock().settle = Some(LastAnswer { at, ok, outcome: outcome.name() });
        }
    }

    /// Describes the last answers of a network's facilitator to `verify` and to `settle`.
    pub(super) fn describe(&self, network: &str) -> [Value; 2] {
        let describe = |answer: Option<LastAnswer>| answer.map_or(Value::Null, LastAnswer::describe);
        self.of(network).map_or([Value::Null, Value::Null], |answers| {
            let Answers { verify, settle } = &*answers.lock();
            [describe(*verify), describe(*settle)]
        })
    }

    /// Returns a message for each facilitator that failed last, for each request.
    pub(super) fn failures(&self) -> Vec<String> {
        let failed = |answer: Option<LastAnswer>| answer.filter(|answer| !answer.ok);
        let mut failures = Vec::new();
        for (network, answers) in &self.0 {
            let Answers { verify, settle } = &*answers.lock();
            failures.extend(
                failed(*verify).map(|answer| format!("the facilitator of {network} could not verify the last payment, at {}", answer.at)),
            );
            failures.extend(failed(*settle).map(|answer| {
                format!("the last settlement through the facilitator of {network} failed, at {} ({})", answer.at, answer.outcome)
            }));
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NETWORKS;

    #[test]
    fn failures_end_with_the_next_success_and_not_with_an_invalid_payment() {
        let network = NETWORKS[0];
        let answers = LastAnswers::new([network].into_iter());
        assert_eq!((answers.describe(network.caip2), answers.failures()), ([Value::Null, Value::Null], vec![]));
        let unavailable = VerifyResult::Unavailable("connection refused".to_owned());
        let invalid = |reason: &str| VerifyResult::Invalid { reason: reason.to_owned(), message: "no".to_owned() };
        for (verdict, failures) in [
            (unavailable, 1),
            (invalid("insufficient_funds"), 1),
            (VerifyResult::Valid, 0),
            (invalid("insufficient_funds"), 0),
            (invalid(NOT_SERVED), 1),
            (VerifyResult::Valid, 0),
        ] {
            answers.verified(network, Timestamp(1_000), &verdict);
            assert_eq!(answers.failures().len(), failures, "{verdict:?}");
        }
        let [verify, settle] = answers.describe(network.caip2);
        assert_eq!((verify["ok"].clone(), &settle), (json!(true), &Value::Null));
        answers.settled(network, Timestamp(2_000), &SettleOutcome::Unknown("no answer".to_owned()));
        let expected =
            format!("the last settlement through the facilitator of {} failed, at {} (unknown)", network.caip2, Timestamp(2_000));
        assert_eq!(answers.failures(), [expected]);
        assert_eq!(answers.describe(network.caip2)[1], json!({ "at": Timestamp(2_000), "ok": false, "outcome": "unknown" }));
        let refused = SettleOutcome::Refused { reason: "insufficient_funds".to_owned(), message: "no".to_owned() };
        answers.settled(network, Timestamp(3_000), &refused);
        assert_eq!(answers.failures(), Vec::<String>::new());
    }
}
