//! How long a settlement is tried again.

use std::{mem, time::Duration};

use tokio::time::Instant;

/// How long a settlement waits for others before it is asked for beside them: less than what an authorisation is still valid behind the longest
/// run (`SETTLE_MARGIN`), by what facilitators refuse (`exact::MIN_VALIDITY_SECS`) and an answer takes.
const QUEUED: Duration = Duration::from_secs(20);

/// How long a settlement is asked for.
pub(super) struct Tries {
    /// Until then it is tried again.
    pub(super) until: Instant,
    /// However long it waits for a seat, no later than then.
    pub(super) last: Instant,
    has_failed: bool,
}

impl Tries {
    /// It is tried for `again`; a seat is waited for as long, or for [`QUEUED`] where an answer may take `settle`.
    pub(super) fn beginning(began: Instant, again: Duration, settle: Duration) -> Self {
        Self { until: began + again, last: began + again.max(settle.min(QUEUED)), has_failed: false }
    }

    /// The time that a seat was waited for is none of its own.
    pub(super) fn queued(&mut self, waited: Duration) {
        self.until = self.last.min(self.until + waited);
    }

    /// Whether it fails for the first time: that one payment fails again and again says nothing of those beside it.
    pub(super) fn fails_first(&mut self) -> bool {
        !mem::replace(&mut self.has_failed, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_seat_takes_none_of_its_time_and_ends() {
        let (now, seconds) = (Instant::now(), Duration::from_secs);
        let mut tries = Tries::beginning(now, seconds(10), seconds(60));
        assert_eq!((tries.until - now, tries.last - now), (seconds(10), QUEUED));
        tries.queued(seconds(3));
        tries.queued(seconds(4));
        assert_eq!(tries.until - now, seconds(17));
        tries.queued(seconds(4));
        assert_eq!(tries.until, tries.last);
        let long = Tries::beginning(now, seconds(30), seconds(60));
        assert_eq!((long.until - now, long.last - now), (seconds(30), seconds(30)));
    }

    #[test]
    fn the_first_failure_alone_says_something_of_others() {
        let mut tries = Tries::beginning(Instant::now(), Duration::ZERO, Duration::ZERO);
        assert_eq!([tries.fails_first(), tries.fails_first(), tries.fails_first()], [true, false, false]);
    }
}
