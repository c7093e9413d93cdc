//! Runs handlers: the host's own in this process, builders' code in the sandbox.

pub(crate) mod builtin;
mod handler_result;
mod isolate;
mod sandbox_counts;
mod sandboxed;
mod task;

use std::sync::Arc;
use tollhouse_base::boxed;

use bytes::Bytes;
use serde_json::Value;
use tokio_util::task::TaskTracker;
use tollhouse_base::offload::{DropOffThread, run_blocking};
use tollhouse_capability::CapabilityServices;
use tollhouse_catalog::{FixedAnswer, LiveEndpoint, ValidationSubject};
use tollhouse_money::receipt;
use tollhouse_pool::Pool;
use tollhouse_protocol::Side;
use tollhouse_telemetry::{Stage, enter};
use tollhouse_tool::{EndpointCode, StaticResponse};

use self::handler_result::validation_error;
pub use self::{builtin::readiness::ReadinessClient, sandbox_counts::EndpointCounts};
pub(crate) use self::{
    handler_result::HandlerResult,
    sandbox_counts::SandboxCounts,
    task::{RunUsage, Task},
};
use super::CallError;

#[derive(Clone)]
pub struct Runner {
    pool: Pool,
    services: Arc<CapabilityServices>,
    readiness: ReadinessClient,
    tally: Arc<SandboxCounts>,
    /// Runs that go on after their answer.
    background: TaskTracker,
}

impl Runner {
    /// Constructs a runner with the sandbox's `pool`, the capabilities' `services`, and the client of the readiness
    /// check.
    pub fn new(pool: Pool, services: Arc<CapabilityServices>, readiness: ReadinessClient) -> Self {
        Self { pool, services, readiness, tally: Arc::default(), background: TaskTracker::new() }
    }

    pub fn tally(&self) -> &SandboxCounts {
        &self.tally
    }

    /// Returns whether calls wait for the sandbox.
    pub(crate) fn is_busy(&self) -> bool {
        self.pool.is_busy()
    }

    /// Waits until no run goes on after its answer. Begin no runs after that.
    pub(crate) async fn background_ended(&self) {
        self.background.close();
        self.background.wait().await;
    }

    /// Runs a handler until it has answered. Validates input and result if only the tool's worker can do that.
    ///
    /// # Errors
    ///
    /// A fault of the caller, the tool or its sandbox. Then nothing is charged.
    #[boxed]
    pub async fn run<'a>(&'a self, task: Task<'a>) -> Result<HandlerResult, CallError> {
        enter(if matches!(task.live.runs, EndpointCode::Js) { Stage::Queue } else { Stage::Run });
        match &task.live.runs {
            EndpointCode::Js => {
                // A dry run does not count for a tool.
                let counting = task.scratch.is_none().then(|| self.tally.begin(&task.live.endpoint.id));
                Box::pin(isolate::run(&self.pool, &self.services, task, counting, &self.background)).await
            }
            // The response was validated when it was published.
            EndpointCode::Static(response) => {
                self.begin(&task).await?;
                Ok(fixed(task.live, response).await)
            }
            EndpointCode::Builtin(builtin) => {
                self.begin(&task).await?;
                let produced = builtin::answer(*builtin, &self.readiness, &task).await?;
                enter(Stage::Check);
                if task.live.bundle.is_some() {
                    let output = task.live.fits(&self.pool, Side::Output, produced.body.clone(), task.validation_subject());
                    Box::pin(output).await.map_err(|error| validation_error(error, CallError::Output))?;
                }
                Ok(produced)
            }
        }
    }

    /// Begins a run in this process, if its input is valid.
    async fn begin(&self, task: &Task<'_>) -> Result<(), CallError> {
        self.check_input(task.live, task.input.text.clone(), task.validation_subject()).await?;
        task.accept();
        Ok(())
    }

    /// Validates an input in the tool's worker, without running its handler.
    ///
    /// # Errors
    ///
    /// [`CallError::Input`], or why the input could not be validated.
    pub(crate) async fn check_input(&self, live: &LiveEndpoint, input: Bytes, subject: ValidationSubject<'_>) -> Result<(), CallError> {
        let checked = live.fits(&self.pool, Side::Input, input, subject);
        Box::pin(checked).await.map_err(|error| validation_error(error, CallError::Input))
    }
}

/// Returns a tool's fixed answer, which is built once. Its body is the text of the response.
async fn fixed(live: &LiveEndpoint, response: &StaticResponse) -> HandlerResult {
    let make = || {
        let hash = match serde_json::from_str::<Value>(response.text()) {
            Ok(value) => receipt::json_hash(&DropOffThread::new(value)),
            Err(_) => receipt::bytes_hash(response.as_ref()),
        };
        FixedAnswer { body: Bytes::from_owner(response.clone()), hash }
    };
    let FixedAnswer { body, hash } = match live.fixed.get() {
        Some(fixed) => fixed,
        None => run_blocking(response.text().len(), || live.fixed.get_or_init(make)).await,
    };
    HandlerResult { status: 200, headers: vec![], body: body.clone(), result_hash: hash.clone(), success: true }
}
