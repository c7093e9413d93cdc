//! What answers a call: the host's own handlers in process, builders' code in the sandbox.

mod builtin;
mod isolate;
mod summary;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tollhouse_pool::Pool;
use tollhouse_protocol::Spent;

use crate::{
    call::{CallError, CalledBy, ParsedInput, Progress, RequestHead},
    capability::{Capabilities, Scratch},
    catalog::Live,
    clock::Timestamp,
    id::{CallId, ReceiptId},
    payment::PaymentId,
    readiness::Looker,
    tool::{Handler, HandlerType},
};

/// One run of a handler: input that fits, and all the handler may know.
pub struct Task<'a> {
    pub live: &'a Arc<Live>,
    pub by: CalledBy,
    pub call: CallId,
    /// The receipt that a success will have.
    pub receipt: &'a ReceiptId,
    pub head: &'a RequestHead,
    pub input: &'a ParsedInput,
    /// Who pays, shortened; `None` for free calls and credit.
    pub payer: Option<String>,
    /// What it is paid with; `None` for free calls.
    pub payment: Option<&'a PaymentId>,
    pub now: Timestamp,
    pub progress: Option<&'a mpsc::Sender<Progress>>,
    /// Of a dry run: what it keeps, in place of what its endpoint has.
    pub scratch: Option<&'a Arc<Scratch>>,
    /// Takes what a run in the sandbox cost, however it ended.
    pub spent: &'a OnceLock<Spent>,
}

/// What a handler answered, not checked against the tool's schema yet.
#[derive(Debug)]
pub struct Produced {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// `body` as JSON; `None` when it is something else.
    pub value: Option<Value>,
}

impl Produced {
    /// A plain JSON answer.
    #[must_use]
    pub fn json(value: Value) -> Self {
        Self { status: 200, headers: vec![], body: crate::call::json_bytes(&value), value: Some(value) }
    }

    /// True for an answer that is charged: 2xx.
    #[must_use]
    pub fn success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Task<'_> {
    /// Whether nobody pays for it.
    fn is_free(&self) -> bool {
        self.by == CalledBy::Owner || self.live.endpoint.price_usd.is_zero()
    }
}

/// Runs handlers.
#[derive(Clone)]
pub struct Runner {
    pool: Pool,
    services: Arc<Capabilities>,
    looker: Looker,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

impl Runner {
    #[must_use]
    pub fn new(pool: Pool, services: Arc<Capabilities>, looker: Looker) -> Self {
        Self { pool, services, looker }
    }

    /// Runs a handler to its end.
    ///
    /// # Errors
    ///
    /// What the tool or its sandbox did wrong; nothing is charged then.
    pub async fn run(&self, task: Task<'_>) -> Result<Produced, CallError> {
        match (&task.live.endpoint.handler, task.live.endpoint.handler_type) {
            (Handler::Js { .. }, _) => Box::pin(isolate::run(&self.pool, &self.services, task)).await,
            (Handler::Static(response), _) => Ok(Produced::json(Value::clone(response))),
            (Handler::Builtin, HandlerType::X402ReadinessCheck) => Box::pin(builtin::readiness_check(&self.looker, &task)).await,
            (Handler::Builtin, _) => Ok(builtin::receipt_echo(&task)),
        }
    }
}
