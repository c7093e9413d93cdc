//! How an exchange ended and whether its worker can be reused, judged from the worker's answer, the
//! watchdog's measurements and the bytes left on the wire.

use std::io;

use tollhouse_protocol::{LoadFault, Loaded, Outcome, Problem, Spent, StopReason, frame::FrameError};

use crate::{background::BackgroundEnd, budget::BudgetReport, call_account::Breach};

/// Proof that a call ended normally, so that its worker can serve another.
///
/// Invariant: a worker that overran any part of its budget never serves a second call. Only
/// [`end_of_load`] and [`ExchangeEnd::of`] create this proof. A leased worker is handed over or made idle
/// only with it, and the lease asserts the other conditions again before the next use.
#[derive(Debug)]
pub(crate) struct CleanEnd(());

/// The end of a call.
#[derive(Debug)]
pub(crate) struct ExchangeEnd {
    pub(crate) outcome: Outcome,
    pub(crate) spent: Spent,
    pub(crate) clean: Option<CleanEnd>,
    /// The answer before the end, if the call went on after it.
    pub(crate) answer: Option<Outcome>,
    /// Whether the work after the answer in `outcome` was not done.
    pub(crate) is_refused: bool,
}

impl ExchangeEnd {
    /// Compares the worker's answer, if any, with the measurements in `report`. `is_quiet` means that
    /// nothing of this call is left to read or write.
    pub(super) fn of(done: Result<(Outcome, Spent), Interruption>, report: &BudgetReport, ops: u64, is_quiet: bool) -> Self {
        let stopped = |reason| {
            let spent = checked_spent(report, Spent::default(), ops);
            Self { outcome: Outcome::Stopped(reason), spent, clean: None, answer: None, is_refused: false }
        };
        match (done, report.verdict.clone()) {
            (_, Some(verdict)) => stopped(verdict),
            (Ok((outcome, claim)), None) => {
                let is_clean = report.within && is_quiet && !matches!(outcome, Outcome::Stopped(_));
                let outcome = mismatch_if_unlisted(outcome);
                let (spent, clean) = (checked_spent(report, claim, ops), is_clean.then_some(CleanEnd(())));
                Self { outcome, spent, clean, answer: None, is_refused: false }
            }
            (Err(interruption), None) => stopped(interruption.reason()),
        }
    }

    #[cfg(test)]
    pub(crate) fn crashed() -> Self {
        let outcome = Outcome::Stopped(StopReason::Crashed);
        Self { outcome, spent: Spent::default(), clean: None, answer: None, is_refused: false }
    }

    /// Adds the answer before the end, and whether the work after an answer was refused.
    pub(super) fn after(self, answer: Option<Outcome>, is_refused: bool) -> Self {
        Self { answer, is_refused, ..self }
    }

    /// Splits the end into the call's answer and the end of the work after it.
    pub(crate) fn into_answer(self) -> (Outcome, Option<BackgroundEnd>) {
        match (self.answer, self.outcome) {
            (None, outcome) => (outcome, self.is_refused.then_some(BackgroundEnd::Refused)),
            (Some(answer), Outcome::Stopped(reason)) => (answer, Some(BackgroundEnd::Stopped(reason))),
            (Some(answer), _) => (answer, Some(BackgroundEnd::Done)),
        }
    }

    /// Replaces the outcome with the reason that the worker's exit status gives.
    pub(crate) fn with_reason(self, reason: StopReason) -> Self {
        Self { outcome: mismatch_if_unlisted(Outcome::Stopped(reason)), ..self }
    }
}

/// Turns a stop for a value that does not fit, whose worker ended before it could list the
/// problems, into an ordinary validation failure. It then counts against nobody.
fn mismatch_if_unlisted(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Stopped(StopReason::Unlisted { side }) => {
            Outcome::Invalid(side, vec![Problem { pointer: String::new(), message: "it does not match the schema".to_owned() }])
        }
        outcome => outcome,
    }
}

/// Returns the end of the load of a bundle, by the rules of [`ExchangeEnd::of`].
pub(super) fn end_of_load(
    answer: Result<Result<Loaded, LoadFault>, Interruption>,
    report: BudgetReport,
) -> Result<(Loaded, CleanEnd), LoadFault> {
    match (answer, report.verdict.clone()) {
        (_, Some(verdict)) => Err(LoadFault::Stopped(verdict)),
        (Ok(Ok(loaded)), None) => Ok((Loaded { spent: checked_spent(&report, loaded.spent, 0), checked: loaded.checked }, CleanEnd(()))),
        (Ok(Err(fault)), None) => Err(fault),
        (Err(interruption), None) => Err(LoadFault::Stopped(interruption.reason())),
    }
}

/// Why an exchange ended before its answer.
#[derive(Debug)]
pub(super) enum Interruption {
    /// The stream ended or failed.
    Gone,
    Breach(Breach),
}

impl From<io::Error> for Interruption {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<FrameError> for Interruption {
    fn from(_: FrameError) -> Self {
        Self::Breach(Breach::Protocol("a frame that cannot be decoded"))
    }
}

impl From<Breach> for Interruption {
    fn from(breach: Breach) -> Self {
        Self::Breach(breach)
    }
}

impl Interruption {
    fn reason(self) -> StopReason {
        match self {
            Self::Gone => StopReason::Crashed,
            Self::Breach(Breach::Limit(reason)) => reason,
            Self::Breach(Breach::Protocol(what)) => {
                tracing::warn!(breach = what, "worker broke the protocol");
                StopReason::Crashed
            }
        }
    }
}

/// Returns the worker's claim, corrected by the host's own measurements.
fn checked_spent(report: &BudgetReport, claim: Spent, ops: u64) -> Spent {
    let wall_us = u64::try_from(report.wall.as_micros()).unwrap_or(u64::MAX);
    let cpu_us = match report.cpu {
        // The host measures in steps of 10 ms, and only from its first measurement.
        Some(cpu) => u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX).max(claim.cpu_us.min(wall_us)),
        None => claim.cpu_us.min(wall_us),
    };
    Spent { cpu_us, wall_us, heap_bytes: claim.heap_bytes, ops }
}
