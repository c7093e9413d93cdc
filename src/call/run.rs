//! What answers a call: the host's own handlers in process, builders' code in the sandbox.

pub mod builtin;
mod isolate;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tollhouse_pool::Pool;
use tollhouse_protocol::{Side, Spent};

pub use self::builtin::readiness::ReadinessClient;
use crate::{
    base::{
        aside::aside,
        clock::Timestamp,
        id::{CallId, ReceiptId},
    },
    call::{CallError, CalledBy, ParsedInput, Progress, RequestHead},
    capability::{CapabilityServices, Scratch},
    catalog::{Asker, Fixed, Live, Unfit},
    money::{PaymentId, receipt},
    tool::{Builtin, Mismatch, Runs},
};

/// One run of a handler: input that fits, and all the handler may know.
pub struct Task<'a> {
    /// The tool, as it was found.
    pub live: &'a Arc<Live>,
    /// Who calls.
    pub by: CalledBy,
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
    /// Takes what a run in the sandbox cost, however it ended.
    pub spent: &'a OnceLock<Spent>,
}

impl Task<'_> {
    /// Whether nobody pays for it.
    fn is_free(&self) -> bool {
        self.by == CalledBy::Owner || self.live.endpoint.price_usd.is_zero()
    }

    /// For whom its values are held against their schemas.
    fn asker(&self) -> Asker {
        if self.scratch.is_some() { Asker::Draft } else { Asker::Call }
    }

    /// Tells who listens that the handler starts. A reader that is gone or slow does not stop the call.
    fn accept(&self) {
        if let Some(progress) = self.progress {
            let (call, payment, receipt) = (self.call.clone(), self.payment.cloned(), self.receipt.clone());
            _ = progress.try_send(Progress::Accepted { call, payment, receipt });
        }
    }
}

/// What a handler answered: an answer that fits the tool's schema, or an error status that the handler chose itself.
#[derive(Debug)]
pub struct Produced {
    /// HTTP status that the handler chose.
    pub status: u16,
    /// Headers that the handler chose.
    pub headers: Vec<(String, String)>,
    /// What it answered.
    pub body: Bytes,
    /// Of the canonical form where that is JSON and a success; else of the bytes.
    pub result_hash: String,
}

impl Produced {
    /// The host's own answer.
    fn json(live: &Live, value: &Value) -> Result<Self, CallError> {
        Self::check(live, 200, vec![], crate::call::json_bytes(value), Some(value))
    }

    /// `value` is `body` as JSON; `None` when it is something else. Where only the tool's worker can tell whether it fits,
    /// that was asked.
    fn check(live: &Live, status: u16, headers: Vec<(String, String)>, body: Bytes, value: Option<&Value>) -> Result<Self, CallError> {
        let mut produced = Self { status, headers, body, result_hash: String::new() };
        if produced.success() {
            live.output.check_answer(&produced.headers, value).map_err(CallError::Output)?;
        }
        produced.result_hash = match value.filter(|_| produced.success()) {
            Some(value) => receipt::json_hash(value),
            None => receipt::bytes_hash(&produced.body),
        };
        Ok(produced)
    }

    /// True for an answer that is charged: 2xx.
    #[must_use]
    pub fn success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Runs handlers.
#[derive(Clone)]
pub struct Runner {
    pool: Pool,
    services: Arc<CapabilityServices>,
    readiness: ReadinessClient,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

impl Runner {
    /// Runs builders' code in `pool`, with `services` to ask and `readiness` to look around.
    #[must_use]
    pub fn new(pool: Pool, services: Arc<CapabilityServices>, readiness: ReadinessClient) -> Self {
        Self { pool, services, readiness }
    }

    /// Runs a handler to its end, input and result checked where only the tool's worker can tell.
    ///
    /// # Errors
    ///
    /// What the caller, the tool or its sandbox did wrong; nothing is charged then.
    pub async fn run(&self, task: Task<'_>) -> Result<Produced, CallError> {
        match &task.live.runs {
            Runs::Js => Box::pin(isolate::run(&self.pool, &self.services, task)).await,
            // It was held against the schema when it was published.
            Runs::Static(response) => {
                self.begin(&task).await?;
                Ok(fixed(task.live, response).await)
            }
            Runs::Builtin(builtin) => {
                self.begin(&task).await?;
                let produced = self.builtin(*builtin, &task).await?;
                if task.live.bundle.is_some() {
                    let output = task.live.fits(&self.pool, Side::Output, produced.body.clone(), task.asker());
                    Box::pin(output).await.map_err(|unfit| unfitting(unfit, CallError::Output))?;
                }
                Ok(produced)
            }
        }
    }

    /// Begins what runs in this process, where its input fits.
    async fn begin(&self, task: &Task<'_>) -> Result<(), CallError> {
        if task.live.bundle.is_some() {
            let input = task.live.fits(&self.pool, Side::Input, task.input.text.clone(), task.asker());
            Box::pin(input).await.map_err(|unfit| unfitting(unfit, CallError::Input))?;
        }
        task.accept();
        Ok(())
    }

    async fn builtin(&self, builtin: Builtin, task: &Task<'_>) -> Result<Produced, CallError> {
        match builtin {
            Builtin::ReceiptEcho => aside(task.input.text.len(), || Produced::json(task.live, &builtin::receipt_echo(task))).await,
            Builtin::X402ReadinessCheck => {
                let report = Box::pin(builtin::readiness_check(&self.readiness, task)).await;
                Produced::json(task.live, &report)
            }
        }
    }
}

/// What a tool always answers, made once.
async fn fixed(live: &Live, response: &Value) -> Produced {
    let make = || Fixed { body: crate::call::json_bytes(response), hash: receipt::json_hash(response) };
    let Fixed { body, hash } = match live.fixed.get() {
        Some(fixed) => fixed,
        // How long it is shows only then.
        None => aside(usize::MAX, || live.fixed.get_or_init(make)).await,
    };
    Produced { status: 200, headers: vec![], body: body.clone(), result_hash: hash.clone() }
}

/// Why a value does not pass; `mismatch` says whose it is.
fn unfitting(unfit: Unfit, mismatch: impl FnOnce(Mismatch) -> CallError) -> CallError {
    match unfit {
        Unfit::Mismatch(problems) => mismatch(problems),
        Unfit::Stopped(reason) => CallError::Stopped(reason),
        Unfit::Pool(error) => error.into(),
    }
}
