//! The breaker: who has worker after worker stopped is slowed, and an endpoint whose own code does that is held for a while.
//!
//! A stop costs the host a process, and nobody pays for it. What a caller's input brought about is held against that caller,
//! at this endpoint and nowhere else: no caller closes a tool for others. It is the code's own doing where nothing but code
//! ran. Where several callers saw it, and none had an answer meanwhile, it may be: then the endpoint is held for each caller
//! that saw it, until somebody has an answer. Callers cost nothing, so that however many agree they prove nothing to others.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use tokio::time::Instant;

/// Callers that have to see an endpoint's runs stopped before it is taken for the code's own doing.
const CALLERS: usize = 3;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BreakerRules {
    /// Stops that open it, at least 1.
    pub(crate) kills: usize,
    /// The time they have to fall into.
    pub(crate) window: Duration,
    /// How long it stays open.
    pub(crate) hold: Duration,
}

/// What brought a stop about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing but what the endpoint's owner wrote.
    Code,
    /// That, and what the caller sent.
    Run,
}

/// Why an endpoint is closed to a caller, and for how long yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The endpoint is held: for all, or for those who saw its runs stopped.
    Held(Duration),
    /// The caller is slowed, for its own runs.
    Slowed(Duration),
}

/// Until when an endpoint is held.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// For whoever asks.
    OfCode(Instant),
    /// For those whose runs were stopped.
    OfRuns(Instant),
}

/// The recent stops of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    code: Recent,
    runs: Recent,
    /// Runs by who had asked for them.
    callers: HashMap<IpAddr, Recent>,
    /// When a call last came to an end of its own. Not kept where no call was stopped.
    answered: Option<Instant>,
    held: Option<Hold>,
}

/// The latest stops of one kind, oldest first, and no more of them than open a breaker.
#[derive(Debug, Default)]
struct Recent(VecDeque<Instant>);

impl Breaker {
    /// Notes a stop; true when this one holds the endpoint. A run without a caller is the host's own, and shows what the code does.
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
        } else if self.runs_show_the_code(rules, now) {
            Hold::OfRuns(now + rules.hold)
        } else {
            return false;
        };
        self.code.0.clear();
        self.runs.0.clear();
        // What only runs show shortens no hold for all.
        self.held = match self.held {
            Some(of_code @ Hold::OfCode(until)) if matches!(hold, Hold::OfRuns(_)) && left(until, now).is_some() => Some(of_code),
            _ => Some(hold),
        };
        true
    }

    /// Notes that a call came to an end of its own.
    pub(crate) fn note_answer(&mut self, now: Instant) {
        self.answered = Some(now);
        self.held = self.held.filter(|hold| matches!(hold, Hold::OfCode(_)));
    }

    /// Whether the endpoint is closed to `caller`, and why.
    pub(crate) fn closed_to(&self, caller: Option<IpAddr>, rules: &BreakerRules, now: Instant) -> Option<Closed> {
        let stops = caller.and_then(|caller| self.callers.get(&caller));
        let held = self.held.filter(|hold| match hold {
            Hold::OfCode(_) => true,
            Hold::OfRuns(_) => stops.is_some_and(|stops| stops.any_within(rules, now)),
        });
        held.and_then(|hold| hold.left(now)).map(Closed::Held).or_else(|| stops?.too_many_for(rules, now).map(Closed::Slowed))
    }

    /// How long the endpoint is held yet, if it is: for all, or for those who saw its runs stopped.
    pub(crate) fn held(&self, now: Instant) -> Option<Duration> {
        self.held?.left(now)
    }

    /// Whether there is nothing left to remember.
    pub(crate) fn is_forgotten(&mut self, rules: &BreakerRules, now: Instant) -> bool {
        self.callers.retain(|_, stops| !stops.is_forgotten(rules, now));
        self.callers.is_empty()
            && self.code.is_forgotten(rules, now)
            && self.runs.is_forgotten(rules, now)
            && self.held.is_none_or(|hold| hold.left(now).is_none())
    }

    #[cfg(test)]
    pub(crate) fn stopped_callers(&self) -> usize {
        self.callers.len()
    }

    /// Whether the runs of several callers are stopped, and none comes to another end.
    fn runs_show_the_code(&self, rules: &BreakerRules, now: Instant) -> bool {
        let is_recent = |at: &Instant| left(*at + rules.window, now).is_some();
        self.runs.too_many_for(rules, now).is_some()
            && !self.answered.as_ref().is_some_and(is_recent)
            && self.callers.values().filter(|stops| stops.any_within(rules, now)).nth(CALLERS - 1).is_some()
    }
}

impl Hold {
    /// How long it lasts yet, if it does.
    fn left(self, now: Instant) -> Option<Duration> {
        let (Self::OfCode(until) | Self::OfRuns(until)) = self;
        left(until, now)
    }
}

impl Recent {
    fn note(&mut self, rules: &BreakerRules, now: Instant) {
        self.0.push_back(now);
        if self.0.len() > rules.kills {
            self.0.pop_front();
        }
    }

    fn any_within(&self, rules: &BreakerRules, now: Instant) -> bool {
        self.0.back().is_some_and(|at| left(*at + rules.window, now).is_some())
    }

    /// How long there are too many yet, if there are.
    fn too_many_for(&self, rules: &BreakerRules, now: Instant) -> Option<Duration> {
        let oldest = self.0.front().filter(|_| self.0.len() >= rules.kills)?;
        left(*oldest + rules.window, now)
    }

    fn is_forgotten(&mut self, rules: &BreakerRules, now: Instant) -> bool {
        while self.0.front().is_some_and(|at| left(*at + rules.window, now).is_none()) {
            self.0.pop_front();
        }
        self.0.is_empty()
    }
}

/// How long it is `until` then, if it is not past.
fn left(until: Instant, now: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
}
