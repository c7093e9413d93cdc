//! What a run is given.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, PaymentId, ReceiptId},
    share::Turn,
};
use tollhouse_capability::{Scratch, Till};
use tollhouse_catalog::{Asker, Live};
use tollhouse_protocol::Spent;
use tollhouse_tool::MicroUsd;

use crate::{
    ParsedInput,
    request::{CalledBy, Progress, RequestHead},
};

/// One run of a handler: input that fits, and all the handler may know.
pub struct Task<'a> {
    /// The tool, as it was found.
    pub live: &'a Arc<Live>,
    /// Who calls.
    pub by: CalledBy,
    /// What it costs whom it is made by.
    pub price: MicroUsd,
    /// The call.
    pub call: CallId,
    /// The receipt that a success will have.
    pub receipt: &'a ReceiptId,
    /// What the handler may know of the request.
    pub head: &'a RequestHead,
    /// What the handler is given.
    pub input: &'a ParsedInput,
    /// Who pays, shortened; `None` for free calls and credit.
    pub payer: Option<String>,
    /// What it is paid with; `None` for free calls.
    pub payment: Option<&'a PaymentId>,
    /// When the call began.
    pub now: Timestamp,
    /// Hears how far it is; `None` where nobody listens.
    pub progress: Option<&'a mpsc::Sender<Progress>>,
    /// Of a dry run: what it keeps, in place of what its endpoint has.
    pub scratch: Option<&'a Arc<Scratch>>,
    /// Takes what the handler says that the call costs.
    pub till: &'a Arc<Till>,
    /// Is told all the processor time that goes to it in the sandbox, of whatever worker.
    pub turn: &'a Turn,
    /// Takes what the handler's run in the sandbox used, however it ended.
    pub took: &'a OnceLock<Took>,
}

/// What a run in the sandbox took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Took {
    /// Of what is limited.
    pub spent: Spent,
    /// Whether a worker had to load the handler for it.
    pub cold: bool,
}

impl Task<'_> {
    /// Whether nobody pays for it.
    pub(super) fn is_free(&self) -> bool {
        self.price.is_zero()
    }

    /// For whom its values are held against their schemas.
    pub(super) fn asker(&self) -> Asker<'_> {
        if self.scratch.is_some() { Asker::DryRun(self.turn) } else { Asker::Call(self.turn) }
    }

    /// Tells who listens that the handler starts. A reader that is gone or slow does not stop the call.
    pub(super) fn accept(&self) {
        if let Some(progress) = self.progress {
            let (call, payment, receipt) = (self.call.clone(), self.payment.cloned(), self.receipt.clone());
            _ = progress.try_send(Progress::Accepted { call, payment, receipt });
        }
    }
}
