//! The pipeline: one call, from slug to receipt.
//!
//! ```text
//! find → admit payment → check input → run → check output → settle, receipt → answer
//! ```
//!
//! Knows no HTTP and no JSON-RPC: both fronts call [`Calls::perform`]. A call runs on a task of its
//! own, so that a caller who hangs up cannot cut a settlement in half. Nothing is charged before
//! the result has passed its schema, and nothing is retried: a call that ended without a charge may
//! be made again by the caller.

mod content;
mod dry;
mod error;
mod finish;
mod history;
mod input;
mod metrics;
mod receipts;
mod register;
mod request;
pub mod run;
mod under_way;
mod write_behind;

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tollhouse_protocol::Spent;

pub use self::{
    content::{Content, bodiless, chosen_headers, content_type, json_bytes, says_json},
    dry::DryRun,
    error::CallError,
    finish::{Closing, ReceiptFinisher},
    history::{CallPage, CallPlace, CallQuery, CallRecord, Ending, History, HistorySettings, Placed},
    input::{Input, MAX_QUERY_FIELDS, Parsed as ParsedInput, check_query},
    metrics::{Asked, Metrics, MetricsSettings, Series, Step, StepError},
    receipts::Receipts,
    register::{Registered, Registration, registration_terms},
    request::{CalledBy, Progress, RequestHead},
    run::{ReadinessClient, Runner},
    under_way::UnderWay,
    write_behind::{WriteBehind, WriteBehindParts},
};
use self::{
    history::{CallOutcome, Charge},
    run::{Produced, Task},
    write_behind::Failed,
};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::{CallId, ReceiptId},
        share::{Shares, Turn},
    },
    catalog::{Catalog, Live},
    money::{Admission, Admit, Ended, Gate, Offered, PaymentId, Refusal, SettleError, StoredAnswer, Terms, receipt, sale::FeeBps},
    tool::{Availability, MicroUsd, Owner},
};

/// How long a call waits for another replica that runs the same payment, beyond the tool's own wall limit.
const JOIN_PATIENCE: Duration = Duration::from_secs(90);

/// What a call is recorded as whose handler chose an error status itself.
const ERROR_STATUS: &str = "error_status";

/// Time between two looks at a payment that another replica is running.
const JOIN_POLL: Duration = Duration::from_millis(100);

/// One call, as a front hands it over.
pub struct Call {
    /// Found by the front already, so that it can bound the body.
    pub live: Arc<Live>,
    /// Who calls.
    pub by: CalledBy,
    /// What to call with.
    pub input: Input,
    /// What it is paid with.
    pub offered: Offered,
    /// What a handler may know of the request.
    pub head: RequestHead,
    /// Whose network asks, for its share of the processor.
    pub from: IpAddr,
    /// Takes what happens on the way, for callers who stream.
    pub progress: Option<mpsc::Sender<Progress>>,
}

/// A call that was answered. `Clone` is cheap.
#[derive(Debug, Clone)]
pub struct Done {
    /// What the caller is given.
    pub answer: Arc<StoredAnswer>,
    /// Which wire version the settlement is told in; `None` for free calls and credit.
    pub payment: Option<PaymentId>,
    /// False when the tool itself answered with an error status: then nothing was charged and there is no receipt.
    pub success: bool,
}

/// How a call ended, for all that share it.
type Shared = Result<Done, Arc<CallError>>;
type InFlight = watch::Sender<Option<Shared>>;

/// What the record of a call that came to nothing names its error: the code that its caller is told.
pub type CodeOf = fn(&CallError) -> &'static str;

/// Performs calls.
pub struct Calls {
    catalog: Arc<Catalog>,
    gate: Arc<Gate>,
    runner: Runner,
    write_behind: Arc<WriteBehind>,
    fee: FeeBps,
    shares: Arc<Shares>,
    clock: Clock,
    code: CodeOf,
    /// The payments whose calls are under way in this process, so that a repeated one joins them.
    in_flight: Mutex<HashMap<PaymentId, InFlight>>,
    /// Calls under way, and dry runs.
    running: TaskTracker,
}

/// What calls are made of.
#[derive(Debug)]
pub struct CallParts {
    /// Where tools are found.
    pub catalog: Arc<Catalog>,
    /// Where payments are admitted and settled.
    pub gate: Arc<Gate>,
    /// What runs handlers.
    pub runner: Runner,
    /// Where what a call leaves is written.
    pub write_behind: Arc<WriteBehind>,
    /// What the host keeps of each sale.
    pub fee: FeeBps,
    /// How much of the processors each address uses.
    pub shares: Arc<Shares>,
    /// The time.
    pub clock: Clock,
    /// What the records of calls name errors.
    pub code: CodeOf,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    /// The pipeline of these parts.
    #[must_use]
    pub fn new(parts: CallParts) -> Arc<Self> {
        let CallParts { catalog, gate, runner, write_behind, fee, shares, clock, code } = parts;
        Arc::new(Self {
            catalog,
            gate,
            runner,
            write_behind,
            fee,
            shares,
            clock,
            code,
            in_flight: Mutex::default(),
            running: TaskTracker::new(),
        })
    }

    /// Finds a tool that takes calls of whom it is called by, which hangs on whose it is.
    ///
    /// # Errors
    ///
    /// [`CallError::UnknownEndpoint`], [`CallError::Paused`], [`CallError::OwnerSuspended`], [`CallError::UnderReview`],
    /// [`CallError::TakenDown`].
    pub fn find(&self, slug: &str, by: impl FnOnce(&Owner) -> CalledBy) -> Result<(Arc<Live>, CalledBy), CallError> {
        let live = self.catalog.find(slug).ok_or_else(|| CallError::UnknownEndpoint(slug.to_owned()))?;
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

    /// Performs one call, on a task of its own: dropping the future does not stop the call.
    ///
    /// # Errors
    ///
    /// Why it ended without a result.
    pub async fn perform(self: &Arc<Self>, call: Call) -> Shared {
        self.begin(call, CancellationToken::new(), ()).await
    }

    /// Begins one call that its caller may take back: once `cancel` is cancelled, its handler is stopped and its payment
    /// released, and it ends with [`CallError::Cancelled`]. A handler that has ended by then is settled as if nothing had been
    /// said, and what it has written by then stays. While others wait for the same call it goes on: it is stopped when the last
    /// of them has gone. A call that only joined another one is not its caller's to take back, and is waited for to its end.
    ///
    /// What is `kept` is dropped when the call has ended.
    pub fn begin(self: &Arc<Self>, call: Call, cancel: CancellationToken, kept: impl Send + 'static) -> UnderWay<Done> {
        let this = Arc::clone(self);
        // Boxed before it is handed down: the task holds a pointer.
        let work = Box::pin(async move {
            let ended = this.perform_here(call, cancel).await;
            drop(kept);
            ended
        });
        self.detached(work)
    }

    /// Runs `work` to its end, whether somebody waits for it or not, and lets a drain wait for it. The tasks spread over
    /// the cores better than calls that run on their connection's task.
    fn detached<T: Send + 'static>(&self, work: impl Future<Output = Result<T, Arc<CallError>>> + Send + 'static) -> UnderWay<T> {
        UnderWay(self.running.spawn(work))
    }

    /// Waits until no call is under way, at most `patience`. True when none is left.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.running.close();
        tokio::time::timeout(patience, self.running.wait()).await.is_ok()
    }

    async fn perform_here(&self, call: Call, cancel: CancellationToken) -> Shared {
        let Call { live, by, input, offered, head, from, progress } = call;
        // Before a payment is admitted: whoever waits, or is refused, holds nothing.
        let turn = self.shares.turn(from, live.usual_cost.get()).await.map_err(|over| Arc::new(over.into()))?;
        let task = NewCall {
            live,
            by,
            head,
            progress,
            cancel,
            started: self.clock.now(),
            begun: Instant::now(),
            call: CallId::generate(),
            receipt: ReceiptId::generate(),
            payment: receipt::Kind::Free,
            input_bytes: 0,
            spent: OnceLock::new(),
            turn,
        };
        if task.price().is_zero() {
            let (parsed, hash) = task.turn.during(input.read(&task.live)).await.map_err(Arc::new)?;
            let checked = parsed.check().map_err(Arc::new)?;
            return self.free(task, checked, hash).await.map_err(Arc::new);
        }
        // Boxed, here and below: the future of a free call stays small, and it is moved when its task is made.
        Box::pin(self.priced(task, input, offered)).await
    }

    async fn priced(&self, task: NewCall, input: Input, offered: Offered) -> Shared {
        if matches!(offered, Offered::Nothing) {
            return Err(Arc::new(self.unpaid(&task.live.terms)));
        }
        let (parsed, hash) = task.turn.during(input.read(&task.live)).await.map_err(Arc::new)?;
        match self.admit(&task.live.terms, offered, &hash).await? {
            Admit::Stored(payment, answer) => Ok(Done { payment: Some(payment), answer: Arc::new(answer), success: true }),
            Admit::InFlight(payment) => self.join(&payment, task.live.endpoint.limits.wall_ms).await,
            Admit::Run(admission) => {
                let tracked = self.track(admission.id());
                let ended = self.paid(task, parsed, hash, admission).await.map_err(Arc::new);
                tracked.ended.send_replace(Some(ended.clone()));
                ended
            }
        }
    }

    async fn free(&self, mut task: NewCall, input: input::Parsed, hash: String) -> Result<Done, CallError> {
        task.input_bytes = input.text.len();
        let ran = self.run(&task, input, None).await.inspect_err(|error| self.failed(&task, error))?;
        let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
        let answer = told(ran, &closing.receipt);
        if answer.success {
            self.write_behind.succeeded(closing).await.map_err(CallError::Store).inspect_err(|error| self.failed(&task, error))?;
            self.record(&task, None, Charge::No);
        } else {
            self.came_to_nothing(&task, ERROR_STATUS);
        }
        Ok(answer)
    }

    async fn paid(&self, mut task: NewCall, parsed: input::Parsed, hash: String, admission: Admission) -> Result<Done, CallError> {
        let payment = admission.id().clone();
        (task.payment, task.input_bytes) = (admission.kind(), parsed.text.len());
        let checked = match parsed.check() {
            Ok(checked) => checked,
            Err(error) => {
                admission.release().await;
                return Err(error);
            }
        };
        let ran = match self.run(&task, checked, Some(&admission)).await {
            Ok(ran) if ran.success() => ran,
            // Uncharged: the tool failed, or said itself that it did.
            other => {
                admission.release().await;
                let ran = other.inspect_err(|error| self.failed(&task, error))?;
                self.came_to_nothing(&task, ERROR_STATUS);
                let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
                return Ok(told(ran, &closing.receipt));
            }
        };
        let closing = task.closing(hash, &ran, self.clock.now(), self.fee);
        let answer = Arc::unwrap_or_clone(told(ran, &closing.receipt).answer);
        let settled = self.gate.settle(admission, answer, &ReceiptFinisher::encode(&closing)).await;
        let answer = settled.map_err(|error| self.unsettled(&task.live.terms, error)).inspect_err(|error| {
            // The gate has told of a refusal; what is unknown may turn out well.
            match error {
                CallError::Store(_) => self.failed(&task, error),
                CallError::SettlementUnknown(_) => self.record(&task, Some((self.code)(error)), Charge::Unknown),
                _ => self.record(&task, Some((self.code)(error)), Charge::No),
            }
        })?;
        self.record(&task, None, Charge::Yes);
        Ok(Done { answer: Arc::new(answer), payment: Some(payment), success: true })
    }

    /// What is told who offers nothing for what costs something under `terms`.
    #[must_use]
    pub fn unpaid(&self, terms: &Terms) -> CallError {
        self.refused(terms, Refusal::NoPayment)
    }

    fn refused(&self, terms: &Terms, refusal: Refusal) -> CallError {
        CallError::refused(refusal, |reason| self.gate.challenge(terms, reason))
    }

    fn unsettled(&self, terms: &Terms, error: SettleError) -> CallError {
        CallError::unsettled(error, |reason| self.gate.challenge(terms, reason))
    }

    async fn admit(&self, terms: &Terms, offered: Offered, hash: &str) -> Result<Admit, Arc<CallError>> {
        self.gate.admit(terms, offered, hash).await.map_err(|refusal| Arc::new(self.refused(terms, refusal)))
    }

    /// Records an error of a call whose handler ran, or was to run. It was not to where the input does not fit.
    fn failed(&self, task: &NewCall, error: &CallError) {
        if !matches!(error, CallError::Input(_)) {
            self.came_to_nothing(task, (self.code)(error));
        }
    }

    /// Records that a call came to nothing.
    fn came_to_nothing(&self, task: &NewCall, code: &'static str) {
        self.record(task, Some(code), Charge::No);
        let endpoint = &task.live.endpoint;
        self.write_behind.failed(Failed {
            call: task.call.clone(),
            owner: endpoint.owner.clone(),
            endpoint: endpoint.id.clone(),
            slug: endpoint.slug.clone(),
            by: task.by,
            code,
            at: self.clock.now(),
        });
    }

    /// Leaves the record of a call: failed where there is a code.
    fn record(&self, task: &NewCall, code: Option<&str>, charged: Charge) {
        let endpoint = &task.live.endpoint;
        let outcome = if code.is_some() { CallOutcome::Failed } else { CallOutcome::Succeeded };
        let record = CallRecord {
            call_id: task.call.clone(),
            at: self.clock.now(),
            outcome,
            code: code.map(str::to_owned),
            charged,
            price_usd: task.price(),
            owner: task.by == CalledBy::Owner,
            payment: task.payment,
            duration_ms: millis(task.begun.elapsed().as_micros()),
            cpu_ms: task.spent.get().map(|spent| millis(spent.cpu_us.into())),
            input_bytes: task.input_bytes as u64,
            receipt_id: (outcome == CallOutcome::Succeeded).then(|| task.receipt.clone()),
            version: endpoint.version.clone(),
        };
        self.write_behind.ended(&endpoint.id, record);
    }

    /// Waits for the call that has the payment, here or on another replica, and shares its end.
    async fn join(&self, payment: &PaymentId, wall_ms: u64) -> Shared {
        let deadline = Instant::now() + Duration::from_millis(wall_ms) + JOIN_PATIENCE;
        loop {
            let joined = self.in_flight().get(payment).map(watch::Sender::subscribe);
            // A call whose task ended without an end: the record says what became of the payment.
            if let Some(mut joined) = joined
                && let Ok(ended) = joined.wait_for(Option::is_some).await
            {
                return ended.clone().unwrap_or_else(|| Err(Arc::new(CallError::Internal)));
            }
            match self.gate.ended(payment).await.map_err(|error| Arc::new(error.into()))? {
                Ended::Answer(answer) => return Ok(Done { answer: Arc::new(answer), payment: Some(payment.clone()), success: true }),
                Ended::Without => return Err(Arc::new(CallError::Joined(payment.clone()))),
                Ended::Open => return Err(Arc::new(CallError::SettlementUnknown(payment.clone()))),
                Ended::NotYet => {}
            }
            if Instant::now() > deadline {
                return Err(Arc::new(CallError::Joined(payment.clone())));
            }
            tokio::time::sleep(JOIN_POLL).await;
        }
    }

    async fn run(&self, task: &NewCall, input: input::Parsed, admission: Option<&Admission>) -> Result<Produced, CallError> {
        let call = task.call.clone();
        let before = task.turn.total();
        let running = self.runner.run(Task {
            live: &task.live,
            by: task.by,
            call,
            receipt: &task.receipt,
            head: &task.head,
            input: &input,
            payer: admission.and_then(Admission::payer),
            payment: admission.map(Admission::id),
            now: task.started,
            progress: task.progress.as_ref(),
            scratch: None,
            turn: &task.turn,
            spent: &task.spent,
        });
        // What it used is told when it ends, or is dropped here.
        let produced = tokio::select! {
            biased;
            produced = running => produced,
            () = self.taken_back(task, admission) => Err(CallError::Cancelled),
        };
        let used = task.turn.total() - before;
        if used > Duration::ZERO {
            task.live.usual_cost.add(used);
        }
        produced
    }

    /// Returns once nobody wants the call any more.
    async fn taken_back(&self, task: &NewCall, admission: Option<&Admission>) {
        task.cancel.cancelled().await;
        let joined = admission.and_then(|admission| self.in_flight().get(admission.id()).cloned());
        if let Some(call) = joined {
            call.closed().await;
        }
    }

    /// Lets others join the call that has `payment`, until what this answers is dropped.
    fn track(&self, payment: &PaymentId) -> Tracked<'_> {
        let ended = watch::Sender::new(None);
        self.in_flight().insert(payment.clone(), ended.clone());
        Tracked { calls: self, payment: payment.clone(), ended }
    }

    fn in_flight(&self) -> std::sync::MutexGuard<'_, HashMap<PaymentId, InFlight>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that others may join. Whoever joined keeps what `ended` was last told.
struct Tracked<'a> {
    calls: &'a Calls,
    payment: PaymentId,
    ended: watch::Sender<Option<Shared>>,
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.calls.in_flight();
        // Released, the payment may have been admitted again, and its next call tracked.
        if in_flight.get(&self.payment).is_some_and(|call| call.same_channel(&self.ended)) {
            in_flight.remove(&self.payment);
        }
    }
}

/// What belongs to a call from its start to its receipt.
struct NewCall {
    live: Arc<Live>,
    by: CalledBy,
    head: RequestHead,
    progress: Option<mpsc::Sender<Progress>>,
    cancel: CancellationToken,
    started: Timestamp,
    /// The same moment, for telling how long it takes.
    begun: Instant,
    call: CallId,
    receipt: ReceiptId,
    payment: receipt::Kind,
    input_bytes: usize,
    /// Of its run in the sandbox, once that has ended.
    spent: OnceLock<Spent>,
    /// Of the caller's network.
    turn: Turn,
}

impl NewCall {
    /// What the call costs whom it is made by.
    fn price(&self) -> MicroUsd {
        match self.by {
            CalledBy::Anyone => self.live.endpoint.price_usd,
            CalledBy::Owner => MicroUsd::ZERO,
        }
    }

    fn closing(&self, request_hash: String, ran: &Produced, ended: Timestamp, fee: FeeBps) -> Closing {
        let endpoint = &self.live.endpoint;
        let receipt = receipt::Draft {
            receipt_id: self.receipt.clone(),
            slug: endpoint.slug.clone(),
            endpoint_id: endpoint.id.clone(),
            version: endpoint.version.clone(),
            price_usd: self.price(),
            owner: self.by == CalledBy::Owner,
            resource_url: self.live.terms.resource_url.clone(),
            request_hash,
            result_hash: ran.result_hash.clone(),
            started_at: self.started,
            issued_at: ended,
        };
        let fee = fee.of(self.price(), &endpoint.owner);
        Closing { receipt, call: self.call.clone(), owner: endpoint.owner.clone(), fee, registered: None }
    }
}

/// An answer as it is stored and told.
fn told(produced: Produced, draft: &receipt::Draft) -> Done {
    let success = produced.success();
    let Produced { status, headers, body, .. } = produced;
    let receipt_id = if success { draft.receipt_id.to_string() } else { String::new() };
    let answer = StoredAnswer { status, headers, body, receipt_id, settlement: None };
    Done { answer: Arc::new(answer), payment: None, success }
}

/// Microseconds as milliseconds.
#[expect(clippy::cast_precision_loss, reason = "of a call, at most minutes")]
fn millis(micros: u128) -> f64 {
    micros as f64 / 1_000.0
}
