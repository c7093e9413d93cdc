//! Whether a value fits an endpoint's schema, where no handler of its own is asked: the endpoint's worker tells.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tollhouse_base::share::Turn;
use tollhouse_pool::{Job, OpHost, Pool, PoolError};
use tollhouse_protocol::{Bundle, Isolation, LogLine, OpFailure, OpRequest, OpValue, Outcome, Said, Side, Start, StopReason, Work};
use tollhouse_tool::{Endpoint, Handler, Mismatch};

use super::{Catalog, Live, PublishError};

/// Why a value is not known to fit.
#[derive(Debug)]
pub enum Unfit {
    /// The value does not fit.
    Mismatch(Mismatch),
    /// The schema took more than a call may spend, or its worker ended.
    Stopped(StopReason),
    /// It was not looked at.
    Pool(PoolError),
}

/// For whom a value is held against its schema.
#[derive(Debug, Clone, Copy)]
pub enum Asker<'a> {
    /// A call, which may have been paid for, in the turn of its caller.
    Call(&'a Turn),
    /// A dry run, in the turn of its owner.
    DryRun(&'a Turn),
    /// An upload: whoever publishes pays with its turn for all of it.
    Upload,
}

impl<'a> Asker<'a> {
    fn turn(self) -> Option<&'a Turn> {
        match self {
            Self::Call(turn) | Self::DryRun(turn) => Some(turn),
            Self::Upload => None,
        }
    }
}

impl Live {
    /// Calls of one endpoint under way at once.
    pub const CONCURRENCY: usize = 64;

    /// Whether JSON `text` fits the schema of `side`, under the limits of a call.
    ///
    /// # Errors
    ///
    /// [`Unfit`]; never for a schema of which the host can tell by itself, see [`Shape`](tollhouse_tool::Shape).
    pub async fn fits(&self, pool: &Pool, side: Side, text: Bytes, asker: Asker<'_>) -> Result<(), Unfit> {
        let Some(bundle) = self.bundle.as_ref().filter(|bundle| bundle.schemas.get(side).is_some()) else { return Ok(()) };
        let endpoint = &self.endpoint;
        // What a draft does wrong is held against no call of its endpoint, and it shares no process with one.
        let (key, isolation) = match asker {
            Asker::Call(_) => (endpoint.id.as_str(), Isolation::Warm),
            Asker::DryRun(_) | Asker::Upload => (&*format!("{}/dry", endpoint.id), Isolation::Fresh),
        };
        let job = Job {
            bundle,
            owner: endpoint.owner.share(),
            endpoint: key,
            caller: asker.turn().map(Turn::address),
            by_owner: !matches!(asker, Asker::Call(_)),
            isolation,
            tier: endpoint.tier,
            concurrency: Self::CONCURRENCY,
            start: Start {
                call: String::new(),
                work: Work::Check(side),
                announced: false,
                head: Bytes::new(),
                body: text,
                env: vec![],
                now_ms: 0,
                limits: endpoint.limits,
            },
        };
        match pool.run(job, &Checking(asker)).await.map_err(Unfit::Pool)?.outcome {
            Outcome::Returned(_) => Ok(()),
            Outcome::Unfit(_, problems) => Err(Unfit::Mismatch(Mismatch { problems })),
            Outcome::Stopped(reason) => Err(Unfit::Stopped(reason)),
            // Nothing ran that could throw.
            Outcome::Threw(_) => Err(Unfit::Stopped(StopReason::Crashed)),
        }
    }
}

impl Catalog {
    /// Whether what an endpoint always answers, if it is always the same, is what it promises: before it is stored.
    pub(super) async fn promises_kept(&self, endpoint: Endpoint, bundle: Option<Arc<Bundle>>) -> Result<(), PublishError> {
        match endpoint.handler {
            Handler::Static(_) => self.answers_fit(&self.make_live(endpoint, bundle, Arc::default())?).await,
            Handler::Js { .. } | Handler::Builtin => Ok(()),
        }
    }

    /// Whether what `live` always answers, if it is always the same, is what it promises.
    pub(super) async fn answers_fit(&self, live: &Live) -> Result<(), PublishError> {
        let Handler::Static(response) = &live.endpoint.handler else { return Ok(()) };
        let unfit = match live.output.check(response) {
            Ok(()) => live.fits(&self.pool, Side::Output, Bytes::from(response.to_string()), Asker::Upload).await,
            Err(mismatch) => Err(Unfit::Mismatch(mismatch)),
        };
        unfit.map_err(unpromised)
    }
}

/// Why a response is not known to be what its endpoint promises.
fn unpromised(unfit: Unfit) -> PublishError {
    match unfit {
        Unfit::Mismatch(mismatch) => {
            PublishError::field("/handler/response", format!("the response does not fit the outputSchema: {mismatch}"))
        }
        // The worker ended, which says nothing of the schema.
        Unfit::Stopped(reason @ StopReason::Crashed) => PublishError::Pool(PoolError::Stopped(reason)),
        Unfit::Stopped(reason) => PublishError::field("/outputSchema", format!("the response could not be checked: {reason}")),
        Unfit::Pool(error) => error.into(),
    }
}

/// Grants nothing.
struct Checking<'a>(Asker<'a>);

impl OpHost for Checking<'_> {
    fn op(&self, _request: OpRequest) -> BoxFuture<'_, Result<OpValue, OpFailure>> {
        let failure = OpFailure::new("not_granted", "nothing is granted to a check");
        Box::pin(std::future::ready(Err(failure)))
    }

    fn log(&self, _line: LogLine) {}

    fn progress(&self, _said: Said) {}

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
    fn a_schema_is_not_blamed_for_a_worker_that_ended() {
        assert!(matches!(unpromised(Unfit::Stopped(StopReason::Crashed)), PublishError::Pool(_)));
        let slow = StopReason::SchemaTime { side: Side::Output, limit_ms: 1 };
        assert!(matches!(unpromised(Unfit::Stopped(slow)), PublishError::Field { .. }));
    }
}
