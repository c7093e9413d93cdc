//! Counts requests to facilitators.

use std::time::Instant;

use tollhouse_telemetry::counters::{FACILITATOR, FACILITATOR_SECONDS};

use crate::{SettleOutcome, VerifyResult};

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
