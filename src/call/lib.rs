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

mod completed;
mod content;
mod dry_run;
mod error;
mod fingerprint;
mod history;
mod in_flight;
mod input;
mod metrics;
mod new_call;
mod paid_before;
mod quote_desk;
mod quoted;
mod receipts;
mod register;
mod replay;
mod request;
pub mod run;
mod running_call;
#[cfg(test)]
mod tests;
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
    clock::Clock,
    cpu_share::CpuShares,
    id::{CallId, ReceiptId},
    offload::still_asked,
};
use tollhouse_capability::MeteredCharge;
use tollhouse_catalog::{Catalog, LiveEndpoint};
use tollhouse_money::SeenPayment;
use tollhouse_replica::Replica;
use tollhouse_store::StoreError;
use tollhouse_telemetry as telemetry;
use tollhouse_telemetry::{Stage, enter};
use tollhouse_tool::{Availability, Owner};

pub use self::{
    completed::CompletedCall,
    content::{Content, bodiless, chosen_headers, content_type, is_json_type, json_bytes},
    dry_run::DryRun,
    error::{CallError, ERROR_STATUS, PaidCause, PaidFailure},
    history::{CallPage, CallPosition, CallQuery, CallRecord, History, HistorySettings, OutcomeFilter, StoredCall},
    input::{Input, MAX_QUERY_FIELDS, Parsed as ParsedInput, check_query},
    metrics::{Metrics, MetricsSettings, RecentStats, Series, SeriesQuery, SeriesStep, StepError},
    quote_desk::{DeskParts, QuoteDesk, QuoteError},
    receipts::Receipts,
    register::{Registration, registration_terms},
    replay::ReplayRequest,
    request::{Call, CalledBy, Progress, RequestHead},
    run::{
        EndpointCounts, ReadinessClient, Runner,
        builtin::readiness::{
            check as check_readiness,
            seller::{Method as SellerMethod, SellerError, SellerQuote},
        },
    },
    running_call::RunningCall,
    write_behind::{WriteBehind, WriteBehindParts},
};
use self::{
    completed::SharedResult,
    history::Charge,
    in_flight::{InFlight, JoinEnd},
    new_call::{FailureReason, NewCall},
    run::{HandlerResult, SandboxCounts},
};
pub use tollhouse_money::{
    Admission, Admit, CallTerms, EntryMethod, OfferedPayment, PaymentRequest, Payments, Quotes, ReceiptContext, ReceiptFinisher, Refusal,
    SettleError, receipt, sale::FeeBps,
};

/// Returns the code of an error that the caller gets, for the record of a failed call.
pub type CodeOf = fn(&CallError) -> &'static str;

/// Performs calls.
pub struct Calls {
    catalog: Arc<Catalog>,
    payments: Arc<Payments>,
    builders: Arc<Builders>,
    quotes: Arc<Quotes>,
    runner: Runner,
    write_behind: Arc<WriteBehind>,
    fee: FeeBps,
    shares: Arc<CpuShares>,
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
    pub payments: Arc<Payments>,
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
    pub shares: Arc<CpuShares>,
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
        let CallParts { catalog, payments, builders, quotes, runner, write_behind, fee, shares, clock, code, replica } = parts;
        Arc::new(Self {
            catalog,
            payments,
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
    pub fn tally(&self) -> &SandboxCounts {
        self.runner.tally()
    }

    /// Finds a tool that takes calls. `by` returns the caller's role from the tool's owner.
    ///
    /// # Errors
    ///
    /// [`CallError::UnknownEndpoint`], [`CallError::Paused`], [`CallError::OwnerSuspended`],
    /// [`CallError::UnderReview`], [`CallError::TakenDown`]; and [`CallError::Store`] if it is not cached and its
    /// record cannot be read.
    pub async fn find(&self, slug: &str, by: impl FnOnce(&Owner) -> CalledBy + Send) -> Result<(Arc<LiveEndpoint>, CalledBy), CallError> {
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
    pub async fn perform(self: &Arc<Self>, call: Call) -> SharedResult {
        self.begin(call, CancellationToken::new(), ()).await
    }

    /// Begins a call that its caller can cancel. Once `cancel` is canceled, the handler is stopped and its payment
    /// released, and the call ends with [`CallError::Cancelled`]. If the handler has already ended, the call is settled
    /// as usual. Data that it has written stays. While others wait for the same call, it continues until the last of
    /// them is gone. A call that only joined another one cannot be canceled, and is awaited to its end.
    ///
    /// `kept` is dropped when the call has ended.
    pub fn begin(self: &Arc<Self>, call: Call, cancel: CancellationToken, stored: impl Send + 'static) -> RunningCall<CompletedCall> {
        let this = Arc::clone(self);
        let header = |name: &str| call.head.headers.get(name).map(String::as_str);
        let followed = telemetry::follow(header("traceparent"), header("tracestate"));
        // Boxed before it is passed on, so that the task holds only a pointer.
        let work = Box::pin(async move {
            let code = this.code;
            let ended = followed.during(this.run_local(call, cancel), |ended| outcome(ended, code)).await;
            drop(stored);
            ended
        });
        self.detached(work)
    }

    /// Runs `work` to its end even if nobody waits for it, and lets a drain wait for it. Separate tasks are spread over
    /// the cores better than calls on their connection's task.
    fn detached<T: Send + 'static>(&self, work: impl Future<Output = Result<T, Arc<CallError>>> + Send + 'static) -> RunningCall<T> {
        RunningCall(self.running.spawn(still_asked(work)))
    }

    /// Returns the number of calls, registrations and dry runs in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.running.len()
    }

    /// Waits until no call is in flight, at most `patience`. Returns true if none is left.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.running.close();
        tokio::time::timeout(timeout, self.running.wait()).await.is_ok()
    }

    /// Fails while this host may have stale prices or a wrong clock.
    fn is_callable(&self) -> Result<(), Arc<CallError>> {
        if self.replica.is_fenced() {
            let reason = "what other hosts of the store have changed is not heard of".to_owned();
            return Err(Arc::new(CallError::Store(StoreError::Away(reason))));
        }
        self.replica.clock_is_wrong().map_or(Ok(()), |reason| Err(Arc::new(CallError::NotReady(reason))))
    }

    async fn run_local(&self, mut call: Call, cancel: CancellationToken) -> SharedResult {
        self.is_callable()?;
        if self.replica.is_shared() {
            // The tool was found earlier, and the process may have been suspended since. Use its current price and
            // version. Another owner may have published under its name meanwhile; then the caller is not the owner.
            let before = &call.live.endpoint;
            let by = |owner: &Owner| if *owner == before.owner { call.by } else { CalledBy::Anyone };
            (call.live, call.by) = self.find(before.slug.as_str(), by).await.map_err(Arc::new)?;
        }
        let quoted = match self.under(&call.live.terms, call.quote.as_deref().filter(|_| call.by == CalledBy::Anyone)) {
            Ok(quoted) => quoted,
            Err(refused) => match Box::pin(self.paid_under(&call, refused)).await {
                // A call that was charged while the quote was valid runs without it.
                None => self.under(&call.live.terms, None).map_err(Arc::new)?,
                Some(ended) => return ended,
            },
        };
        let Call { live, by, entry_method: method, input, offered, head, from, progress, .. } = call;
        // Before a payment is admitted, so that a waiting or refused call holds nothing.
        let turn = self.shares.turn(from, live.usual_cost.get()).await.map_err(|over| Arc::new(over.into()))?;
        let charge = Arc::new(MeteredCharge::new(live.endpoint.max_price_usd));
        let task = NewCall {
            live,
            quoted,
            by,
            entry_method: method,
            head,
            from,
            progress,
            cancel,
            started: self.clock.now(),
            clock_start: Instant::now(),
            call: CallId::generate(),
            receipt: ReceiptId::generate(),
            payment: receipt::PaymentKind::Free,
            input_bytes: 0,
            charge,
            elapsed: OnceLock::new(),
            status: OnceLock::new(),
            turn,
        };
        telemetry::note("tollhouse.call.id", || task.call.to_string());
        telemetry::note("tollhouse.endpoint.slug", || task.live.endpoint.slug.to_string());
        // A tool that is free now may have been paid for earlier.
        if task.max().is_zero() && (task.by == CalledBy::Owner || !offered.repeatable()) {
            let (parsed, hash) = task.turn.during(input.read(&task.live)).await.map_err(Arc::new)?;
            let checked = parsed.check().map_err(Arc::new)?;
            return self.free(task, checked, hash).await.map_err(Arc::new);
        }
        // Boxed, here and below, because the future of a free call is moved into its task and should stay small.
        Box::pin(self.priced(task, input, offered)).await
    }

    async fn priced(&self, task: NewCall, input: Input, offered: OfferedPayment) -> SharedResult {
        if matches!(offered, OfferedPayment::Nothing) {
            return Err(Arc::new(self.unpaid(&task.quoted.terms, task.entry_method)));
        }
        let read = input.read_bound(&task.live, task.head.method, task.head.raw_query());
        let (parsed, hash, binding) = task.turn.during(read).await.map_err(Arc::new)?;
        let wall_ms = task.live.endpoint.limits.wall_ms;
        if task.max().is_zero() {
            return match self.earlier(&offered, &binding).await? {
                Some(SeenPayment::Owed(owed)) => self.owed(task, parsed, owed).await,
                Some(seen) => self.replay(seen, wall_ms).await,
                None => self.free(task, parsed.check().map_err(Arc::new)?, hash).await.map_err(Arc::new),
            };
        }
        let admission = loop {
            match self.admit(&task.quoted.terms, task.entry_method, offered.clone(), &binding, task.from).await? {
                Admit::Stored(payment, answer) => return Ok(CompletedCall::paid(payment, answer)),
                Admit::Run(admission) => break admission,
                Admit::Owed(owed) => return self.owed(task, parsed, owed).await,
                Admit::InFlight(payment) => match self.join_running(&payment, wall_ms).await {
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

    async fn free(&self, mut task: NewCall, input: input::Parsed, hash: String) -> Result<CompletedCall, CallError> {
        task.input_bytes = input.text.len();
        let ran = self.run(&task, input, None).await.inspect_err(|error| self.failed(&task, error))?;
        self.free_call(&task, hash, ran).await
    }

    /// Ends a call that nobody pays for.
    async fn free_call(&self, task: &NewCall, hash: String, ran: HandlerResult) -> Result<CompletedCall, CallError> {
        enter(Stage::Commit);
        let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
        let answer = CompletedCall::of(ran, &closing.receipt);
        if answer.success {
            self.write_behind.succeeded(closing).await.map_err(CallError::Store).inspect_err(|error| self.failed(task, error))?;
            self.record(task, None, Charge::No);
        } else {
            self.record_failed_call(task, FailureReason::answered());
        }
        Ok(answer)
    }

    async fn paid(
        &self,
        mut task: NewCall,
        parsed: input::Parsed,
        hash: String,
        mut admission: Admission,
    ) -> Result<CompletedCall, CallError> {
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
                self.record_failed_call(&task, FailureReason::answered());
                let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
                return Ok(CompletedCall::of(ran, &closing.receipt));
            }
        };
        if task.price().is_zero() {
            // The tool set a price of zero, so the offered payment is not used.
            admission.release().await;
            task.payment = receipt::PaymentKind::Free;
            return self.free_call(&task, hash, ran).await;
        }
        admission.charge(task.price());
        let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
        let answer = Arc::unwrap_or_clone(CompletedCall::of(ran, &closing.receipt).answer);
        let settled = self.payments.settle(admission, answer, &ReceiptFinisher::encode(&closing)).await;
        let answer = settled.map_err(|error| self.unsettled(&task.quoted.terms, task.entry_method, error)).inspect_err(|error| {
            // The gate has reported a refusal. An unknown outcome may still be a success.
            match error {
                CallError::Store(_) => self.failed(&task, error),
                CallError::SettlementUnknown(_) => self.record(&task, Some(self.reason(error)), Charge::Unknown),
                _ => self.record(&task, Some(self.reason(error)), Charge::No),
            }
        })?;
        self.record(&task, None, Charge::Yes);
        Ok(CompletedCall::paid(payment, answer))
    }

    /// Returns the error for an unpaid request of something that has a price under `terms`.
    #[must_use]
    pub fn unpaid(&self, terms: &CallTerms, method: EntryMethod) -> CallError {
        self.refused(terms, method, Refusal::NoPayment)
    }

    fn refused(&self, terms: &CallTerms, method: EntryMethod, refusal: Refusal) -> CallError {
        CallError::refused(refusal, |reason| self.payments.challenge(terms, method, reason))
    }

    fn unsettled(&self, terms: &CallTerms, method: EntryMethod, error: SettleError) -> CallError {
        CallError::unsettled(error, |reason| self.payments.challenge(terms, method, reason))
    }

    async fn admit(
        &self,
        terms: &CallTerms,
        method: EntryMethod,
        offered: OfferedPayment,
        binding: &str,
        from: IpAddr,
    ) -> Result<Admit, Arc<CallError>> {
        let request = PaymentRequest { binding, from: Some(from) };
        self.payments.admit(terms, offered, request).await.map_err(|refusal| Arc::new(self.refused(terms, method, refusal)))
    }

    /// Records an error of a call whose handler ran or would have run. It would not have if the input is invalid.
    fn failed(&self, task: &NewCall, error: &CallError) {
        if !matches!(error, CallError::Input(_)) {
            self.record_failed_call(task, self.reason(error));
        }
    }

    /// Returns why a call failed, as its caller gets it.
    fn reason(&self, error: &CallError) -> FailureReason {
        FailureReason::of((self.code)(error), error)
    }

    /// Records that a call failed.
    fn record_failed_call(&self, task: &NewCall, reason: FailureReason) {
        let code = reason.code;
        self.record(task, Some(reason), Charge::No);
        self.write_behind.failed(task.failed(code, self.clock.now()));
    }

    /// Records a call, as failed if `reason` is set.
    fn record(&self, task: &NewCall, reason: Option<FailureReason>, charged: Charge) {
        self.write_behind.ended(&task.live.endpoint.id, task.record(reason, charged, self.clock.now()));
    }
}

/// Returns the name of a call's outcome in metrics.
fn outcome(ended: &SharedResult, code: CodeOf) -> &'static str {
    match ended {
        Ok(CompletedCall { success: true, .. }) => "ok",
        Ok(_) => ERROR_STATUS,
        Err(error) => code(error),
    }
}
