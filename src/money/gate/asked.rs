//! Questions to facilitators, counted.

use std::time::Instant;

use tollhouse_telemetry::counted::{FACILITATOR, FACILITATOR_SECONDS};

use crate::{SettleOutcome, Verdict};

/// Asks, and counts how long it took and how it ended, by `name`.
pub(super) async fn asked<T>(operation: &str, question: impl Future<Output = T>, name: impl FnOnce(&T) -> &'static str) -> T {
    let begun = Instant::now();
    let said = question.await;
    FACILITATOR_SECONDS.observe(operation, begun.elapsed());
    FACILITATOR.count([operation, name(&said)]);
    said
}

impl Verdict {
    /// As it is counted.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid { .. } => "invalid",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl SettleOutcome {
    /// As it is counted.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Settled(_) => "settled",
            Self::Refused { .. } => "refused",
            Self::Unsent(_) => "unsent",
            Self::Unknown(_) | Self::Lost(_) => "unknown",
        }
    }
}
