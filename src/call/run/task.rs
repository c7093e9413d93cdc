//! The input of a run.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tollhouse_base::{
    clock::Timestamp,
    cpu_share::CpuTurn,
    id::{CallId, PaymentId, ReceiptId},
};
use tollhouse_capability::{DryRunStore, MeteredCharge};
use tollhouse_catalog::{LiveEndpoint, ValidationSubject};
use tollhouse_protocol::{Spent, Work};
use tollhouse_tool::MicroUsd;

use crate::{
    ParsedInput,
    request::{CalledBy, Progress, RequestHead},
    stream::AnswerSink,
};

/// A run of a handler: valid input, and everything that the handler may see.
pub struct Task<'a> {
    pub live: &'a Arc<LiveEndpoint>,
    /// The task of the worker.
    pub work: Work,
    pub by: CalledBy,
    /// The price for the caller.
    pub price: MicroUsd,
    pub call: CallId,
    pub receipt: &'a ReceiptId,
    /// The parts of the request that the handler may see.
    pub head: &'a RequestHead,
    pub input: &'a ParsedInput,
    /// The payer's address, shortened. `None` for free calls and credit.
    pub payer: Option<String>,
    /// The payment. `None` for free calls.
    pub payment: Option<&'a PaymentId>,
    pub now: Timestamp,
    /// Receives progress, if somebody listens.
    pub progress: Option<&'a mpsc::Sender<Progress>>,
    /// Receives a streamed answer, if the caller takes one.
    pub stream: Option<&'a Arc<AnswerSink>>,
    /// Temporary data of a dry run, which replaces that of the tool.
    pub scratch: Option<&'a Arc<DryRunStore>>,
    /// Receives the charge set by the handler.
    pub charge: &'a Arc<MeteredCharge>,
    /// Is charged for all processor time in the sandbox, of any worker.
    pub turn: &'a CpuTurn,
    /// Receives the resources that the run used in the sandbox, whatever its outcome.
    pub elapsed: &'a OnceLock<RunUsage>,
}

/// The resources used by a run in the sandbox.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunUsage {
    pub spent: Spent,
    /// Whether a worker had to load the handler.
    pub cold: bool,
}

impl Task<'_> {
    /// Returns whether nobody pays for it.
    pub(super) fn is_free(&self) -> bool {
        self.price.is_zero()
    }

    /// Returns the requester of validations for this run.
    pub(super) fn validation_subject(&self) -> ValidationSubject<'_> {
        if self.scratch.is_some() { ValidationSubject::DryRun(self.turn) } else { ValidationSubject::Call(self.turn) }
    }

    /// Announces that the handler starts.
    pub(super) fn accept(&self) {
        if let Some(acceptance) = self.acceptance() {
            acceptance.send();
        }
    }

    /// Returns the announcement that the handler starts, if somebody listens.
    pub(super) fn acceptance(&self) -> Option<Acceptance> {
        let progress = self.progress?.clone();
        let (call, payment, receipt) = (self.call.clone(), self.payment.cloned(), self.receipt.clone());
        Some(Acceptance { progress, accepted: Progress::Accepted { call, payment, receipt } })
    }
}

/// The announcement that a handler starts.
pub(super) struct Acceptance {
    progress: mpsc::Sender<Progress>,
    accepted: Progress,
}

impl Acceptance {
    /// Sends it. A reader that is gone or slow does not stop the call.
    pub(super) fn send(&self) {
        _ = self.progress.try_send(self.accepted.clone());
    }
}
