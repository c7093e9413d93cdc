//! Runs that fail again and again. Nobody pays for them, so whoever makes them waits, by payer and by tool; a run that is
//! paid for makes up for all that failed before.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use crate::{
    base::penalty::{Penalties, WINDOW},
    tool::Slug,
};

/// Longest time until failed runs are forgiven, however many failed at once.
const LONGEST: Duration = WINDOW.saturating_mul(2);

/// Runs that may fail in a minute before further ones wait; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRuns {
    /// Of one payer, of whatever tools. Default: 30.
    pub of_payer: Option<NonZeroU32>,
    /// Of one tool, of all payers together: beyond, those wait who made some of them, and nobody else. Default: 300.
    pub of_tool: Option<NonZeroU32>,
}

impl Default for FailedRuns {
    fn default() -> Self {
        Self { of_payer: NonZeroU32::new(30), of_tool: NonZeroU32::new(300) }
    }
}

/// A payer's runs have failed too often.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("more than {most} runs {of} failed in a minute, and nobody paid for them; a run that succeeds makes up for it")]
pub struct Slowed {
    /// Whose they are, in words.
    of: String,
    /// How many there may be in a minute.
    pub most: NonZeroU32,
    /// Until one of them is forgiven.
    pub wait: Duration,
}

impl Slowed {
    /// What `most` is for.
    pub const WINDOW: Duration = WINDOW;
}

/// Who runs what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    /// An address, or the id of a credit.
    pub(super) payer: String,
    pub(super) tool: Slug,
}

/// The failed runs of payers and tools.
#[derive(Debug)]
pub(super) struct Slow {
    payers: Option<Penalties<String>>,
    tools: Option<Penalties<Slug>>,
    /// Whose runs of what have failed, whether they wait for it or not.
    failed: Penalties<(String, Slug)>,
}

impl Slow {
    pub(super) fn new(most: FailedRuns) -> Self {
        let failed = Penalties::new(NonZeroU32::MIN, LONGEST);
        Self {
            payers: most.of_payer.map(|most| Penalties::new(most, LONGEST)),
            tools: most.of_tool.map(|most| Penalties::new(most, LONGEST)),
            failed,
        }
    }

    /// Whether a run may begin.
    pub(super) fn check(&self, running: &Running) -> Result<(), Slowed> {
        self.check_at(running, Instant::now())
    }

    fn check_at(&self, running: &Running, now: Instant) -> Result<(), Slowed> {
        let Running { payer, tool } = running;
        if let Some((payers, wait)) = self.payers.as_ref().and_then(|payers| Some((payers, payers.wait(payer, now)?))) {
            return Err(Slowed { of: "of yours".to_owned(), most: payers.per_minute(), wait });
        }
        // Who has nothing to do with it does not wait: no payer shuts a tool for others.
        if let Some((tools, wait)) = self.tools.as_ref().and_then(|tools| Some((tools, tools.wait(tool, now)?)))
            && self.failed.has_failed(&(payer.clone(), tool.clone()), now)
        {
            return Err(Slowed { of: format!("of `{tool}`, some of them yours,"), most: tools.per_minute(), wait });
        }
        Ok(())
    }

    /// A run was not paid for.
    pub(super) fn failed(&self, running: &Running) {
        self.failed_at(running, Instant::now());
    }

    fn failed_at(&self, running: &Running, now: Instant) {
        let Running { payer, tool } = running;
        if let Some(payers) = &self.payers {
            payers.count(payer.clone(), now);
        }
        if let Some(tools) = &self.tools {
            tools.count(tool.clone(), now);
            self.failed.count((payer.clone(), tool.clone()), now);
        }
    }

    /// A run was paid for.
    pub(super) fn paid(&self, Running { payer, tool }: Running) {
        if let Some(payers) = &self.payers {
            payers.forgive(&payer);
        }
        if let Some(tools) = &self.tools {
            tools.forgive(&tool);
            self.failed.forgive(&(payer, tool));
        }
    }

    /// Forgets what is forgiven, so that memory stays flat.
    pub(super) fn forget_quiet(&self) {
        if let Some(payers) = &self.payers {
            payers.forget_quiet();
        }
        if let Some(tools) = &self.tools {
            tools.forget_quiet();
        }
        self.failed.forget_quiet();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(of_payer: u32, of_tool: u32) -> Slow {
        Slow::new(FailedRuns { of_payer: NonZeroU32::new(of_payer), of_tool: NonZeroU32::new(of_tool) })
    }

    fn running(payer: &str, tool: &str) -> Running {
        Running { payer: payer.to_owned(), tool: tool.parse().unwrap() }
    }

    #[test]
    fn a_payer_whose_runs_fail_waits_whatever_the_tool_and_one_that_is_paid_makes_up_for_them() {
        let (slow, now) = (slow(3, 0), Instant::now());
        for tool in ["one", "two", "three"] {
            assert_eq!(slow.check_at(&running("a", tool), now), Ok(()));
            slow.failed_at(&running("a", tool), now);
        }
        let slowed = slow.check_at(&running("a", "four"), now).unwrap_err();
        assert_eq!((slowed.most.get(), slowed.wait), (3, Duration::from_secs(20)));
        assert_eq!(slow.check_at(&running("b", "one"), now), Ok(()));
        assert_eq!(slow.check_at(&running("a", "four"), now + Duration::from_secs(20)), Ok(()));
        slow.paid(running("a", "one"));
        assert_eq!(slow.check_at(&running("a", "four"), now), Ok(()));
    }

    #[test]
    fn payers_of_a_tool_that_fails_wait_and_nobody_else_does() {
        let (slow, now) = (slow(0, 4), Instant::now());
        for payer in ["a", "b", "c", "d"] {
            slow.failed_at(&running(payer, "one"), now);
        }
        assert_eq!(slow.check_at(&running("a", "one"), now).unwrap_err().wait, Duration::from_secs(15));
        assert_eq!(slow.check_at(&running("e", "one"), now), Ok(()), "who has made none of them");
        assert_eq!(slow.check_at(&running("a", "two"), now), Ok(()), "another tool");
        slow.paid(running("e", "one"));
        assert_eq!(slow.check_at(&running("a", "one"), now), Ok(()), "it works after all");
    }

    #[test]
    fn without_limits_nobody_waits_and_nothing_is_remembered() {
        let (slow, now) = (slow(0, 0), Instant::now());
        (0..1_000).for_each(|_| slow.failed_at(&running("a", "one"), now));
        assert_eq!(slow.check_at(&running("a", "one"), now), Ok(()));
        assert!(!slow.failed.has_failed(&("a".to_owned(), "one".parse().unwrap()), now));
    }

    #[test]
    fn however_much_fails_at_once_the_wait_is_about_a_minute() {
        let (slow, now) = (slow(20, 0), Instant::now());
        (0..10_000).for_each(|_| slow.failed_at(&running("a", "one"), now));
        assert_eq!(slow.check_at(&running("a", "one"), now).unwrap_err().wait, Duration::from_secs(63));
    }

    #[test]
    fn who_is_forgiven_is_forgotten() {
        let (slow, both) = (slow(1, 1), running("a", "one"));
        let long_ago = Instant::now().checked_sub(2 * LONGEST).unwrap();
        slow.failed_at(&both, long_ago);
        slow.forget_quiet();
        assert_eq!(slow.check_at(&both, long_ago), Ok(()), "neither the payer nor the tool");
        assert!(!slow.failed.has_failed(&("a".to_owned(), "one".parse().unwrap()), long_ago));
    }
}
