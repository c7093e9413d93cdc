//! Circuit breaker: slows a caller whose runs keep being stopped, and holds an endpoint whose own
//! code keeps being stopped.
//!
//! Each stop costs the host a process that nobody pays for. A stop that a caller's input caused
//! counts against that caller at this endpoint only, so no caller can close a tool for others. If
//! no input was involved, the code is at fault. If several callers saw stops and none got an answer
//! meanwhile, the code may be at fault: the endpoint is then held for each of these callers until
//! anybody gets an answer. Callers cost nothing to create, so stops of many callers are no reason
//! to hold the endpoint for others.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use tokio::time::Instant;

/// Number of callers whose runs must be stopped before the code is suspected.
const CALLERS: usize = 3;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BreakerRules {
    /// Stops that open the breaker, at least 1.
    pub(crate) stops: usize,
    /// The time window for these stops.
    pub(crate) window: Duration,
    /// Time for which the breaker stays open.
    pub(crate) hold: Duration,
}

/// The cause of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The owner's code alone.
    Code,
    /// The owner's code with a caller's input.
    Run,
}

/// Why an endpoint is closed to a caller, with the time that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The endpoint is held, either for everybody or for the callers whose runs were stopped.
    Held(Duration),
    /// The caller is slowed because of its own runs.
    Slowed(Duration),
}

/// A hold on an endpoint, with its end.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// For everybody.
    OfCode(Instant),
    /// For the callers whose runs were stopped.
    OfRuns(Instant),
}

/// The recent stops of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    code: Recent,
    runs: Recent,
    /// Stopped runs by caller.
    callers: HashMap<IpAddr, Recent>,
    /// When a call last ended normally. Not recorded unless a call was stopped before.
    answered: Option<Instant>,
    held: Option<Hold>,
}

/// The latest stops of one kind, oldest first. Holds at most as many as open a breaker.
#[derive(Debug, Default)]
struct Recent(VecDeque<Instant>);

impl Breaker {
    /// Records a stop. Returns true if this stop makes the endpoint held. A run without a caller is
    /// the host's own and counts against the code.
    pub(crate) fn note_stop(&mut self, cause: Cause, caller: Option<IpAddr>, rules: &BreakerRules, now: Instant) -> bool {
        match (cause, caller) {
            (Cause::Code, _) | (Cause::Run, None) => self.code.note(rules, now),
            (Cause::Run, Some(caller)) => {
                self.callers.entry(caller).or_default().note(rules, now);
                self.runs.note(rules, now);
            }
        }
        let hold = if self.code.too_many_for(rules, now).is_some() {
            Hold::OfCode(now + rules.hold)
        } else if self.blames_code(rules, now) {
            Hold::OfRuns(now + rules.hold)
        } else {
            return false;
        };
        self.code.0.clear();
        self.runs.0.clear();
        // A hold for some callers does not shorten a hold for everybody.
        self.held = match self.held {
            Some(of_code @ Hold::OfCode(until)) if matches!(hold, Hold::OfRuns(_)) && remaining(until, now).is_some() => Some(of_code),
            _ => Some(hold),
        };
        true
    }

    /// Records that a call ended normally.
    pub(crate) fn note_answer(&mut self, now: Instant) {
        self.answered = Some(now);
        self.held = self.held.filter(|hold| matches!(hold, Hold::OfCode(_)));
    }

    /// Returns whether the endpoint is closed to `caller`, and why.
    pub(crate) fn closed_to(&self, caller: Option<IpAddr>, rules: &BreakerRules, now: Instant) -> Option<Closed> {
        let stops = caller.and_then(|caller| self.callers.get(&caller));
        let held = self.held.filter(|hold| match hold {
            Hold::OfCode(_) => true,
            Hold::OfRuns(_) => stops.is_some_and(|stops| stops.has_stops_within(rules, now)),
        });
        held.and_then(|hold| hold.remaining(now)).map(Closed::Held).or_else(|| stops?.too_many_for(rules, now).map(Closed::Slowed))
    }

    /// Returns how much longer the endpoint is held, for everybody or for the callers whose runs
    /// were stopped.
    pub(crate) fn held(&self, now: Instant) -> Option<Duration> {
        self.held?.remaining(now)
    }

    /// Returns whether there is nothing left to remember.
    pub(crate) fn is_expired(&mut self, rules: &BreakerRules, now: Instant) -> bool {
        self.callers.retain(|_, stops| !stops.is_expired(rules, now));
        self.callers.is_empty()
            && self.code.is_expired(rules, now)
            && self.runs.is_expired(rules, now)
            && self.held.is_none_or(|hold| hold.remaining(now).is_none())
    }

    #[cfg(test)]
    pub(crate) fn stopped_callers(&self) -> usize {
        self.callers.len()
    }

    /// Returns whether runs of several callers were stopped and no call ended normally in the
    /// window.
    fn blames_code(&self, rules: &BreakerRules, now: Instant) -> bool {
        let is_recent = |at: &Instant| remaining(*at + rules.window, now).is_some();
        self.runs.too_many_for(rules, now).is_some()
            && !self.answered.as_ref().is_some_and(is_recent)
            && self.callers.values().filter(|stops| stops.has_stops_within(rules, now)).nth(CALLERS - 1).is_some()
    }
}

impl Hold {
    /// Returns the time left of this hold, or `None` if it is over.
    fn remaining(self, now: Instant) -> Option<Duration> {
        let (Self::OfCode(until) | Self::OfRuns(until)) = self;
        remaining(until, now)
    }
}

impl Recent {
    fn note(&mut self, rules: &BreakerRules, now: Instant) {
        self.0.push_back(now);
        if self.0.len() > rules.stops {
            self.0.pop_front();
        }
    }

    fn has_stops_within(&self, rules: &BreakerRules, now: Instant) -> bool {
        self.0.back().is_some_and(|at| remaining(*at + rules.window, now).is_some())
    }

    /// Returns how much longer there are too many stops, or `None` if there are not.
    fn too_many_for(&self, rules: &BreakerRules, now: Instant) -> Option<Duration> {
        let oldest = self.0.front().filter(|_| self.0.len() >= rules.stops)?;
        remaining(*oldest + rules.window, now)
    }

    fn is_expired(&mut self, rules: &BreakerRules, now: Instant) -> bool {
        while self.0.front().is_some_and(|at| remaining(*at + rules.window, now).is_none()) {
            self.0.pop_front();
        }
        self.0.is_empty()
    }
}

/// Returns the time left until `until`, or `None` if it has passed.
fn remaining(until: Instant, now: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(now)).filter(|remaining| !remaining.is_zero())
}
