//! Consequences of a stop: how the pool counts it, and against whom.

use std::net::IpAddr;

use tollhouse_protocol::{LoadError, LoadFault, Outcome, Side, StopReason};

use crate::{breaker::Cause, core::Core, error::PoolError, exchange::ExchangeEnd, process::Process, status::count};

/// The endpoint of a call, and the caller to blame if the code is not at fault. `None` blames no
/// caller.
pub(crate) type Blame<'a> = (&'a str, Option<IpAddr>);

impl Core {
    /// Counts a call that ran on `process`.
    pub(crate) async fn note_end_on(&self, process: &Process, owner: Blame<'_>, ended: &ExchangeEnd) {
        let is_crash = matches!(ended.outcome, Outcome::Stopped(StopReason::Crashed));
        if is_crash && process.was_killed_externally().await {
            count(&self.counters.calls);
            count(&self.counters.crashes);
        } else {
            self.note_end(owner, ended);
        }
    }

    /// Counts a call that ran and was not ended from outside.
    pub(crate) fn note_end(&self, (endpoint, caller): Blame<'_>, ended: &ExchangeEnd) {
        count(&self.counters.calls);
        match &ended.outcome {
            Outcome::Stopped(reason) => {
                self.count_stop(reason);
                if counts_as_failure(reason) {
                    self.note_stop(endpoint, caller, Cause::Run);
                }
            }
            Outcome::Invalid(..) | Outcome::Returned(_) | Outcome::Threw(_) => {}
        }
    }

    fn count_stop(&self, reason: &StopReason) {
        count(if matches!(reason, StopReason::Crashed) { &self.counters.crashes } else { &self.counters.stops });
    }

    /// Records a stop, which can hold the endpoint or slow the caller.
    fn note_stop(&self, endpoint: &str, caller: Option<IpAddr>, cause: Cause) {
        if self.scheduler.note_stop(endpoint, caller, cause) {
            tracing::warn!(endpoint, "the tool is paused for a moment because it failed repeatedly");
        }
    }

    /// Returns the error of a call whose load on `process` failed.
    pub(crate) async fn load_error(&self, process: &Process, endpoint: &str, fault: LoadFault) -> PoolError {
        match fault {
            LoadFault::Handler(error) => PoolError::Load(error),
            LoadFault::Schema(fault) => PoolError::Schema(fault),
            LoadFault::Stopped(StopReason::Crashed) if process.was_killed_externally().await => {
                count(&self.counters.crashes);
                PoolError::Spawn("a worker was killed while it loaded a handler".into())
            }
            LoadFault::Stopped(reason) => {
                self.count_stop(&reason);
                // Only the owner's code was in the worker.
                self.note_stop(endpoint, None, Cause::Code);
                match reason {
                    StopReason::SchemaTime { .. } | StopReason::SchemaMemory { .. } => PoolError::Stopped(reason),
                    reason => PoolError::Load(LoadError { message: format!("while loading, {reason}"), line: None, column: None }),
                }
            }
        }
    }
}

/// Returns whether a stop counts against the endpoint or caller. Each stop costs a process, whatever
/// its reason. A stop in the input schema is not the code's fault.
fn counts_as_failure(reason: &StopReason) -> bool {
    match reason {
        StopReason::Crashed
        | StopReason::CpuTime { .. }
        | StopReason::WallTime { .. }
        | StopReason::Memory { .. }
        | StopReason::OutputSize { .. }
        | StopReason::OutputDepth { .. }
        | StopReason::Ops { .. }
        | StopReason::Deadlock => true,
        StopReason::SchemaTime { side, .. } | StopReason::SchemaMemory { side, .. } => *side == Side::Output,
        // The pool has turned it into a validation failure before.
        StopReason::Unlisted { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{PoolConfig, scheduler::AdmissionRequest};

    /// Returns the counters and whether the endpoint is held, after `weigh` reported a worker that
    /// ran `script` and ended.
    async fn count_weighted(script: &str, weigh: impl AsyncFnOnce(&Core, &Process)) -> ([u64; 3], bool) {
        let core = Core::new(PoolConfig { breaker_kills: 1, ..PoolConfig::new("/bin/false") }).unwrap();
        let (process, _theirs) = Process::standin_that(script);
        process.wait_for_exit().await;
        weigh(&core, &process).await;
        let counts_as_failure =
            [&core.counters.calls, &core.counters.stops, &core.counters.crashes].map(|count| count.load(Ordering::Relaxed));
        let held = core.scheduler.acquire(AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 }).await.is_err();
        (counts_as_failure, held)
    }

    #[tokio::test]
    async fn killed_worker_counts_against_nobody() {
        for (script, from_outside) in [("kill -9 $$", true), ("kill -SEGV $$", false), ("exit 1", false)] {
            let call =
                count_weighted(script, async |core, process| core.note_end_on(process, ("x", None), &ExchangeEnd::crashed()).await).await;
            assert_eq!(call, ([1, 0, 1], !from_outside), "{script}");
            let load = count_weighted(script, async |core, process| {
                let error = core.load_error(process, "x", LoadFault::Stopped(StopReason::Crashed)).await;
                assert_eq!((matches!(error, PoolError::Spawn(_)), matches!(error, PoolError::Load(_))), (from_outside, !from_outside));
            });
            assert_eq!(load.await, ([0, 0, 1], !from_outside), "{script}");
        }
    }

    #[tokio::test]
    async fn call_with_another_outcome_keeps_it() {
        let limit = StopReason::Deadlock;
        let ended = || ExchangeEnd { outcome: Outcome::Stopped(limit.clone()), ..ExchangeEnd::crashed() };
        let call = count_weighted("kill -9 $$", async |core, process| core.note_end_on(process, ("x", None), &ended()).await);
        assert_eq!(call.await, ([1, 1, 0], true));
    }
}
