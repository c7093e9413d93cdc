//! Time limits for retries of a settlement.

use std::{mem, time::Duration};

use tokio::time::Instant;

/// Maximum wait for a slot before a settlement is requested without one. It must be less than the validity of an
/// authorization after the longest run (`SETTLE_MARGIN`), minus what facilitators refuse (`exact::MIN_VALIDITY_SECS`)
/// and the time for an answer.
const QUEUED: Duration = Duration::from_secs(20);

/// The time limits of a settlement's retries.
pub(super) struct RetryPolicy {
    /// The time until which it is retried.
    pub(super) until: Instant,
    /// The latest value of `until`, however long it waits for a slot.
    pub(super) last: Instant,
    has_failed: bool,
}

impl RetryPolicy {
    /// Allows retries for `again` after `started`. With the time spent waiting for a slot, retries end after the longer of
    /// `again` and `settle`, of which at most [`QUEUED`] counts.
    pub(super) fn beginning(started: Instant, again: Duration, settle: Duration) -> Self {
        Self { until: started + again, last: started + again.max(settle.min(QUEUED)), has_failed: false }
    }

    /// Excludes time spent waiting for a slot.
    pub(super) fn queued(&mut self, waited: Duration) {
        self.until = self.last.min(self.until + waited);
    }

    /// Returns true for the first failure only. Repeated failures of one payment say nothing about others.
    pub(super) fn fails_first(&mut self) -> bool {
        !mem::replace(&mut self.has_failed, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_slot_is_not_deducted_and_limited() {
        let (now, seconds) = (Instant::now(), Duration::from_secs);
        let mut tries = RetryPolicy::beginning(now, seconds(10), seconds(60));
        assert_eq!((tries.until - now, tries.last - now), (seconds(10), QUEUED));
        tries.queued(seconds(3));
        tries.queued(seconds(4));
        assert_eq!(tries.until - now, seconds(17));
        tries.queued(seconds(4));
        assert_eq!(tries.until, tries.last);
        let long = RetryPolicy::beginning(now, seconds(30), seconds(60));
        assert_eq!((long.until - now, long.last - now), (seconds(30), seconds(30)));
    }

    #[test]
    fn only_the_first_failure_counts() {
        let mut tries = RetryPolicy::beginning(Instant::now(), Duration::ZERO, Duration::ZERO);
        assert_eq!([tries.fails_first(), tries.fails_first(), tries.fails_first()], [true, false, false]);
    }
}
