//! The host's side of the sandbox: starts workers, lends them to calls, keeps budgets, kills.
//!
//! Invariant: a worker that overran any part of its budget never serves a second call.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tollhouse_protocol::{Bundle, Isolation, JailLayer, Limits, LoadError, Loaded, LogLine, OpFailure, OpRequest, OpValue, Outcome, Spent, Start};

/// What the pool asks of its caller while a call runs. One value per call: it holds the grants.
pub trait OpHost: Send + Sync {
    /// Does one op, or refuses it. Dropped when the call is stopped.
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>>;
    /// Takes a log line. Counted and cut to the limits already; must not block.
    fn log(&self, line: LogLine);
}

/// One call, ready to run.
pub struct Job<'a> {
    pub bundle: &'a Arc<Bundle>,
    /// Whose slots this call uses, for fairness.
    pub owner: &'a str,
    /// Which endpoint's concurrency and breaker this call counts for.
    pub endpoint: &'a str,
    pub isolation: Isolation,
    /// Most calls of this endpoint under way at once.
    pub concurrency: usize,
    pub start: Start,
}

/// A call that ran to its end, whatever the end.
#[derive(Debug)]
pub struct Ran {
    pub outcome: Outcome,
    /// From the host's own clocks where they differ from the worker's claim.
    pub spent: Spent,
}

/// A call that did not run, so repeating it is safe.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No slot within the queue's patience, or the queue is full.
    #[error("all workers are busy")]
    Busy { retry_after: Duration },
    /// The endpoint's workers were killed too often of late.
    #[error("endpoint is held after repeated faults")]
    Held { retry_after: Duration },
    /// The handler does not load.
    #[error("handler does not load")]
    Load(#[source] LoadError),
    /// No worker could be started.
    #[error("no worker could be started: {0}")]
    Spawn(String),
}
