//! Detects jumps of the wall clock by means of the monotonic clock.
//!
//! A dead battery, a wrong time server or an operator can move a machine's clock by days for a moment. Everything that
//! expires by age would then be removed for good. So nothing is removed by age soon after a jump.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    clock::{Clock, Timestamp},
    lock::Lock,
};

/// How far the wall clock may differ from the monotonic clock between two checks.
const TOLERANCE: Duration = Duration::from_secs(60);

/// How long a clock must run steadily after a jump before its time is trusted.
const BELIEVED_AFTER: Duration = Duration::from_secs(60 * 60);

/// How far a clock can advance after it was last known to be right, until its time is doubted.
const DOUBTED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A wall clock and whether it runs steadily. It must be checked more than once an hour.
#[derive(Debug)]
pub struct Steadiness {
    clock: Clock,
    state: Lock<State>,
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
        Self { clock, state: Lock::new(State { steady, jumped: None }) }
    }

    /// Doubts the clock if it has advanced more than a day since `before`, when it was last known to be right. Either
    /// the machine was off that long, or its clock is wrong. The clock is trusted again after an hour.
    pub fn unsteady_since(&self, before: Timestamp) {
        let now = ClockReading { wall: self.clock.now(), at: Instant::now() };
        if now.wall.0.saturating_sub(before.0) > u64::try_from(DOUBTED_AFTER.as_millis()).unwrap_or(u64::MAX) {
            let steady = ClockReading { wall: before, at: now.at };
            *self.state.lock() = State { steady, jumped: Some((now, now)) };
        }
    }

    /// Checks the clock. Returns whether it ran steadily since the last check, or for an hour since it jumped.
    pub fn is_steady(&self) -> bool {
        let now = ClockReading { wall: self.clock.now(), at: Instant::now() };
        let mut state = self.state.lock();
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
                    "this machine's clock has jumped: nothing is removed because of its age until the clock is back, or has run on for an hour"
                );
                state.jumped = Some((now, now));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
