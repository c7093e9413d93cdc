//! Usage of a caller.

use std::time::Duration;

use tokio::time::Instant;

/// Time for which calls of a caller are expected to compute for long, after one of them did.
const EXPECTED_LONG: Duration = Duration::from_secs(10);

/// The usage of one caller.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Caller {
    pub(super) admitted: usize,
    /// Calls with a running slot or in the background.
    pub(super) computing: usize,
    pub(super) queued: usize,
    /// When a call was last slowed.
    pub(super) slowed_at: Option<Instant>,
}

impl Caller {
    pub(super) fn has_calls(&self) -> bool {
        self.admitted > 0 || self.computing > 0 || self.queued > 0
    }

    /// Returns whether its next call probably computes for long.
    pub(super) fn is_long(&self) -> bool {
        self.slowed_at.is_some_and(|slowed_at| slowed_at.elapsed() < EXPECTED_LONG)
    }
}
