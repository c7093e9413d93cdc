//! Timing of the watchdog thread, which looks at workers only while a budget is in force.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::budget::TICK;

/// The scope of a watchdog round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchdogTick {
    /// Everything that is measured.
    Tick,
    /// The memory of processes that are near their limit.
    Between,
}

/// Counts the budgets in force. Wakes the watchdog for the first budget, and when one needs a look
/// soon.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    armed: AtomicUsize,
    bell: Mutex<Bell>,
    rings: Condvar,
}

#[derive(Debug, Default)]
struct Bell {
    /// Whether the watchdog waits for the first budget.
    awaits_first: bool,
    is_hurried: bool,
    is_silenced: bool,
}

impl Alarm {
    /// Calls `look` every [`TICK`] while any budget is in force. `look` returns the time until an
    /// earlier round, if it needs one. Returns when the alarm is [silenced](Self::silence).
    pub(crate) fn ring(&self, mut look: impl FnMut(WatchdogTick) -> Option<Duration>) {
        let mut rounds = TickSchedule::from(Instant::now());
        loop {
            if self.wait_for_first() {
                rounds = TickSchedule::from(Instant::now());
            }
            if !self.wait(rounds.timeout(Instant::now())) {
                return;
            }
            let Some(soonest) = look(rounds.next(Instant::now())) else { return };
            rounds.soonest = soonest;
        }
    }

    /// Stops the thread in [`ring`](Self::ring).
    pub(crate) fn silence(&self) {
        self.bell().is_silenced = true;
        self.rings.notify_all();
    }

    /// Waits until a budget is in force. Returns false if one already is.
    fn wait_for_first(&self) -> bool {
        let mut bell = self.bell();
        bell.awaits_first = true;
        let waits = |bell: &mut Bell| !bell.is_silenced && !self.is_armed();
        let waited = waits(&mut bell);
        let mut bell = self.rings.wait_while(bell, waits).unwrap_or_else(PoisonError::into_inner);
        bell.awaits_first = false;
        waited
    }

    /// Waits for `patience`, or until a look is urgent. Returns false when the alarm is silenced.
    fn wait(&self, timeout: Duration) -> bool {
        let quiet = |bell: &mut Bell| bell.is_quiet();
        let (mut bell, _) = self.rings.wait_timeout_while(self.bell(), timeout, quiet).unwrap_or_else(PoisonError::into_inner);
        bell.is_hurried = false;
        !bell.is_silenced
    }

    /// Records that a budget came into force.
    pub(crate) fn arm(&self) {
        if self.armed.fetch_add(1, Ordering::AcqRel) == 0 {
            self.notify_first();
        }
    }

    fn notify_first(&self) {
        if self.bell().awaits_first {
            self.rings.notify_one();
        }
    }

    /// Records that a budget ended.
    pub(crate) fn disarm(&self) {
        self.armed.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests a look now, which decides when the next one is due.
    pub(crate) fn set_hurried(&self) {
        self.bell().is_hurried = true;
        self.rings.notify_one();
    }

    /// Returns whether any budget is in force.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire) > 0
    }

    fn bell(&self) -> MutexGuard<'_, Bell> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    fn is_quiet(&self) -> bool {
        !self.is_silenced && !self.is_hurried
    }
}

/// The schedule of the watchdog's rounds.
#[derive(Debug)]
struct TickSchedule {
    tick: Instant,
    /// The interval that the last look requested.
    soonest: Duration,
}

impl TickSchedule {
    fn from(now: Instant) -> Self {
        Self { tick: now + TICK, soonest: Duration::MAX }
    }

    fn timeout(&self, now: Instant) -> Duration {
        self.soonest.min(self.tick.saturating_duration_since(now))
    }

    fn next(&mut self, now: Instant) -> WatchdogTick {
        if now < self.tick {
            return WatchdogTick::Between;
        }
        self.tick = now + TICK;
        WatchdogTick::Tick
    }
}

#[cfg(test)]
impl Alarm {
    pub(crate) fn is_hurried(&self) -> bool {
        self.bell().is_hurried
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{park_timeout, scope};

    use super::*;

    /// Silences an alarm when dropped, also if the test fails.
    struct SilenceGuard<'a>(&'a Alarm);

    impl Drop for SilenceGuard<'_> {
        fn drop(&mut self) {
            self.0.silence();
        }
    }

    #[test]
    fn watchdog_runs_only_while_a_budget_is_in_force() {
        let (alarm, looks) = (Alarm::default(), AtomicUsize::new(0));
        let look = |_| {
            looks.fetch_add(1, Ordering::Relaxed);
            Some(Duration::MAX)
        };
        scope(|scope| {
            scope.spawn(|| alarm.ring(look));
            let _silenced = SilenceGuard(&alarm);
            let in_a_while = || {
                let before = looks.load(Ordering::Relaxed);
                park_timeout(4 * TICK);
                looks.load(Ordering::Relaxed) - before
            };
            // The last look may come late.
            let none = || (0..100).any(|_| in_a_while() == 0);
            let some = || (0..100).any(|_| in_a_while() > 1);
            assert_eq!(in_a_while(), 0);
            for _ in 0..2 {
                alarm.arm();
                assert!(some());
                alarm.arm();
                alarm.disarm();
                assert!(some());
                alarm.disarm();
                assert!(none());
            }
            alarm.arm();
        });
    }

    #[test]
    fn watchdog_ticks_on_schedule_and_measures_earlier_if_needed() {
        let (started, instant) = (Instant::now(), Duration::from_nanos(1));
        let mut rounds = TickSchedule::from(started);
        assert_eq!([Duration::ZERO, TICK / 2, 3 * TICK].map(|passed| rounds.timeout(started + passed)), [TICK, TICK / 2, Duration::ZERO]);
        rounds.soonest = instant;
        assert_eq!(rounds.timeout(started), instant);
        assert_eq!(rounds.next(started + TICK - instant), WatchdogTick::Between);
        assert_eq!(rounds.next(started + TICK), WatchdogTick::Tick);
        assert_eq!(rounds.next(started + TICK), WatchdogTick::Between);
        assert_eq!(rounds.next(started + 9 * TICK), WatchdogTick::Tick);
        rounds.soonest = Duration::MAX;
        assert_eq!(rounds.timeout(started + 9 * TICK), TICK, "what it missed it does not catch up with");
    }

    #[test]
    fn alarm_waits_until_it_is_hurried_or_silenced() {
        let quiet = |is_silenced, is_hurried| Bell { is_silenced, is_hurried, ..Bell::default() }.is_quiet();
        assert_eq!([quiet(false, false), quiet(false, true), quiet(true, false), quiet(true, true)], [true, false, false, false]);
        let alarm = Alarm::default();
        alarm.set_hurried();
        assert!(alarm.is_hurried() && alarm.wait(Duration::from_secs(600)));
        assert!(!alarm.is_hurried(), "one look is enough");
    }

    #[test]
    fn watchdog_measures_between_ticks_when_woken_and_then_stops() {
        let (alarm, mut rounds) = (Alarm::default(), Vec::new());
        alarm.arm();
        alarm.ring(|round| {
            rounds.push(round);
            match rounds.len() {
                1 => {
                    alarm.set_hurried();
                    Some(Duration::MAX)
                }
                2..8 => Some(Duration::ZERO),
                _ => None,
            }
        });
        assert_eq!(rounds.len(), 8);
        assert!(rounds[1..].contains(&WatchdogTick::Between), "{rounds:?}");
    }
}
