//! A run in the sandbox, which can outlast its call: with `ctx.waitUntil`, a handler works after its answer.
//!
//! The caller gets the answer, and it is settled, without waiting for this work. A host that shuts down waits for it as
//! for running calls.

use std::{
    future::poll_fn,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::task::TaskTracker;
use tollhouse_base::{cpu_share::TurnMeter, lock::Lock, offload::for_same_client};
use tollhouse_capability::{MeteredCharge, Ops, PieceRedactor};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_pool::{BackgroundEnd, CompletedRun, Job, OpHost, Pool, PoolError};
use tollhouse_protocol::{Isolation, LogLevel, LogLine, OpFailure, OpRequest, OpValue, Outcome, ProgressMessage, Spent, Start};
use tollhouse_telemetry::{Stage, enter};

use super::task::Acceptance;

/// Estimated work of the host for an op, a log line or a progress message. The caller's share pays for it like for the
/// handler's own time.
pub(super) const HOST_WORK: Duration = Duration::from_micros(40);

/// The log line for work after an answer that gets no place.
const REFUSED: &str =
    "the work of `ctx.waitUntil` was stopped, because too many calls of this tool, or of its owner, work after their answer";

/// The grants of a call, and everyone who is notified about its run.
pub(super) struct CallListener {
    pub(super) ops: Arc<Ops>,
    /// Announces the start of the handler, if the worker reports it.
    pub(super) acceptance: Option<Acceptance>,
    pub(super) turn: TurnMeter,
    pub(super) charge: Arc<MeteredCharge>,
    cold: AtomicBool,
    /// The answer of a run that goes on.
    answer: Lock<Option<CompletedRun>>,
    /// Hides secrets in a streamed answer.
    pieces: Lock<PieceRedactor>,
}

impl CallListener {
    pub(super) fn new(ops: Arc<Ops>, acceptance: Option<Acceptance>, turn: TurnMeter, charge: Arc<MeteredCharge>) -> Arc<Self> {
        let (cold, answer, pieces) = (AtomicBool::new(false), Lock::default(), Lock::default());
        Arc::new(Self { ops, acceptance, turn, charge, cold, answer, pieces })
    }

    /// Removes the values of the call's secrets from the parts of a streamed answer.
    fn redacted(&self, request: OpRequest) -> OpRequest {
        let started = Instant::now();
        let request = match request {
            OpRequest::StreamOpen { status, headers, first } => {
                let redactor = self.ops.redactor();
                let headers = headers.into_iter().map(|(name, value)| (name, redactor.redact(&value).into_owned())).collect();
                let first = self.pieces.lock().next(redactor, first);
                OpRequest::StreamOpen { status, headers, first }
            }
            OpRequest::StreamWrite { chunk } => OpRequest::StreamWrite { chunk: self.pieces.lock().next(self.ops.redactor(), chunk) },
            other => return other,
        };
        // Long secrets make it slow.
        self.turn.spent(started.elapsed());
        request
    }

    /// Returns the end of a streamed answer, which was held back because a secret could begin there.
    pub(super) fn rest(&self) -> Bytes {
        self.pieces.lock().rest(self.ops.redactor())
    }

    /// Writes into the log why work after an answer was not completed.
    fn report(&self, ran: &CompletedRun) {
        match &ran.background {
            None | Some(BackgroundEnd::Done) => {}
            Some(BackgroundEnd::Refused) => self.ops.report(LogLevel::Warn, REFUSED, json!({})),
            Some(BackgroundEnd::Stopped(reason)) => {
                self.ops.report(LogLevel::Error, &format!("the work of `ctx.waitUntil` was stopped: {reason}"), json!({}));
            }
        }
    }
}

impl OpHost for CallListener {
    fn op(&self, request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        self.turn.spent(HOST_WORK);
        self.ops.op(self.redacted(request))
    }

    fn placed(&self, cold: bool) {
        self.cold.store(cold, Ordering::Relaxed);
        enter(Stage::Run);
    }

    fn started(&self) {
        if let Some(acceptance) = &self.acceptance {
            acceptance.send();
        }
    }

    fn answered(&self, outcome: Outcome, spent: Spent) {
        // The price is settled from here on.
        self.charge.close();
        *self.answer.lock() = Some(CompletedRun { outcome, spent, cold: self.cold.load(Ordering::Relaxed), background: None });
    }

    fn log(&self, line: LogLine) {
        self.turn.spent(HOST_WORK);
        self.ops.log(line);
    }

    fn progress(&self, message: ProgressMessage) {
        self.turn.spent(HOST_WORK);
        self.ops.progress(message);
    }

    fn used(&self, cpu: Duration) {
        self.turn.spent(cpu);
    }
}

/// A job of the pool, apart from what it borrows.
pub(super) struct OwnedJob {
    pub(super) live: Arc<LiveEndpoint>,
    /// The endpoint's name in the pool, if it is not its id.
    pub(super) alias: Option<String>,
    pub(super) caller: Option<IpAddr>,
    pub(super) by_owner: bool,
    pub(super) isolation: Isolation,
    pub(super) start: Start,
}

/// A run that has begun.
pub(super) struct SandboxedRun {
    listener: Arc<CallListener>,
    running: BoxFuture<'static, Result<CompletedRun, PoolError>>,
}

impl SandboxedRun {
    /// Begins a run when it is first polled. Dropping it ends its worker.
    pub(super) fn new(pool: Pool, job: OwnedJob, listener: &Arc<CallListener>) -> Self {
        let hearing = Arc::clone(listener);
        let running = async move {
            let OwnedJob { live, alias, caller, by_owner, isolation, start } = job;
            let endpoint = &live.endpoint;
            let Some(bundle) = &live.bundle else { return Err(PoolError::Spawn("a tool without a handler".into())) };
            let job = Job {
                bundle,
                owner: endpoint.owner.share(),
                endpoint: alias.as_deref().unwrap_or(endpoint.id.as_str()),
                caller,
                by_owner,
                isolation,
                tier: endpoint.worker_tier(),
                concurrency: LiveEndpoint::CONCURRENCY,
                start,
            };
            pool.run(job, &*hearing).await
        };
        Self { listener: Arc::clone(listener), running: Box::pin(running) }
    }

    /// Waits for the end of the run, including the work after its answer.
    pub(super) async fn ended(self) -> Result<CompletedRun, PoolError> {
        self.running.await.inspect(|ran| self.listener.report(ran))
    }

    /// Waits for the answer. If the run goes on after it, its rest becomes a task of `background`.
    pub(super) async fn answered(mut self, background: &TaskTracker) -> Result<CompletedRun, PoolError> {
        let answer = poll_fn(|context| match self.running.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(Err(ended)),
            Poll::Pending => self.listener.answer.lock().take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer))),
        });
        let answer = answer.await;
        match answer {
            Ok(answer) => {
                background.spawn(for_same_client(async move { _ = self.ended().await }));
                Ok(answer)
            }
            Err(ended) => ended.inspect(|ran| self.listener.report(ran)),
        }
    }
}
