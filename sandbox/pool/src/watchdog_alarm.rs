//! Timing of the watchdog thread, which inspects workers only while a budget is in force.

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
pub(crate) enum WatchdogRound {
    /// Measures everything.
    Tick,
    /// Measures only the memory of processes that are near their limit.
    Between,
}

/// Counts the budgets in force. Wakes the watchdog for the first budget, and when a process must be
/// measured soon.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    armed: AtomicUsize,
    state: Mutex<AlarmState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct AlarmState {
    /// Whether the watchdog waits for the first budget.
    awaits_first: bool,
    is_woken: bool,
    is_stopped: bool,
}

impl Alarm {
    /// Calls `inspect` every [`TICK`] while any budget is in force. `inspect` returns the time until
    /// an earlier round, if it needs one. Returns when the alarm is [stopped](Self::stop).
    pub(crate) fn run(&self, mut inspect: impl FnMut(WatchdogRound) -> Option<Duration>) {
        let mut rounds = TickSchedule::from(Instant::now());
        loop {
            if self.wait_for_first() {
                rounds = TickSchedule::from(Instant::now());
            }
            if !self.wait(rounds.timeout(Instant::now())) {
                return;
            }
            let Some(soonest) = inspect(rounds.next(Instant::now())) else { return };
            rounds.soonest = soonest;
        }
    }

    /// Stops the thread in [`run`](Self::run).
    pub(crate) fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// Waits until a budget is in force. Returns false if one already is.
    fn wait_for_first(&self) -> bool {
        let mut state = self.state();
        state.awaits_first = true;
        let waits = |state: &mut AlarmState| !state.is_stopped && !self.is_armed();
        let waited = waits(&mut state);
        let mut state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        state.awaits_first = false;
        waited
    }

    /// Waits for `timeout`, or until a round is urgent. Returns false when the alarm is stopped.
    fn wait(&self, timeout: Duration) -> bool {
        let quiet = |state: &mut AlarmState| state.is_quiet();
        let (mut state, _) = self.changed.wait_timeout_while(self.state(), timeout, quiet).unwrap_or_else(PoisonError::into_inner);
        state.is_woken = false;
        !state.is_stopped
    }

    /// Records that a budget came into force.
    pub(crate) fn arm(&self) {
        if self.armed.fetch_add(1, Ordering::AcqRel) == 0 {
            self.notify_first();
        }
    }

    fn notify_first(&self) {
        if self.state().awaits_first {
            self.changed.notify_one();
        }
    }

    /// Records that a budget ended.
    pub(crate) fn disarm(&self) {
        self.armed.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests a round now, which determines when the next one is due.
    pub(crate) fn wake(&self) {
        self.state().is_woken = true;
        self.changed.notify_one();
    }

    /// Returns whether any budget is in force.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire) > 0
    }

    fn state(&self) -> MutexGuard<'_, AlarmState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AlarmState {
    fn is_quiet(&self) -> bool {
        !self.is_stopped && !self.is_woken
    }
}

/// The schedule of the watchdog's rounds.
#[derive(Debug)]
struct TickSchedule {
    tick: Instant,
    /// The interval that the last check requested.
    soonest: Duration,
}

impl TickSchedule {
    fn from(now: Instant) -> Self {
        Self { tick: now + TICK, soonest: Duration::MAX }
    }

    fn timeout(&self, now: Instant) -> Duration {
        self.soonest.min(self.tick.saturating_duration_since(now))
    }

    fn next(&mut self, now: Instant) -> WatchdogRound {
        if now < self.tick {
            return WatchdogRound::Between;
        }
        self.tick = now + TICK;
        WatchdogRound::Tick
    }
}

#[cfg(test)]
impl Alarm {
    pub(crate) fn is_woken(&self) -> bool {
        self.state().is_woken
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{park_timeout, scope};

    use super::*;

    /// Silences an alarm when dropped, also if the test fails.
    struct StopGuard<'a>(&'a Alarm);

    impl Drop for StopGuard<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }

    #[test]
    fn watchdog_runs_only_while_a_budget_is_in_force() {
        let (alarm, checks) = (Alarm::default(), AtomicUsize::new(0));
        let look = |_| {
            checks.fetch_add(1, Ordering::Relaxed);
            Some(Duration::MAX)
        };
        scope(|scope| {
            scope.spawn(|| alarm.run(look));
            let _silenced = StopGuard(&alarm);
            let in_a_while = || {
                let before = checks.load(Ordering::Relaxed);
                park_timeout(4 * TICK);
                checks.load(Ordering::Relaxed) - before
            };
            // The last check can come late.
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
        assert_eq!(rounds.next(started + TICK - instant), WatchdogRound::Between);
        assert_eq!(rounds.next(started + TICK), WatchdogRound::Tick);
        assert_eq!(rounds.next(started + TICK), WatchdogRound::Between);
        assert_eq!(rounds.next(started + 9 * TICK), WatchdogRound::Tick);
        rounds.soonest = Duration::MAX;
        assert_eq!(rounds.timeout(started + 9 * TICK), TICK, "missed ticks are skipped");
    }

    #[test]
    fn alarm_waits_until_it_is_woken_or_stopped() {
        let quiet = |is_stopped, is_woken| AlarmState { is_stopped, is_woken, ..AlarmState::default() }.is_quiet();
        assert_eq!([quiet(false, false), quiet(false, true), quiet(true, false), quiet(true, true)], [true, false, false, false]);
        let alarm = Alarm::default();
        alarm.wake();
        assert!(alarm.is_woken() && alarm.wait(Duration::from_secs(600)));
        assert!(!alarm.is_woken(), "one round is enough");
    }

    #[test]
    fn watchdog_measures_between_ticks_when_woken_and_then_stops() {
        let (alarm, mut rounds) = (Alarm::default(), Vec::new());
        alarm.arm();
        alarm.run(|round| {
            rounds.push(round);
            match rounds.len() {
                1 => {
                    alarm.wake();
                    Some(Duration::MAX)
                }
                2..8 => Some(Duration::ZERO),
                _ => None,
            }
        });
        assert_eq!(rounds.len(), 8);
        assert!(rounds[1..].contains(&WatchdogRound::Between), "{rounds:?}");
    }
}
