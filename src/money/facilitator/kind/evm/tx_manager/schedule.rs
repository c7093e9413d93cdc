//! Schedules polling for the newest block: soon after something was sent, then at growing intervals while anything is
//! pending.

use std::time::Duration;

use tokio::time::Instant;

/// Pause after something was sent, and the maximum pause between two looks.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// When the next poll is due. Only one runs at a time.
#[derive(Debug, Default)]
pub(super) struct PollSchedule {
    next: Option<Instant>,
    /// The pause before the next poll.
    pause: Duration,
    looking: bool,
}

impl PollSchedule {
    /// Returns when to poll. `None` if nothing is pending or a poll is running.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next.filter(|_| !self.looking)
    }

    /// Schedules a poll soon, because something is being sent.
    pub(super) fn soon(&mut self, now: Instant) {
        (self.pause, self.next) = (FIRST_PAUSE, Some(now + FIRST_PAUSE));
    }

    /// Schedules a poll at once: the node has the transaction, which may already be in a block.
    pub(super) fn at_once(&mut self, now: Instant) {
        (self.pause, self.next) = (FIRST_PAUSE, Some(now));
    }

    /// Records that a poll has begun.
    pub(super) fn looking(&mut self) {
        self.looking = true;
    }

    /// Records that a poll has ended. `more` is whether transactions are still pending.
    pub(super) fn looked(&mut self, now: Instant, more: bool) {
        self.looking = false;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        self.next = more.then(|| now + self.pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn polling_slows_down_until_something_is_sent() {
        let mut schedule = PollSchedule::default();
        assert_eq!(schedule.due(), None);
        let mut now = Instant::now();
        for _ in 0..2 {
            schedule.soon(now);
            for pause in [20, 40, 80, 160, 250, 250] {
                assert_eq!(schedule.due(), Some(now + millis(pause)));
                now += millis(pause);
                schedule.looking();
                schedule.looked(now, true);
            }
        }
        schedule.looked(now, false);
        assert_eq!(schedule.due(), None, "nothing is on its way");
    }

    #[test]
    fn an_accepted_transaction_is_polled_at_once_by_one_look() {
        let (mut schedule, now) = (PollSchedule::default(), Instant::now());
        schedule.soon(now);
        schedule.looking();
        schedule.at_once(now);
        assert_eq!(schedule.due(), None);
        schedule.looked(now, true);
        assert_eq!(schedule.due(), Some(now + millis(40)));
        schedule.at_once(now);
        assert_eq!(schedule.due(), Some(now));
    }
}
