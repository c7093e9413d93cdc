//! When the newest block is asked for: soon after something was sent, and then ever more rarely, while anything is on its way.

use std::time::Duration;

use tokio::time::Instant;

/// What is waited after something was sent, and at most between two looks.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// When the next look is due. There is one at a time.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    next: Option<Instant>,
    /// What was waited for it.
    pause: Duration,
    looking: bool,
}

impl Schedule {
    /// When to look; never while nothing is on its way, and not before a look that has begun is over.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next.filter(|_| !self.looking)
    }

    /// Something is sent.
    pub(super) fn soon(&mut self, now: Instant) {
        (self.pause, self.next) = (FIRST_PAUSE, Some(now + FIRST_PAUSE));
    }

    /// The node has what was sent: it may be in a block by now.
    pub(super) fn at_once(&mut self, now: Instant) {
        (self.pause, self.next) = (FIRST_PAUSE, Some(now));
    }

    /// A look has begun.
    pub(super) fn looking(&mut self) {
        self.looking = true;
    }

    /// It is over; there is `more` to look for, or there is not.
    pub(super) fn looked(&mut self, now: Instant, more: bool) {
        self.looking = false;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
    fn blocks_are_asked_for_ever_more_rarely_until_something_is_sent_again() {
        let mut schedule = Schedule::default();
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
    fn what_the_node_has_is_looked_for_at_once_but_not_twice_at_a_time() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
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
