//! Detects jumps of the wall clock by means of the monotonic clock.
//!
//! A dead battery, a wrong time server or an operator can move a machine's clock by days for a moment. Everything that
//! expires by age would then be removed for good. So nothing is removed by age soon after a jump.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::clock::{Clock, Timestamp};

/// How far the wall clock may differ from the monotonic clock between two checks.
const TOLERANCE: Duration = Duration::from_secs(60);

/// How long a clock must run steadily after a jump before its time is trusted.
const BELIEVED_AFTER: Duration = Duration::from_secs(60 * 60);

/// How far a clock may have advanced since it was last known to be right before it is doubted.
const DOUBTED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A wall clock and whether it runs steadily. It must be checked more than once an hour.
#[derive(Debug)]
pub struct Steadiness {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The last check at which the clock ran steadily.
    steady: ClockReading,
    /// The first and the last check since the clock jumped.
    jumped: Option<(ClockReading, ClockReading)>,
}

#[derive(Debug, Clone, Copy)]
struct ClockReading {
    wall: Timestamp,
    at: Instant,
}

impl ClockReading {
    fn leads_to(self, next: Self) -> bool {
        let outcome = u64::try_from((next.at - self.at).as_millis()).unwrap_or(u64::MAX);
        u128::from(self.wall.plus_millis(outcome).0.abs_diff(next.wall.0)) <= TOLERANCE.as_millis()
    }
}

impl Steadiness {
    /// Watches `clock`, which is assumed to be right now.
    #[must_use]
    pub fn of(clock: Clock) -> Self {
        let steady = ClockReading { wall: clock.now(), at: Instant::now() };
        Self { clock, state: Mutex::new(State { steady, jumped: None }) }
    }

    /// Doubts the clock if it has advanced more than a day since `before`, when it was last known to be right. Either
    /// the machine was off that long, or its clock is wrong. The clock is trusted again after an hour.
    pub fn unsteady_since(&self, before: Timestamp) {
        let now = ClockReading { wall: self.clock.now(), at: Instant::now() };
        if now.wall.0.saturating_sub(before.0) > u64::try_from(DOUBTED_AFTER.as_millis()).unwrap_or(u64::MAX) {
            let steady = ClockReading { wall: before, at: now.at };
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State { steady, jumped: Some((now, now)) };
        }
    }

    /// Checks the clock. Returns whether it ran steadily since the last check, or for an hour since it jumped.
    pub fn is_steady(&self) -> bool {
        let now = ClockReading { wall: self.clock.now(), at: Instant::now() };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.steady.leads_to(now) {
            if state.jumped.take().is_some() {
                tracing::info!("this machine's clock is where it was before it jumped");
            }
            state.steady = now;
            return true;
        }
        match state.jumped {
            Some((first, last)) if last.leads_to(now) => {
                if now.at - first.at >= BELIEVED_AFTER {
                    *state = State { steady: now, jumped: None };
                    return true;
                }
                state.jumped = Some((first, now));
            }
            _ => {
                tracing::warn!(
                    before = %state.steady.wall,
                    now = %now.wall,
                    "this machine's clock has jumped: nothing is removed for its age until it is back, or has gone on from there for an hour"
                );
                state.jumped = Some((now, now));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const DAY: u64 = 24 * 60 * 60;

    /// Advances both clocks by `secs`.
    async fn tick(clock: &Clock, secs: u64) {
        tokio::time::advance(Duration::from_secs(secs)).await;
        clock.set(clock.now().plus_millis(secs * 1_000));
    }

    fn jump(clock: &Clock, secs: i64) {
        clock.set(Timestamp(clock.now().0.saturating_add_signed(secs * 1_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn clock_that_jumps_for_a_moment_is_not_believed() {
        let clock = Clock::fixed(NOW);
        let steadiness = Steadiness::of(clock.clone());
        for _ in 0..100 {
            tick(&clock, 5).await;
            jump(&clock, 1);
            assert!(steadiness.is_steady(), "time servers slew it");
        }
        jump(&clock, 8 * DAY as i64);
        for _ in 0..2 {
            assert!(!steadiness.is_steady());
            tick(&clock, 5).await;
        }
        jump(&clock, -8 * DAY as i64);
        assert!(steadiness.is_steady(), "it is back");
        jump(&clock, -(DAY as i64));
        assert!(!steadiness.is_steady(), "behind as well as ahead");
    }

    #[tokio::test(start_paused = true)]
    async fn clock_that_is_put_right_is_believed_after_an_hour() {
        let clock = Clock::fixed(NOW);
        let steadiness = Steadiness::of(clock.clone());
        jump(&clock, 30 * DAY as i64);
        let mut minutes = 0;
        while !steadiness.is_steady() {
            tick(&clock, 60).await;
            minutes += 1;
            assert!(minutes <= 60);
        }
        assert_eq!(minutes, 60);
        jump(&clock, DAY as i64);
        assert!(!steadiness.is_steady());
        tick(&clock, 3_000).await;
        assert!(!steadiness.is_steady());
        jump(&clock, DAY as i64);
        tick(&clock, 3_000).await;
        assert!(!steadiness.is_steady(), "another jump begins another hour");
    }

    #[tokio::test(start_paused = true)]
    async fn clock_that_a_start_finds_far_ahead_is_believed_after_an_hour_or_once_it_is_back() {
        let clock = Clock::fixed(NOW);
        let steadiness = Steadiness::of(clock.clone());
        steadiness.unsteady_since(Timestamp(NOW.0 - 1_000 * DAY + 1));
        assert!(steadiness.is_steady(), "it is no more than a day");
        steadiness.unsteady_since(Timestamp(NOW.0 - 8 * DAY * 1_000));
        assert!(!steadiness.is_steady());
        tick(&clock, 3_599).await;
        assert!(!steadiness.is_steady());
        tick(&clock, 1).await;
        assert!(steadiness.is_steady());
        steadiness.unsteady_since(Timestamp(clock.now().0 - 8 * DAY * 1_000));
        jump(&clock, -8 * DAY as i64);
        assert!(steadiness.is_steady());
    }
}
