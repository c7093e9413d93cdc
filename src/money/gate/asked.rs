//! Counts requests to facilitators.

use std::time::Instant;

use tollhouse_telemetry::counted::{FACILITATOR, FACILITATOR_SECONDS};

use crate::{SettleOutcome, Verdict};

/// Sends a request, and counts its duration and its outcome, named by `name`.
pub(super) async fn asked<T>(operation: &str, question: impl Future<Output = T>, name: impl FnOnce(&T) -> &'static str) -> T {
    let begun = Instant::now();
    let said = question.await;
    FACILITATOR_SECONDS.observe(operation, begun.elapsed());
    FACILITATOR.count([operation, name(&said)]);
    said
}

impl Verdict {
    /// Its name in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid { .. } => "invalid",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl SettleOutcome {
    /// Its name in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Settled(_) => "settled",
            Self::Refused { .. } => "refused",
            Self::Unsent(_) => "unsent",
            Self::Unknown(_) | Self::Lost(_) => "unknown",
        }
    }
}
