//! The host's side of the sandbox: starts workers, lends them to calls, keeps budgets, kills.
//!
//! Invariant: a worker that overran any part of its budget never serves a second call.
//! `call::drive` makes the proof that a call ended as it should, `Lent::recycle` and `Lent::hand_on`
//! take nothing else, and `Lent::is_fit` asserts the rest again when a worker is lent.
//!
//! ```text
//! Pool::run ─▶ gate      a running slot, a process, fairness, the queue, the breaker
//!              pipeline  or a place behind another call of a handler that takes microseconds
//!           ─▶ shelf     a warm worker, or a spare that loads the handler, or a new process
//!           ─▶ call      frames out and in, ops, `ledger` checks every claim
//!              watch     kills at limit + grace by the host's own clocks
//!           ─▶ shelf     back for the next call, or ended
//! core                   what all share; spares, age and memory, off the path of calls
//! ```

mod breaker;
mod call;
mod config;
mod core;
mod gate;
mod ledger;
mod pipeline;
mod process;
mod shelf;
mod status;
mod usage;
mod watch;
mod wire;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tollhouse_protocol::{
    Bundle, Isolation, JailLayer, Limits, LoadError, Loaded, LogLine, OpFailure, OpRequest, OpValue, Outcome, Said, SchemaFault, Spent,
    Start, StopReason,
};

pub use crate::{
    config::{PROCESS_BYTES, PoolConfig},
    status::{Status, Totals},
};
use crate::{
    core::Core,
    gate::Ask,
    shelf::{At, Place, Wanted},
    status::count,
};

/// What the pool asks of its caller while a call runs. One value per call: it holds the grants.
pub trait OpHost: Send + Sync {
    /// Does one op, or refuses it. Dropped when the call is stopped, and when it ends without
    /// having waited for the op.
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>>;
    /// The input fits and the handler starts: told of a call that was [announced](Start::announced). Must not block.
    fn begun(&self) {}
    /// Takes a log line. Counted and cut to the limits already; must not block.
    fn log(&self, line: LogLine);
    /// Takes what the caller may hear. Counted and cut to the limits already; must not block.
    fn progress(&self, said: Said);
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
    /// No slot within the queue's patience, or the queue is full, or the pool is shut down.
    #[error("all workers are busy")]
    Busy { retry_after: Duration },
    /// The endpoint's workers were killed too often of late.
    #[error("endpoint is held after repeated faults")]
    Held { retry_after: Duration },
    /// The handler does not load.
    #[error("handler does not load")]
    Load(#[source] LoadError),
    /// A schema of the bundle cannot be used.
    #[error("a schema cannot be used")]
    Schema(#[source] SchemaFault),
    /// A schema of the bundle took more than loading may.
    #[error("while loading, {0}")]
    Stopped(StopReason),
    /// No worker could be started.
    #[error("no worker could be started: {0}")]
    Spawn(String),
}

/// Bundles of one owner that are [checked](Pool::check) at once.
const CHECKS: usize = 4;

/// The workers of one host. Clones share them; the last one dropped kills them.
#[derive(Debug, Clone)]
pub struct Pool {
    core: Arc<Core>,
}

impl Pool {
    /// Starts a pool in the current runtime, and its spares in the background.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] outside a tokio runtime, or when the worker's binary is not there.
    /// Whether it works is what [`ready`](Self::ready) finds out.
    pub fn start(config: PoolConfig) -> Result<Self, PoolError> {
        Core::start(config).map(|core| Self { core })
    }

    /// Waits until one worker is ready, and says which layers of its jail are in force.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] when a worker cannot be started.
    pub async fn ready(&self) -> Result<Vec<JailLayer>, PoolError> {
        let lent = self.core.lend_blank().await?;
        let jail = lent.process().jail().unwrap_or_default().to_vec();
        lent.keep_as_spare();
        Ok(jail)
    }

    /// Loads a bundle of `owner` in a worker that does nothing else, under the limits of loading.
    ///
    /// # Errors
    ///
    /// [`PoolError::Load`] with line and column where the handler does not load,
    /// [`PoolError::Schema`] with the pointer where a schema cannot be used; the others as of
    /// [`run`](Self::run).
    pub async fn check(&self, owner: &str, bundle: &Bundle, limits: Limits) -> Result<Loaded, PoolError> {
        // Whoever uploads what does not end holds up their own uploads, whatever those are called, and nobody else's.
        let endpoint = &format!("{owner}/publishing");
        let ask = Ask { owner, endpoint, concurrency: CHECKS };
        let entry = self.enter(ask).await?;
        let mut lent = self.core.lend_blank().await?;
        let loaded = lent.load(bundle, &limits).await.map_err(|fault| self.core.load_error(endpoint, fault));
        drop(lent);
        drop(entry);
        self.core.refill();
        loaded.map(|(loaded, _)| loaded)
    }

    /// Runs one call, to its end or to its limits. Dropping the future kills the worker.
    ///
    /// # Errors
    ///
    /// [`PoolError`]: the handler did not run, and repeating the call is safe. What the handler
    /// did wrong is in [`Ran::outcome`].
    pub async fn run(&self, job: Job<'_>, host: &dyn OpHost) -> Result<Ran, PoolError> {
        let core = &self.core;
        let Job { bundle, owner, endpoint, isolation, concurrency, start } = job;
        let (ask, limits, work) = (Ask { owner, endpoint, concurrency }, start.limits, start.work);
        let wanted = Wanted { bundle, endpoint, limits: &limits, isolation };
        let Place { lent, mut entry, begin } = core.place(wanted, ask, start).await.inspect_err(|_| count(&core.counters.refused))?;
        let cancel = Cancel(core);
        let ran = async {
            let mut lent = match lent {
                Some(lent) => lent,
                None => core.lend(wanted).await?,
            };
            let ended = lent.drive((&limits, work), begin, host, &mut entry).await;
            Ok((lent, ended))
        };
        let ran = ran.await;
        cancel.disarm();
        let (lent, ended) = ran?;
        count(&core.counters.calls);
        if let Outcome::Stopped(reason) = &ended.outcome {
            core.note_stop(endpoint, reason, At::Call);
        }
        match (ended.clean, isolation) {
            (Some(clean), Isolation::Warm) => lent.hand_on(clean, &ended.spent, entry),
            (Some(_), Isolation::Fresh) | (None, _) => drop((lent, entry)),
        }
        Ok(Ran { outcome: ended.outcome, spent: ended.spent })
    }

    /// Ends the workers that hold `version`: idle ones now, the others after their call.
    pub fn retire(&self, version: &str) {
        self.core.retire(version);
    }

    /// How the pool is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Lets the calls under way end, refuses all others, then kills every worker and waits until
    /// the system has none of them left. No call outlasts its wall limit, so this ends too.
    pub async fn shutdown(&self) {
        self.core.shut_down().await;
    }

    async fn enter<'a>(&'a self, ask: Ask<'a>) -> Result<gate::Entry<'a>, PoolError> {
        self.core.gate.enter(ask).await.inspect_err(|_| count(&self.core.counters.refused))
    }
}

/// Counts a call whose future was dropped.
struct Cancel<'a>(&'a Core);

impl Cancel<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        count(&self.0.counters.cancels);
    }
}
