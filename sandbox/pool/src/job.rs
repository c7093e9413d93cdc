//! The jobs of a pool and their results.

use std::{net::IpAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tollhouse_protocol::{Bundle, Isolation, LogLine, OpFailure, OpRequest, OpValue, Outcome, ProgressMessage, Spent, Start, Tier};

use crate::background::BackgroundEnd;

/// The host's side of a running call. There is one value per call, which holds the call's grants.
pub trait OpHost: Send + Sync {
    /// Performs or refuses one op. The future is dropped when the call is stopped, or ends without
    /// waiting for the op.
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>>;
    /// Called when the call has a worker with its handler loaded. `cold`: for this call. Must not
    /// block.
    fn placed(&self, _cold: bool) {}
    /// Called when the handler has answered, but the call goes on with the work that it passed to
    /// `ctx.waitUntil`. [`CompletedRun`] follows at its end. Must not block.
    fn answered(&self, _outcome: Outcome, _spent: Spent) {}
    /// Called when the input is valid and the handler starts, only for calls that were
    /// [announced](Start::announced). Must not block.
    fn started(&self) {}
    /// Receives a log line, already counted and cut to the limits. Must not block.
    fn log(&self, line: LogLine);
    /// Receives a progress message for the caller, already counted and cut to the limits. Must not
    /// block.
    fn progress(&self, message: ProgressMessage);
    /// Receives processor time that the call used since the last report: the start and load of a
    /// worker if none was ready, then the run. Also called if the call's future is dropped.
    fn used(&self, cpu: Duration);
}

/// One call, ready to run.
pub struct Job<'a> {
    /// The code that answers the call, and the schemas that validate it.
    pub bundle: &'a Arc<Bundle>,
    /// The owner whose slots this call uses, for fairness.
    pub owner: &'a str,
    /// The endpoint whose concurrency limit and breaker apply.
    pub endpoint: &'a str,
    /// The caller's address, for limits per caller. `None` means the host itself.
    pub caller: Option<IpAddr>,
    /// Whether the caller is the owner. A stop then counts against the code only.
    pub by_owner: bool,
    /// The processes that can serve the call.
    pub isolation: Isolation,
    /// How the process runs its code.
    pub tier: Tier,
    /// Maximum number of concurrent calls of this endpoint.
    pub concurrency: usize,
    /// The message that starts the call on the worker.
    pub start: Start,
}

/// The result of a call that ran to its end, whatever the end.
#[derive(Debug)]
pub struct CompletedRun {
    /// How it ended.
    pub outcome: Outcome,
    /// Resources used. The host's own clocks replace the worker's claim where they differ.
    pub spent: Spent,
    /// Whether a worker had to load the handler for this call.
    pub cold: bool,
    /// The end of the work after the answer, if there was any.
    pub background: Option<BackgroundEnd>,
}
