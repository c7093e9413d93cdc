//! The pipeline: one call, from slug to receipt.
//!
//! ```text
//! find → admit payment → check input → run → check output → settle, receipt → answer
//! ```
//!
//! It does not depend on HTTP or JSON-RPC: both fronts call [`Calls::perform`]. A call runs on its own task, so that a
//! caller who disconnects cannot interrupt a settlement. Nothing is charged before the result has passed its schema.
//! Nothing is retried: the caller can repeat a call that was not charged.

#![warn(missing_docs)]

mod bought;
mod content;
mod desk;
mod digits;
mod done;
mod dry;
mod error;
mod history;
mod in_flight;
mod input;
mod metrics;
mod new_call;
mod paid_before;
mod quoted;
mod receipts;
mod register;
mod request;
pub mod run;
#[cfg(test)]
mod tests;
mod under_way;
mod with_payment;
mod write_behind;

use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tollhouse_account::builder::Builders;
use tollhouse_base::{
    aside::still_asked,
    clock::Clock,
    id::{CallId, ReceiptId},
    share::Shares,
};
use tollhouse_capability::Till;
use tollhouse_catalog::{Catalog, Live};
use tollhouse_money::Seen;
use tollhouse_replica::Replica;
use tollhouse_store::StoreError;
use tollhouse_telemetry as telemetry;
use tollhouse_telemetry::{Stage, enter};
use tollhouse_tool::{Availability, Owner};

pub use self::{
    bought::Asked,
    content::{Content, bodiless, chosen_headers, content_type, json_bytes, says_json},
    desk::{DeskParts, QuoteDesk, QuoteError},
    done::Done,
    dry::DryRun,
    error::{CallError, ERROR_STATUS, PaidCause, PaidFailure},
    history::{CallPage, CallPlace, CallQuery, CallRecord, Ending, History, HistorySettings, Placed},
    input::{Input, MAX_QUERY_FIELDS, Parsed as ParsedInput, check_query},
    metrics::{Figures, Metrics, MetricsSettings, Series, SeriesQuery, Step, StepError},
    receipts::Receipts,
    register::{Registration, registration_terms},
    request::{Call, CalledBy, Progress, RequestHead},
    run::{
        Counts, ReadinessClient, Runner,
        builtin::readiness::{
            check as check_readiness,
            seller::{Method as SellerMethod, SellerError, SellerQuote},
        },
    },
    under_way::UnderWay,
    write_behind::{WriteBehind, WriteBehindParts},
};
use self::{
    done::Shared,
    history::Charge,
    in_flight::{InFlight, JoinEnd},
    new_call::{NewCall, Why},
    run::{Produced, Tally},
};
pub use tollhouse_money::{
    Admission, Admit, Closing, Gate, Offered, Quotes, ReceiptFinisher, Refusal, Request, SettleError, Terms, Way, receipt, sale::FeeBps,
};

/// Returns the code of an error that the caller gets, for the record of a failed call.
pub type CodeOf = fn(&CallError) -> &'static str;

/// Performs calls.
pub struct Calls {
    catalog: Arc<Catalog>,
    gate: Arc<Gate>,
    builders: Arc<Builders>,
    quotes: Arc<Quotes>,
    runner: Runner,
    write_behind: Arc<WriteBehind>,
    fee: FeeBps,
    shares: Arc<Shares>,
    clock: Clock,
    code: CodeOf,
    replica: Arc<Replica>,
    in_flight: InFlight,
    /// Calls and dry runs in flight.
    running: TaskTracker,
}

/// The dependencies of calls.
#[derive(Debug)]
pub struct CallParts {
    /// The tools.
    pub catalog: Arc<Catalog>,
    /// Admits and settles payments.
    pub gate: Arc<Gate>,
    /// Builders, for registrations.
    pub builders: Arc<Builders>,
    /// Quotes.
    pub quotes: Arc<Quotes>,
    /// Runs handlers.
    pub runner: Runner,
    /// Writes records after the answers.
    pub write_behind: Arc<WriteBehind>,
    /// The host's fee on each sale.
    pub fee: FeeBps,
    /// Each address's use of the processors.
    pub shares: Arc<Shares>,
    /// Clock.
    pub clock: Clock,
    /// Returns error codes for records of calls.
    pub code: CodeOf,
    /// Knows whether cached state may be stale.
    pub replica: Arc<Replica>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    /// Constructs the pipeline.
    #[must_use]
    pub fn new(parts: CallParts) -> Arc<Self> {
        let CallParts { catalog, gate, builders, quotes, runner, write_behind, fee, shares, clock, code, replica } = parts;
        Arc::new(Self {
            catalog,
            gate,
            builders,
            quotes,
            runner,
            write_behind,
            fee,
            shares,
            clock,
            code,
            replica,
            in_flight: InFlight::default(),
            running: TaskTracker::new(),
        })
    }

    /// Returns the sandbox's counts per tool.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        self.runner.tally()
    }

    /// Finds a tool that takes calls. `by` returns the caller's role from the tool's owner.
    ///
    /// # Errors
    ///
    /// [`CallError::UnknownEndpoint`], [`CallError::Paused`], [`CallError::OwnerSuspended`],
    /// [`CallError::UnderReview`], [`CallError::TakenDown`]; and [`CallError::Store`] if it is not cached and its
    /// record cannot be read.
    pub async fn find(&self, slug: &str, by: impl FnOnce(&Owner) -> CalledBy + Send) -> Result<(Arc<Live>, CalledBy), CallError> {
        let live = self.catalog.find(slug).await.map_err(CallError::Store)?.ok_or_else(|| CallError::unknown_endpoint(slug))?;
        let by = by(&live.endpoint.owner);
        match live.endpoint.availability() {
            Availability::Active => Ok((live, by)),
            Availability::Paused if by == CalledBy::Owner => Ok((live, by)),
            Availability::Paused => Err(CallError::Paused(live.endpoint.slug.clone())),
            Availability::OwnerSuspended => Err(CallError::OwnerSuspended(live.endpoint.slug.clone())),
            Availability::UnderReview => Err(CallError::UnderReview(live.endpoint.slug.clone())),
            Availability::TakenDown => Err(CallError::TakenDown(live.endpoint.slug.clone())),
        }
    }

    /// Performs a call on its own task. Dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// Why it ended without a result.
    pub async fn perform(self: &Arc<Self>, call: Call) -> Shared {
        self.begin(call, CancellationToken::new(), ()).await
    }

    /// Begins a call that its caller can cancel. Once `cancel` is canceled, the handler is stopped and its payment
    /// released, and the call ends with [`CallError::Cancelled`]. If the handler has already ended, the call is settled
    /// as usual. Data that it has written stays. While others wait for the same call, it continues until the last of
    /// them is gone. A call that only joined another one cannot be canceled, and is awaited to its end.
    ///
    /// `kept` is dropped when the call has ended.
    pub fn begin(self: &Arc<Self>, call: Call, cancel: CancellationToken, kept: impl Send + 'static) -> UnderWay<Done> {
        let this = Arc::clone(self);
        let header = |name: &str| call.head.headers.get(name).map(String::as_str);
        let followed = telemetry::follow(header("traceparent"), header("tracestate"));
        // Boxed before it is passed on, so that the task holds only a pointer.
        let work = Box::pin(async move {
            let code = this.code;
            let ended = followed.during(this.perform_here(call, cancel), |ended| outcome(ended, code)).await;
            drop(kept);
            ended
        });
        self.detached(work)
    }

    /// Runs `work` to its end even if nobody waits for it, and lets a drain wait for it. Separate tasks are spread over
    /// the cores better than calls on their connection's task.
    fn detached<T: Send + 'static>(&self, work: impl Future<Output = Result<T, Arc<CallError>>> + Send + 'static) -> UnderWay<T> {
        UnderWay(self.running.spawn(still_asked(work)))
    }

    /// Returns the number of calls, registrations and dry runs in flight.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.running.len()
    }

    /// Waits until no call is in flight, at most `patience`. Returns true if none is left.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.running.close();
        tokio::time::timeout(patience, self.running.wait()).await.is_ok()
    }

    /// Fails while this host may have stale prices or a wrong clock.
    fn takes_calls(&self) -> Result<(), Arc<CallError>> {
        if self.replica.is_fenced() {
            let why = "what other hosts of the store have changed is not heard of".to_owned();
            return Err(Arc::new(CallError::Store(StoreError::Away(why))));
        }
        self.replica.clock_is_wrong().map_or(Ok(()), |why| Err(Arc::new(CallError::NotReady(why))))
    }

    async fn perform_here(&self, mut call: Call, cancel: CancellationToken) -> Shared {
        self.takes_calls()?;
        if self.replica.is_shared() {
            // The tool was found earlier, and the process may have been suspended since. Use its current price and
            // version. Another owner may have published under its name meanwhile; then the caller is not the owner.
            let before = &call.live.endpoint;
            let by = |owner: &Owner| if *owner == before.owner { call.by } else { CalledBy::Anyone };
            (call.live, call.by) = self.find(before.slug.as_str(), by).await.map_err(Arc::new)?;
        }
        let quoted = match self.under(&call.live.terms, call.quote.as_deref().filter(|_| call.by == CalledBy::Anyone)) {
            Ok(quoted) => quoted,
            Err(refused) => match Box::pin(self.bought_under(&call, refused)).await {
                // A call that was charged while the quote was valid runs without it.
                None => self.under(&call.live.terms, None).map_err(Arc::new)?,
                Some(ended) => return ended,
            },
        };
        let Call { live, by, way, input, offered, head, from, progress, .. } = call;
        // Before a payment is admitted, so that a waiting or refused call holds nothing.
        let turn = self.shares.turn(from, live.usual_cost.get()).await.map_err(|over| Arc::new(over.into()))?;
        let till = Arc::new(Till::new(live.endpoint.max_price_usd));
        let task = NewCall {
            live,
            quoted,
            by,
            way,
            head,
            from,
            progress,
            cancel,
            started: self.clock.now(),
            begun: Instant::now(),
            call: CallId::generate(),
            receipt: ReceiptId::generate(),
            payment: receipt::Kind::Free,
            input_bytes: 0,
            till,
            took: OnceLock::new(),
            status: OnceLock::new(),
            turn,
        };
        telemetry::note("tollhouse.call.id", || task.call.to_string());
        telemetry::note("tollhouse.endpoint.slug", || task.live.endpoint.slug.to_string());
        // A tool that is free now may have been paid for earlier.
        if task.most().is_zero() && (task.by == CalledBy::Owner || !offered.repeatable()) {
            let (parsed, hash) = task.turn.during(input.read(&task.live)).await.map_err(Arc::new)?;
            let checked = parsed.check().map_err(Arc::new)?;
            return self.free(task, checked, hash).await.map_err(Arc::new);
        }
        // Boxed, here and below, because the future of a free call is moved into its task and should stay small.
        Box::pin(self.priced(task, input, offered)).await
    }

    async fn priced(&self, task: NewCall, input: Input, offered: Offered) -> Shared {
        if matches!(offered, Offered::Nothing) {
            return Err(Arc::new(self.unpaid(&task.quoted.terms, task.way)));
        }
        let read = input.read_bound(&task.live, task.head.method, task.head.raw_query());
        let (parsed, hash, binding) = task.turn.during(read).await.map_err(Arc::new)?;
        let wall_ms = task.live.endpoint.limits.wall_ms;
        if task.most().is_zero() {
            return match self.earlier(&offered, &binding).await? {
                Some(Seen::Owed(owed)) => self.owed(task, parsed, owed).await,
                Some(seen) => self.again(seen, wall_ms).await,
                None => self.free(task, parsed.check().map_err(Arc::new)?, hash).await.map_err(Arc::new),
            };
        }
        let admission = loop {
            match self.admit(&task.quoted.terms, task.way, offered.clone(), &binding, task.from).await? {
                Admit::Stored(payment, answer) => return Ok(Done::paid(payment, answer)),
                Admit::Run(admission) => break admission,
                Admit::Owed(owed) => return self.owed(task, parsed, owed).await,
                Admit::InFlight(payment) => match self.try_join(&payment, wall_ms).await {
                    JoinEnd::Shared(ended) => return ended,
                    // Its caller canceled it before this one came.
                    JoinEnd::Abandoned => {}
                },
            }
        };
        let tracked = self.in_flight.track(admission.id());
        let ended = self.paid(task, parsed, hash, admission).await.map_err(Arc::new);
        tracked.end(ended.clone());
        ended
    }

    async fn free(&self, mut task: NewCall, input: input::Parsed, hash: String) -> Result<Done, CallError> {
        task.input_bytes = input.text.len();
        let ran = self.run(&task, input, None).await.inspect_err(|error| self.failed(&task, error))?;
        self.for_nothing(&task, hash, ran).await
    }

    /// Ends a call that nobody pays for.
    async fn for_nothing(&self, task: &NewCall, hash: String, ran: Produced) -> Result<Done, CallError> {
        enter(Stage::Commit);
        let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
        let answer = Done::of(ran, &closing.receipt);
        if answer.success {
            self.write_behind.succeeded(closing).await.map_err(CallError::Store).inspect_err(|error| self.failed(task, error))?;
            self.record(task, None, Charge::No);
        } else {
            self.came_to_nothing(task, Why::answered());
        }
        Ok(answer)
    }

    async fn paid(&self, mut task: NewCall, parsed: input::Parsed, hash: String, mut admission: Admission) -> Result<Done, CallError> {
        let payment = admission.id().clone();
        (task.payment, task.input_bytes) = (admission.kind(), parsed.text.len());
        let checked = match parsed.check() {
            Ok(checked) => checked,
            Err(error) => {
                admission.release().await;
                return Err(error);
            }
        };
        if task.quoted.terms.is_upfront() {
            return Box::pin(self.paid_before(task, checked, hash, admission)).await;
        }
        let ran = match self.run(&task, checked, Some((&admission).into())).await {
            Ok(ran) if ran.success() => ran,
            // Not charged, because the tool failed or reported a failure.
            other => {
                enter(Stage::Commit);
                match &other {
                    Err(error) if !error.is_of_a_run() => admission.release().await,
                    _ => admission.fail().await,
                }
                let ran = other.inspect_err(|error| self.failed(&task, error))?;
                self.came_to_nothing(&task, Why::answered());
                let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
                return Ok(Done::of(ran, &closing.receipt));
            }
        };
        if task.price().is_zero() {
            // The tool set a price of zero, so the offered payment is not used.
            admission.release().await;
            task.payment = receipt::Kind::Free;
            return self.for_nothing(&task, hash, ran).await;
        }
        admission.charge(task.price());
        let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
        let answer = Arc::unwrap_or_clone(Done::of(ran, &closing.receipt).answer);
        let settled = self.gate.settle(admission, answer, &ReceiptFinisher::encode(&closing)).await;
        let answer = settled.map_err(|error| self.unsettled(&task.quoted.terms, task.way, error)).inspect_err(|error| {
            // The gate has reported a refusal. An unknown outcome may still be a success.
            match error {
                CallError::Store(_) => self.failed(&task, error),
                CallError::SettlementUnknown(_) => self.record(&task, Some(self.why(error)), Charge::Unknown),
                _ => self.record(&task, Some(self.why(error)), Charge::No),
            }
        })?;
        self.record(&task, None, Charge::Yes);
        Ok(Done::paid(payment, answer))
    }

    /// Returns the error for an unpaid request of something that has a price under `terms`.
    #[must_use]
    pub fn unpaid(&self, terms: &Terms, way: Way) -> CallError {
        self.refused(terms, way, Refusal::NoPayment)
    }

    fn refused(&self, terms: &Terms, way: Way, refusal: Refusal) -> CallError {
        CallError::refused(refusal, |reason| self.gate.challenge(terms, way, reason))
    }

    fn unsettled(&self, terms: &Terms, way: Way, error: SettleError) -> CallError {
        CallError::unsettled(error, |reason| self.gate.challenge(terms, way, reason))
    }

    async fn admit(&self, terms: &Terms, way: Way, offered: Offered, binding: &str, from: IpAddr) -> Result<Admit, Arc<CallError>> {
        let request = Request { binding, from: Some(from) };
        self.gate.admit(terms, offered, request).await.map_err(|refusal| Arc::new(self.refused(terms, way, refusal)))
    }

    /// Records an error of a call whose handler ran or would have run. It would not have if the input is invalid.
    fn failed(&self, task: &NewCall, error: &CallError) {
        if !matches!(error, CallError::Input(_)) {
            self.came_to_nothing(task, self.why(error));
        }
    }

    /// Returns why a call failed, as its caller gets it.
    fn why(&self, error: &CallError) -> Why {
        Why::of((self.code)(error), error)
    }

    /// Records that a call failed.
    fn came_to_nothing(&self, task: &NewCall, why: Why) {
        let code = why.code;
        self.record(task, Some(why), Charge::No);
        self.write_behind.failed(task.failed(code, self.clock.now()));
    }

    /// Records a call, as failed if `why` is set.
    fn record(&self, task: &NewCall, why: Option<Why>, charged: Charge) {
        self.write_behind.ended(&task.live.endpoint.id, task.record(why, charged, self.clock.now()));
    }
}

/// Returns the name of a call's outcome in metrics.
fn outcome(ended: &Shared, code: CodeOf) -> &'static str {
    match ended {
        Ok(Done { success: true, .. }) => "ok",
        Ok(_) => ERROR_STATUS,
        Err(error) => code(error),
    }
}
