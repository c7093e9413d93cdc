//! What a pool is given to run, and what it gives back.

use std::{net::IpAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tollhouse_protocol::{Bundle, Isolation, LogLine, OpFailure, OpRequest, OpValue, Outcome, Said, Spent, Start, Tier};

/// What the pool asks of its caller while a call runs. One value per call: it holds the grants.
pub trait OpHost: Send + Sync {
    /// Does one op, or refuses it. Dropped when the call is stopped, and when it ends without
    /// having waited for the op.
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>>;
    /// The call has a worker with its handler loaded, and is given to it. Must not block.
    fn placed(&self) {}
    /// The input fits and the handler starts: told of a call that was [announced](Start::announced). Must not block.
    fn begun(&self) {}
    /// Takes a log line. Counted and cut to the limits already; must not block.
    fn log(&self, line: LogLine);
    /// Takes what the caller may hear. Counted and cut to the limits already; must not block.
    fn progress(&self, said: Said);
    /// So much processor time went to the call, beside what was said before: to start and load a worker, where there was
    /// none that was ready, then to run. Also of a
    /// call whose future is dropped.
    fn used(&self, cpu: Duration);
}

/// One call, ready to run.
pub struct Job<'a> {
    /// The code that answers it, and the schemas it is held against.
    pub bundle: &'a Arc<Bundle>,
    /// Whose slots this call uses, for fairness.
    pub owner: &'a str,
    /// Which endpoint's concurrency and breaker this call counts for.
    pub endpoint: &'a str,
    /// Who calls: what its calls may have at once is bounded. `None` is the host itself.
    pub caller: Option<IpAddr>,
    /// Whether that is the owner: what is stopped then is held against the code and nobody else.
    pub by_owner: bool,
    /// Which process may serve it.
    pub isolation: Isolation,
    /// How that runs its code.
    pub tier: Tier,
    /// Most calls of this endpoint under way at once.
    pub concurrency: usize,
    /// What its worker is told.
    pub start: Start,
}

/// A call that ran to its end, whatever the end.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub outcome: Outcome,
    /// From the host's own clocks where they differ from the worker's claim.
    pub spent: Spent,
    /// Whether a worker had to load the handler for it.
    pub cold: bool,
}
