//! The pipeline: one call, from slug to receipt.
//!
//! ```text
//! find → admit payment → check input → run → check output → settle, receipt → answer
//! ```
//!
//! An x402 payment is not verified if the host finds that the input does not match the schema.
//!
//! It does not depend on HTTP or JSON-RPC: both fronts call [`Calls::perform`]. A call runs on its own task, so that a
//! caller who disconnects cannot interrupt a settlement. Nothing is charged before the result has passed its schema.
//! Nothing is retried: the caller can repeat a call that was not charged.

mod answer_head;
mod completed;
mod content;
mod error;
mod execute;
mod history;
mod in_flight;
mod input;
mod joins;
mod metrics;
mod new_call;
mod paid_before;
mod quote_desk;
mod raw_body;
mod receipts;
mod register;
mod replay;
mod request;
mod run;
mod scheduled;
mod scheduled_runs;
mod settled_after;
mod stream;
mod streamed;
#[cfg(test)]
mod tests;
mod write_behind;

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tollhouse_account::builder::Builders;
use tollhouse_base::{
    clock::Clock,
    cpu_share::CpuShares,
    id::{CallId, ReceiptId},
    offload::for_same_client,
};
use tollhouse_capability::MeteredCharge;
use tollhouse_catalog::{Catalog, LiveEndpoint};
use tollhouse_money::{SeenPayment, refund::Refunds};
use tollhouse_replica::Replica;
use tollhouse_store::StoreError;
use tollhouse_telemetry as telemetry;
use tollhouse_tool::{Availability, Owner};

use self::{
    completed::SharedResult,
    history::Charge,
    in_flight::{InFlight, JoinEnd},
    joins::Waiter,
    new_call::{FailureReason, NewCall},
    run::SandboxCounts,
    scheduled_runs::ScheduledRuns,
    stream::StreamPlaces,
};
pub use self::{
    completed::{CompletedCall, RunningCall},
    content::{Content, bodiless, chosen_headers, content_type, is_json_type, json_bytes},
    error::{CallError, ERROR_STATUS, JoinsFull, PaidCause, PaidFailure},
    execute::DryRun,
    history::{CallPage, CallPosition, CallQuery, History, HistorySettings, OutcomeFilter, StoredCall},
    input::{Input, MAX_QUERY_FIELDS, Parsed as ParsedInput, check_query},
    joins::JoinLimits,
    metrics::{Metrics, MetricsSettings, RecentStats, SeriesQuery, SeriesStep, StepError},
    quote_desk::{DeskParts, QuoteDesk, QuoteError},
    raw_body::RawBody,
    receipts::Receipts,
    register::{Registration, registration_terms},
    replay::ReplayRequest,
    request::{Call, CalledBy, Progress, RequestHead},
    run::{
        EndpointCounts, ReadinessClient, Runner,
        builtin::readiness::{
            check as check_readiness,
            seller::{SellerError, SellerQuote},
        },
    },
    stream::{StreamSender, StreamSettings, StreamedAnswer, StreamedChunks},
    write_behind::{WriteBehind, WriteBehindParts},
};
pub use tollhouse_money::{
    Admission, Admit, CallTerms, EntryMethod, OfferedPayment, PaymentRequest, Payments, Quotes, ReceiptContext, ReceiptFinisher, Refusal,
    SettleError, receipt, sale::FeeBps,
};

/// Returns the code of an error that the caller gets, for the record of a failed call.
pub type CodeOf = fn(&CallError) -> &'static str;

pub struct Calls {
    parts: CallParts,
    in_flight: InFlight,
    /// Calls, scheduled runs and dry runs in flight.
    running: TaskTracker,
    scheduled: ScheduledRuns,
    /// The places of answers that are being streamed.
    streams: StreamPlaces,
}

pub struct CallParts {
    pub catalog: Arc<Catalog>,
    pub payments: Arc<Payments>,
    pub builders: Arc<Builders>,
    pub quotes: Arc<Quotes>,
    pub runner: Runner,
    pub write_behind: Arc<WriteBehind>,
    /// The host's fee on each sale.
    pub fee: FeeBps,
    /// Each address's use of the processors.
    pub shares: Arc<CpuShares>,
    pub clock: Clock,
    /// Returns error codes for records of calls.
    pub code: CodeOf,
    pub replica: Arc<Replica>,
    /// Limits on requests that wait for running calls of their payments.
    pub joins: JoinLimits,
    /// Refunds streams that their tools have broken off.
    pub refunds: Arc<Refunds>,
    /// Limits on streamed answers.
    pub streams: StreamSettings,
}

impl Calls {
    pub fn new(parts: CallParts) -> Arc<Self> {
        let (in_flight, streams) = (InFlight::new(parts.joins), StreamPlaces::new(&parts.streams));
        Arc::new(Self { parts, in_flight, running: TaskTracker::new(), scheduled: ScheduledRuns::new(), streams })
    }

    pub fn tally(&self) -> &SandboxCounts {
        self.parts.runner.tally()
    }

    /// Finds a tool that takes calls. `by` returns the caller's role from the tool's owner.
    ///
    /// # Errors
    ///
    /// [`CallError::UnknownEndpoint`] and [`CallError::Paused`]; and [`CallError::Store`] or [`CallError::SourceLost`] if it
    /// is not cached and its record or source cannot be read. Fails at once while the store is known to be down.
    pub async fn find(&self, slug: &str, by: impl FnOnce(&Owner) -> CalledBy + Send) -> Result<(Arc<LiveEndpoint>, CalledBy), CallError> {
        let live = match self.parts.catalog.find_cached(slug) {
            Some(live) => live,
            None => {
                // A store that does not answer would delay the refusal by seconds.
                self.check_contact()?;
                self.parts.catalog.find(slug).await?.ok_or_else(|| CallError::unknown_endpoint(slug))?
            }
        };
        let by = by(&live.endpoint.owner);
        let reason = match live.endpoint.availability() {
            Availability::Active => return Ok((live, by)),
            Availability::Paused if by == CalledBy::Owner => return Ok((live, by)),
            Availability::Paused => "",
            Availability::OwnerSuspended => ": its builder is suspended",
            Availability::UnderReview => ": it is under review",
            Availability::TakenDown => ": it was taken down",
        };
        Err(CallError::Paused(live.endpoint.slug.clone(), reason))
    }

    /// Performs a call on its own task. Dropping the future does not stop it.
    pub fn perform<'a>(self: &'a Arc<Self>, call: Call) -> BoxFuture<'a, SharedResult> {
        Box::pin(async move { self.begin(call, CancellationToken::new(), ()).await })
    }

    /// Begins a call that its caller can cancel. Once `cancel` is canceled, the handler is stopped and its payment
    /// released, and the call ends with [`CallError::Cancelled`]. If the handler has already ended, or its payer has too
    /// many unpaid runs, the call is settled as usual. Data that it has written stays. While others wait for the same
    /// call, it continues until the last of them is gone. A call that only joined another one cannot be canceled: it
    /// waits until the other one ends or the returned handle is dropped.
    ///
    /// `guard` is dropped when the call has ended.
    pub fn begin(self: &Arc<Self>, call: Call, cancel: CancellationToken, guard: impl Send + 'static) -> RunningCall<CompletedCall> {
        // Not generic beyond this line: otherwise everything that a call does is compiled again for each type of guard.
        self.begin_guarded(call, cancel, Box::new(guard))
    }

    fn begin_guarded(self: &Arc<Self>, call: Call, cancel: CancellationToken, guard: Box<dyn Send>) -> RunningCall<CompletedCall> {
        let this = Arc::clone(self);
        let header = |name: &str| call.head.headers.get(name).map(String::as_str);
        let followed = telemetry::follow(header("traceparent"), header("tracestate"));
        // Boxed before it is passed on, so that the task holds only a pointer.
        self.detached(|gone| {
            Box::pin(async move {
                let code = this.parts.code;
                let ended = followed.during(this.run_local(call, cancel, gone), |ended| outcome(ended, code)).await;
                drop(guard);
                ended
            })
        })
    }

    /// Runs `work` to its end even if nobody waits for it, and lets a drain wait for it. Separate tasks are spread over
    /// the cores better than calls on their connection's task. The token that `work` gets is canceled once nobody waits.
    fn detached<T: Send + 'static, F>(&self, work: impl FnOnce(CancellationToken) -> F) -> RunningCall<T>
    where
        F: Future<Output = Result<T, Arc<CallError>>> + Send + 'static,
    {
        let gone = CancellationToken::new();
        let caller = gone.clone().drop_guard();
        RunningCall { task: self.running.spawn(for_same_client(work(gone))), _caller: caller }
    }

    /// Returns the number of calls, registrations and dry runs in flight.
    pub fn in_flight(&self) -> usize {
        self.running.len()
    }

    /// Waits until no call is in flight and none works after its answer, at most `timeout`. Returns true if none is left.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.running.close();
        let ended = async {
            self.running.wait().await;
            self.parts.runner.background_ended().await;
        };
        tokio::time::timeout(timeout, ended).await.is_ok()
    }

    /// Fails while this host does not reach the store, so that it may have stale prices.
    fn check_contact(&self) -> Result<(), CallError> {
        match self.parts.replica.is_fenced() {
            true => Err(StoreError::Away("this host does not receive changes from other hosts".to_owned()).into()),
            false => Ok(()),
        }
    }

    /// Fails while this host may have stale prices or a wrong clock.
    fn check_callable(&self) -> Result<(), CallError> {
        self.check_contact()?;
        self.parts.replica.clock_is_wrong().map_or(Ok(()), |reason| Err(CallError::NotReady(reason)))
    }

    async fn run_local(&self, mut call: Call, cancel: CancellationToken, gone: CancellationToken) -> SharedResult {
        self.check_callable().map_err(|error| error.before_lookup(&call.offered))?;
        if self.parts.replica.is_shared() {
            // The tool was found earlier, and the process may have been suspended since. Use its current price and
            // version. Another owner may have published under its name meanwhile; then the caller is not the owner.
            let before = &call.live.endpoint;
            let by = |owner: &Owner| if *owner == before.owner { call.by } else { CalledBy::Anyone };
            (call.live, call.by) = self.find(before.slug.as_str(), by).await?;
        }
        let waiter = Waiter { from: call.from, gone };
        let quoted = match self.under(&call.live.terms, call.quote.as_deref().filter(|_| call.by == CalledBy::Anyone)) {
            Ok(quoted) => quoted,
            Err(refused) => match Box::pin(self.paid_under(&call, refused, &waiter)).await {
                // A call that was charged while the quote was valid runs without it.
                None => self.under(&call.live.terms, None)?,
                Some(ended) => return ended,
            },
        };
        let Call { live, by, entry_method, input, offered, head, from, progress, stream, .. } = call;
        // Before a payment is admitted, so that a waiting or refused call holds nothing.
        let turn = self.parts.shares.turn(from, live.usual_cost.get()).await;
        let turn = turn.map_err(|over| CallError::from(over).before_lookup(&offered))?;
        let task = NewCall {
            charge: Arc::new(MeteredCharge::new(live.endpoint.max_price_usd)),
            live,
            quoted,
            by,
            entry_method,
            head,
            from,
            progress,
            stream,
            cancel,
            started: self.parts.clock.now(),
            clock_start: Instant::now(),
            call: CallId::generate(),
            receipt: ReceiptId::generate(),
            payment: receipt::PaymentKind::Free,
            input_bytes: 0,
            elapsed: OnceLock::new(),
            status: OnceLock::new(),
            turn,
        };
        telemetry::note("tollhouse.call.id", || task.call.to_string());
        telemetry::note("tollhouse.endpoint.slug", || task.live.endpoint.slug.to_string());
        // A tool that is free now may have been paid for earlier.
        if task.max().is_zero() && (task.by == CalledBy::Owner || !offered.repeatable()) {
            let (parsed, hash) = task.turn.during(input.read(&task.live)).await?;
            return Ok(self.free(task, parsed.check()?, hash).await?);
        }
        // Boxed, here and below, because the future of a free call is moved into its task and should stay small.
        Box::pin(self.priced(task, input, offered, &waiter)).await
    }

    async fn priced(&self, task: NewCall, input: Input, offered: OfferedPayment, waiter: &Waiter) -> SharedResult {
        if matches!(offered, OfferedPayment::Nothing) {
            return Err(self.unpaid(&task.quoted.terms, task.entry_method).into());
        }
        if !offered.repeatable() {
            input.check_size(&task.live.endpoint.limits)?;
        }
        let read = input.read_bound(&task.live, task.head.method, task.head.raw_query());
        let (mut parsed, hash, binding) = task.turn.during(read).await?;
        let (wall_ms, is_free) = (task.live.endpoint.limits.wall_ms, task.max().is_zero());
        // Verifying a payment costs requests, and reserving one a row, so neither is done for an input with which no run can
        // begin.
        if is_free || !parsed.fits() {
            match self.earlier(&offered, &binding).await? {
                Some(SeenPayment::Owed(owed)) => return self.owed(task, parsed, owed, waiter).await,
                Some(seen) => return self.replay(seen, wall_ms, waiter).await,
                None => parsed = parsed.check()?,
            }
            if is_free {
                return Ok(self.free(task, parsed, hash).await?);
            }
        }
        let admission = loop {
            match self.admit(&task.quoted.terms, task.entry_method, offered.clone(), &binding, task.from).await? {
                Admit::Run(admission) => break admission,
                Admit::Seen(SeenPayment::Stored(payment, answer)) => return Ok(CompletedCall::paid(payment, answer)),
                Admit::Seen(SeenPayment::Owed(owed)) => return self.owed(task, parsed, owed, waiter).await,
                Admit::Seen(SeenPayment::InFlight(payment)) => {
                    task.note_payment(&payment);
                    match self.join_running(&payment, wall_ms, waiter).await {
                        JoinEnd::Shared(ended) => return ended,
                        // The caller of the running call canceled it before this call came.
                        JoinEnd::Abandoned => {}
                    }
                }
            }
        };
        task.note_payment(admission.id());
        let tracked = self.in_flight.track(admission.id());
        tracked.end(self.paid(task, parsed, hash, admission).await.map_err(Arc::new))
    }

    /// Returns the error for an unpaid request of something that has a price under `terms`.
    pub fn unpaid(&self, terms: &CallTerms, method: EntryMethod) -> CallError {
        self.refused(terms, method, Refusal::NoPayment)
    }

    fn refused(&self, terms: &CallTerms, method: EntryMethod, refusal: Refusal) -> CallError {
        CallError::refused(refusal, |reason| self.parts.payments.challenge(terms, method, reason))
    }

    fn unsettled(&self, terms: &CallTerms, method: EntryMethod, kind: receipt::PaymentKind, error: SettleError) -> CallError {
        CallError::unsettled(error, kind, |reason| self.parts.payments.challenge(terms, method, reason))
    }

    async fn admit(
        &self,
        terms: &CallTerms,
        method: EntryMethod,
        offered: OfferedPayment,
        binding: &str,
        from: IpAddr,
    ) -> Result<Admit, CallError> {
        let request = PaymentRequest { binding, from: Some(from) };
        let is_credit = matches!(offered, OfferedPayment::Credit(_));
        self.parts.payments.admit(terms, offered, request).await.map_err(|refusal| match refusal {
            Refusal::Reused if is_credit => CallError::PaymentReused(None),
            refusal => self.refused(terms, method, refusal),
        })
    }

    /// Records a call whose payment was not settled.
    fn record_unsettled(&self, task: &NewCall, error: SettleError) -> CallError {
        let error = self.unsettled(&task.quoted.terms, task.entry_method, task.payment, error);
        match error {
            CallError::Store(_) => self.failed(task, &error),
            // The payment may still be settled.
            CallError::SettlementUnknown(_) => self.record(task, Some(self.reason(&error)), Charge::Unknown),
            // `payments` has announced the refusal.
            _ => self.record(task, Some(self.reason(&error)), Charge::No),
        }
        error
    }

    /// Records an error of a call whose handler ran or would have run. It would not have if the input is invalid.
    fn failed(&self, task: &NewCall, error: &CallError) {
        if !matches!(error, CallError::Input(_)) {
            self.record_failed_call(task, self.reason(error));
        }
    }

    /// Returns why a call failed, as its caller gets it.
    fn reason(&self, error: &CallError) -> FailureReason {
        FailureReason::of((self.parts.code)(error), error)
    }

    fn record_failed_call(&self, task: &NewCall, reason: FailureReason) {
        let code = reason.code;
        self.record(task, Some(reason), Charge::No);
        self.parts.write_behind.failed(task.failed(code, self.parts.clock.now()));
    }

    /// Records a call, as failed if `reason` is set.
    fn record(&self, task: &NewCall, reason: Option<FailureReason>, charged: Charge) {
        self.parts.write_behind.ended(&task.live.endpoint.id, task.record(reason, charged, self.parts.clock.now()));
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
