//! Schema validation of values by an endpoint's worker, without running its handler.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tollhouse_base::{
    boxed,
    cpu_share::CpuTurn,
    offload::{DropOffThread, run_blocking},
};
use tollhouse_pool::{Job, OpHost, Pool, PoolError};
use tollhouse_protocol::{
    Bundle, Isolation, Limits, LogLine, OpFailure, OpRequest, OpValue, Outcome, ProgressMessage, Schemas, Side, Start, StopReason, Tier,
    Work,
};
use tollhouse_tool::{Endpoint, Handler, Mismatch, Owner};

use super::{Catalog, LiveEndpoint, PublishError, SPECIFIER};

/// Why a value did not pass validation.
#[derive(Debug)]
pub enum ValidationError {
    /// The value is invalid.
    Mismatch(Mismatch),
    /// The schema exceeded the limits of a call, or its worker ended.
    Stopped(StopReason),
    /// The value was not validated.
    Pool(PoolError),
}

/// The context of a validation.
#[derive(Debug, Clone, Copy)]
pub enum ValidationSubject<'a> {
    /// A call, possibly paid, in the turn of its caller.
    Call(&'a CpuTurn),
    /// A dry run, in the turn of its owner.
    DryRun(&'a CpuTurn),
    /// An upload. Its whole cost counts for the publisher's turn.
    Upload,
}

impl<'a> ValidationSubject<'a> {
    fn turn(self) -> Option<&'a CpuTurn> {
        match self {
            Self::Call(turn) | Self::DryRun(turn) => Some(turn),
            Self::Upload => None,
        }
    }
}

impl LiveEndpoint {
    /// Maximum concurrent calls of one endpoint. A caller can have as many of them as it leaves free.
    pub const CONCURRENCY: usize = 64;

    /// Validates JSON `text` against the schema of `side`, within the limits of a call.
    ///
    /// # Errors
    ///
    /// [`ValidationError`]. Never for a schema that the host can check on its own, see
    /// [`Shape`](tollhouse_tool::Shape).
    pub async fn fits(&self, pool: &Pool, side: Side, text: Bytes, asker: ValidationSubject<'_>) -> Result<(), ValidationError> {
        let Some(bundle) = self.bundle.as_ref().filter(|bundle| bundle.schemas.get(side).is_some()) else { return Ok(()) };
        let endpoint = &self.endpoint;
        // Faults of a draft must not count against calls of its endpoint, and it must not share a
        // process with them.
        let (key, isolation) = match asker {
            ValidationSubject::Call(_) => (endpoint.id.as_str(), Isolation::Warm),
            ValidationSubject::DryRun(_) | ValidationSubject::Upload => (&*format!("{}/dry", endpoint.id), Isolation::Fresh),
        };
        let job = Job {
            bundle,
            owner: endpoint.owner.share(),
            endpoint: key,
            caller: asker.turn().map(CpuTurn::address),
            by_owner: !matches!(asker, ValidationSubject::Call(_)),
            isolation,
            tier: endpoint.worker_tier(),
            concurrency: Self::CONCURRENCY,
            start: check_start(side, text, endpoint.limits),
        };
        run(pool, job, asker).await
    }
}

/// Validates `value` against a schema that belongs to no endpoint.
///
/// # Errors
///
/// [`ValidationError`]. An invalid schema is a [`PoolError::Schema`].
#[boxed]
pub async fn validate(pool: &Pool, schema: &Value, value: &Value) -> Result<(), ValidationError> {
    let schemas = Schemas { input: None, output: Some(Bytes::from(schema.to_string())) };
    let owner = Owner::Platform;
    let bundle = Arc::new(Bundle { version: "schema".to_owned(), specifier: format!("{SPECIFIER}schema"), source: None, schemas });
    let job = Job {
        bundle: &bundle,
        owner: owner.share(),
        endpoint: "schema",
        caller: None,
        by_owner: true,
        isolation: Isolation::Fresh,
        tier: Tier::default(),
        concurrency: LiveEndpoint::CONCURRENCY,
        start: check_start(Side::Output, Bytes::from(value.to_string()), Limits::default()),
    };
    run(pool, job, ValidationSubject::Upload).await
}

/// Returns the message that starts the validation of JSON text.
fn check_start(side: Side, body: Bytes, limits: Limits) -> Start {
    Start {
        call: String::new(),
        work: Work::Check(side),
        announced: false,
        streams: false,
        head: Bytes::new(),
        body,
        body_bytes: None,
        env: vec![],
        now_ms: 0,
        limits,
    }
}

async fn run(pool: &Pool, job: Job<'_>, asker: ValidationSubject<'_>) -> Result<(), ValidationError> {
    match pool.run(job, &NoGrants(asker)).await.map_err(ValidationError::Pool)?.outcome {
        Outcome::Returned(_) => Ok(()),
        Outcome::Invalid(_, problems) => Err(ValidationError::Mismatch(Mismatch { problems })),
        Outcome::Stopped(reason) => Err(ValidationError::Stopped(reason)),
        // No code ran that could throw.
        Outcome::Threw(_) => Err(ValidationError::Stopped(StopReason::Crashed)),
    }
}

impl Catalog {
    /// Validates the fixed answer of an endpoint against its schema before it is stored.
    pub(super) async fn check_static_response(&self, endpoint: Endpoint, bundle: Option<Arc<Bundle>>) -> Result<(), PublishError> {
        match endpoint.handler {
            Handler::Static(_) => self.check_response_of(&self.make_live(endpoint, bundle, Arc::default())?).await,
            Handler::Js { .. } | Handler::Builtin => Ok(()),
        }
    }

    /// Validates the fixed answer of `live` against its schema.
    pub(super) async fn check_response_of(&self, live: &LiveEndpoint) -> Result<(), PublishError> {
        let Handler::Static(response) = &live.endpoint.handler else { return Ok(()) };
        let value = DropOffThread::new(run_blocking(response.text().len(), || response.value()).await);
        let unfit = match live.output.check(&value) {
            // With rounded numbers, because not every number fits into the worker's values.
            Ok(()) => live.fits(&self.parts.pool, Side::Output, Bytes::from(value.to_string()), ValidationSubject::Upload).await,
            Err(mismatch) => Err(ValidationError::Mismatch(mismatch)),
        };
        unfit.map_err(response_error)
    }
}

/// Returns the error for a fixed answer that did not pass validation.
fn response_error(unfit: ValidationError) -> PublishError {
    match unfit {
        ValidationError::Mismatch(mismatch) => {
            PublishError::field("/handler/response", format!("the response does not match the `outputSchema`: {mismatch}"))
        }
        // The worker ended, which says nothing about the schema.
        ValidationError::Stopped(reason @ StopReason::Crashed) => PublishError::Pool(PoolError::Stopped(reason)),
        ValidationError::Stopped(reason) => PublishError::field("/outputSchema", format!("the response could not be checked: {reason}")),
        ValidationError::Pool(error) => error.into(),
    }
}

/// An op host that grants nothing.
struct NoGrants<'a>(ValidationSubject<'a>);

impl OpHost for NoGrants<'_> {
    fn op(&self, _request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        let failure = OpFailure::new("not_granted", "capabilities are not available during a check");
        Box::pin(std::future::ready(Err(failure)))
    }

    fn log(&self, _line: LogLine) {}

    fn progress(&self, _said: ProgressMessage) {}

    fn used(&self, cpu: Duration) {
        if let Some(turn) = self.0.turn() {
            turn.spent(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashed_worker_is_not_a_schema_error() {
        assert!(matches!(response_error(ValidationError::Stopped(StopReason::Crashed)), PublishError::Pool(_)));
        let slow = StopReason::SchemaTime { side: Side::Output, limit_ms: 1 };
        assert!(matches!(response_error(ValidationError::Stopped(slow)), PublishError::Field { .. }));
    }
}
