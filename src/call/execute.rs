//! Runs handlers for calls, with their payment, and for dry runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::json;
use tollhouse_base::{
    boxed,
    cpu_share::CpuTurn,
    id::{CallId, ReceiptId},
};
use tollhouse_capability::{DryRunStore, LogEntry, MeteredCharge};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_money::{Admission, OwedRun, PaymentId};
use tollhouse_protocol::{Spent, Work};
use tollhouse_tool::MicroUsd;

use super::{
    Calls,
    error::CallError,
    input::{self, Input},
    new_call::NewCall,
    request::{CalledBy, RequestHead},
    run::{HandlerResult, Task},
    stream::AnswerSink,
};

/// The payment of a run whose answer can be streamed.
pub(super) enum Funds {
    Free,
    /// Not settled yet.
    Admitted(Admission),
    /// Settled, before the run or before the first byte of its answer.
    Settled(Box<OwedRun>),
}

impl Funds {
    /// Returns the payment, and the payer's address, shortened.
    pub(super) fn payment(&self) -> Option<(PaymentId, Option<String>)> {
        match self {
            Self::Free => None,
            Self::Admitted(admission) => Some((admission.id().clone(), admission.payer())),
            Self::Settled(owed) => Some((owed.payment().clone(), owed.payer.clone())),
        }
    }
}

pub(super) struct PaidBy<'a> {
    payment: &'a PaymentId,
    /// The payer's address, shortened. `None` for credit.
    payer: Option<String>,
    /// `None` if the money has moved.
    admission: Option<&'a Admission>,
}

impl<'a> From<&'a Admission> for PaidBy<'a> {
    fn from(admission: &'a Admission) -> Self {
        Self { payment: admission.id(), payer: admission.payer(), admission: Some(admission) }
    }
}

impl<'a> PaidBy<'a> {
    /// Constructs the payment of a call that its caller cannot cancel.
    pub(super) fn uncancelable(payment: &'a PaymentId, payer: Option<String>) -> Self {
        Self { payment, payer, admission: None }
    }
}

impl<'a> From<&'a OwedRun> for PaidBy<'a> {
    fn from(owed: &'a OwedRun) -> Self {
        Self { payment: owed.payment(), payer: owed.payer.clone(), admission: None }
    }
}

/// A completed dry run, whatever its outcome.
#[derive(Debug)]
pub struct DryRun {
    pub ended: Result<HandlerResult, CallError>,
    /// The log, oldest first, including the host's own lines, for example a stack.
    pub log: Vec<LogEntry>,
    /// The resources used.
    pub spent: Spent,
}

impl Calls {
    /// Runs the handler, or the host's own code.
    pub(super) async fn run(&self, task: &NewCall, input: input::Parsed, paid: Option<PaidBy<'_>>) -> Result<HandlerResult, CallError> {
        self.run_with(task, input, paid, None).await
    }

    /// Runs the handler, which can stream its answer to `stream`.
    pub(super) async fn run_with(
        &self,
        task: &NewCall,
        input: input::Parsed,
        paid: Option<PaidBy<'_>>,
        stream: Option<&Arc<AnswerSink>>,
    ) -> Result<HandlerResult, CallError> {
        let before = task.turn.total();
        let running = self.parts.runner.run(Task {
            live: &task.live,
            work: Work::Handle,
            by: task.by,
            price: task.max(),
            call: task.call.clone(),
            receipt: &task.receipt,
            head: &task.head,
            input: &input,
            payer: paid.as_ref().and_then(|paid| paid.payer.clone()),
            payment: paid.as_ref().map(|paid| paid.payment),
            now: task.started,
            progress: task.progress.as_ref(),
            stream,
            scratch: None,
            charge: &task.charge,
            turn: &task.turn,
            elapsed: &task.elapsed,
        });
        // The run reports its usage when it ends, or when it is dropped here.
        let produced = tokio::select! {
            biased;
            produced = running => produced,
            () = self.canceled(task, paid.as_ref()) => Err(CallError::Cancelled),
        };
        if let Ok(produced) = &produced {
            _ = task.status.set(produced.status);
        }
        let used = task.turn.total().saturating_sub(before);
        if !used.is_zero() {
            task.live.usual_cost.add(used);
        }
        produced
    }

    /// Returns once nobody wants the call anymore, and its payer may have one more unpaid run. Otherwise the call goes
    /// on, so that a credit's many runs in flight are not all canceled.
    pub(super) async fn canceled(&self, task: &NewCall, paid: Option<&PaidBy<'_>>) {
        let Some(paid) = paid else { return task.cancel.cancelled().await };
        // If the money has moved, the payer is owed the answer, even if canceled.
        let Some(admission) = paid.admission else { return std::future::pending().await };
        task.cancel.cancelled().await;
        self.in_flight.abandoned(paid.payment).await;
        if !admission.cancel() {
            std::future::pending().await
        }
    }

    /// Runs `live` once with this input, with temporary kv and files.
    ///
    /// # Errors
    ///
    /// Why it did not run: an input that does not match the schema, or a fault of the host.
    #[boxed]
    pub async fn dry_run(&self, live: Arc<LiveEndpoint>, input: Bytes, turn: &CpuTurn) -> Result<DryRun, CallError> {
        let (input, _) = Input::Body(input).read(&live).await?;
        self.run_draft(live, Work::Handle, input.check()?, turn).await
    }

    /// Runs the `scheduled` of `live` once for this expression, as of now, with temporary kv and files.
    ///
    /// # Errors
    ///
    /// Why it did not run.
    #[boxed]
    pub async fn dry_run_schedule(&self, live: Arc<LiveEndpoint>, cron: &str, turn: &CpuTurn) -> Result<DryRun, CallError> {
        let event = json!({ "cron": cron, "scheduledTime": self.parts.clock.now().0 });
        self.run_draft(live, Work::Scheduled, input::Parsed::event(&event), turn).await
    }

    async fn run_draft(&self, live: Arc<LiveEndpoint>, work: Work, input: input::Parsed, turn: &CpuTurn) -> Result<DryRun, CallError> {
        let _running = self.running.token();
        let head = RequestHead::post(&live, BTreeMap::new());
        let (scratch, receipt, elapsed) = (DryRunStore::new(&self.parts.clock), ReceiptId::generate(), OnceLock::new());
        let charge = Arc::new(MeteredCharge::new(live.endpoint.max_price_usd));
        let ran = self.parts.runner.run(Task {
            live: &live,
            work,
            by: CalledBy::Owner,
            price: MicroUsd::ZERO,
            call: CallId::generate(),
            receipt: &receipt,
            head: &head,
            input: &input,
            payer: None,
            payment: None,
            now: self.parts.clock.now(),
            progress: None,
            stream: None,
            scratch: Some(&scratch),
            charge: &charge,
            turn,
            elapsed: &elapsed,
        });
        match ran.await {
            Err(error) if !error.is_the_tools() => Err(error),
            ended => Ok(DryRun { ended, log: scratch.take_log(), spent: elapsed.into_inner().unwrap_or_default().spent }),
        }
    }
}
