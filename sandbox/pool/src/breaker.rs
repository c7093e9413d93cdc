//! The breaker: an endpoint whose workers are killed again and again is held for a while.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BreakerRules {
    /// Kills that open it, at least 1.
    pub(crate) kills: usize,
    /// The time they have to fall into.
    pub(crate) window: Duration,
    /// How long it stays open.
    pub(crate) hold: Duration,
}

/// The recent kills of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    kills: VecDeque<Instant>,
    held_until: Option<Instant>,
}

impl Breaker {
    /// Notes a kill; true when this one opens the breaker.
    pub(crate) fn note_kill(&mut self, rules: &BreakerRules, now: Instant) -> bool {
        self.forget_old(rules, now);
        self.kills.push_back(now);
        if self.kills.len() < rules.kills {
            return false;
        }
        self.kills.clear();
        self.held_until = Some(now + rules.hold);
        true
    }

    /// How long the endpoint is held yet, if it is.
    pub(crate) fn held_for(&self, now: Instant) -> Option<Duration> {
        let left = self.held_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Whether there is nothing left to remember.
    pub(crate) fn is_forgotten(&mut self, rules: &BreakerRules, now: Instant) -> bool {
        self.forget_old(rules, now);
        self.kills.is_empty() && self.held_for(now).is_none()
    }

    fn forget_old(&mut self, rules: &BreakerRules, now: Instant) {
        while self.kills.front().is_some_and(|at| now.saturating_duration_since(*at) >= rules.window) {
            self.kills.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerRules = BreakerRules { kills: 5, window: Duration::from_secs(60), hold: Duration::from_secs(60) };

    #[test]
    fn fifth_kill_in_a_minute_holds_for_a_minute() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for second in 0..4 {
            assert!(!breaker.note_kill(&RULES, start + Duration::from_secs(second)));
        }
        let fifth = start + Duration::from_secs(59);
        assert_eq!(breaker.held_for(fifth), None);
        assert!(breaker.note_kill(&RULES, fifth));
        assert_eq!(breaker.held_for(fifth), Some(Duration::from_secs(60)));
        assert_eq!(breaker.held_for(fifth + Duration::from_secs(60)), None);
    }

    #[test]
    fn kills_further_apart_than_the_window_never_hold() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for minute in 0..20 {
            assert!(!breaker.note_kill(&RULES, start + Duration::from_secs(minute * 15)));
        }
        let last = start + Duration::from_secs(19 * 15);
        assert!(!breaker.is_forgotten(&RULES, last + Duration::from_secs(59)));
        assert!(breaker.is_forgotten(&RULES, last + Duration::from_secs(60)));
    }

    #[test]
    fn breaker_is_not_forgotten_while_it_holds() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        assert_eq!((0..5).filter(|_| breaker.note_kill(&RULES, start)).count(), 1);
        assert!(!breaker.is_forgotten(&RULES, start + Duration::from_secs(59)));
        assert!(breaker.is_forgotten(&RULES, start + Duration::from_secs(60)));
    }
}
