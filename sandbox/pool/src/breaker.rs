//! The breaker: who has worker after worker stopped is slowed, and an endpoint whose own code does that is held for a while.
//!
//! A stop costs the host a process, and nobody pays for it. What a caller's input brought about is held against that caller,
//! at this endpoint and nowhere else: no caller closes a tool for others. It is the code's own doing where nothing but code
//! ran, or where several callers saw it and none had an answer meanwhile.

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

/// For whom an endpoint is closed, and for how long yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    ToAll(Duration),
    ToCaller(Duration),
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
    held_until: Option<Instant>,
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
        let opens = self.code.too_many_for(rules, now).is_some() || self.runs_show_the_code(rules, now);
        if opens {
            self.code.0.clear();
            self.runs.0.clear();
            self.held_until = Some(now + rules.hold);
        }
        opens
    }

    /// Notes that a call came to an end of its own.
    pub(crate) fn note_answer(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// For whom the endpoint is closed, as far as that concerns `caller`.
    pub(crate) fn closed_to(&self, caller: Option<IpAddr>, rules: &BreakerRules, now: Instant) -> Option<Closed> {
        if let Some(left) = self.held_until.and_then(|until| left(until, now)) {
            return Some(Closed::ToAll(left));
        }
        self.callers.get(&caller?)?.too_many_for(rules, now).map(Closed::ToCaller)
    }

    /// Whether there is nothing left to remember.
    pub(crate) fn is_forgotten(&mut self, rules: &BreakerRules, now: Instant) -> bool {
        self.callers.retain(|_, stops| !stops.is_forgotten(rules, now));
        self.callers.is_empty()
            && self.code.is_forgotten(rules, now)
            && self.runs.is_forgotten(rules, now)
            && self.held_until.is_none_or(|until| left(until, now).is_none())
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
            && self.callers.values().filter(|stops| stops.0.back().is_some_and(is_recent)).nth(CALLERS - 1).is_some()
    }
}

impl Recent {
    fn note(&mut self, rules: &BreakerRules, now: Instant) {
        self.0.push_back(now);
        if self.0.len() > rules.kills {
            self.0.pop_front();
        }
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
