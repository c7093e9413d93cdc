//! Names of outcomes in metrics, and the count of requests to facilitators.

use std::time::Instant;

use tollhouse_telemetry::counters::{FACILITATOR, FACILITATOR_SECONDS};

use crate::{NOT_SERVED, SettleError, SettleOutcome, StoredAnswer, VerifyResult};

/// Sends a request, and counts its duration and its outcome, named by `name`.
pub(super) async fn measured<T>(operation: &str, request: impl Future<Output = T>, name: impl FnOnce(&T) -> &'static str) -> T {
    let started = Instant::now();
    let outcome = request.await;
    FACILITATOR_SECONDS.observe(operation, started.elapsed());
    FACILITATOR.count([operation, name(&outcome)]);
    outcome
}

impl VerifyResult {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid { .. } => "invalid",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl SettleOutcome {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Settled(_) => "settled",
            Self::Refused { .. } => "refused",
            Self::Unsent(_) => "unsent",
            Self::Unknown(_) | Self::Lost(_) => "unknown",
        }
    }
}

/// Returns the name of a payment's outcome.
pub(super) fn outcome_of(outcome: &Result<StoredAnswer, SettleError>) -> &'static str {
    match outcome {
        Ok(_) => "settled",
        Err(SettleError::Refused { reason, .. }) if reason == NOT_SERVED => "released",
        Err(SettleError::Refused { .. } | SettleError::OverBudget(_)) => "refused",
        Err(SettleError::Unknown { .. } | SettleError::Store(_)) => "unknown",
    }
}
