//! The gate admits calls: it identifies a payment, decides whether it admits the caller, and keeps its record.

mod admit;
mod alarms;
pub(super) mod answer;
mod balance_holds;
mod bind;
mod claims;
mod consistency;
mod debit;
mod facilitator_calls;
pub(super) mod gas;
mod last_answers;
pub(super) mod owed;
pub(super) mod prior;
mod reconcile;
pub(super) mod record;
mod recovery;
mod reorg_watch;
mod resettle;
mod retry;
pub(super) mod run_limits;
mod settle;
mod settled_elsewhere;
mod settlement_poller;
mod sliding_window;
pub(super) mod unpaid_runs;
mod unresolved;
mod unsent;
mod verdicts;
mod verifications;
mod warnings;

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use serde_json::{Value, json};
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    lock::Lock,
    log_gate::LogGate,
};
use tollhouse_objects::Objects;
use tollhouse_replica::{Replica, SharedCounts};
use tollhouse_store::{IndexEntry, Row, Store, StoreError, Table, schema};
use tollhouse_tool::MicroUsd;

pub use self::{
    consistency::check_payments,
    reconcile::{BlockRange, ReconcileError},
    unresolved::{Resolution, ResolutionError, summarize_unresolved},
};
use super::{
    AcceptedToken, CallTerms, CredentialObserver, Credit, Credits, EntryMethod, Facilitators, OfferedX402, PaymentConfig, PaymentId,
    ReceiptFinisher, Refusal, StoredAnswer, WireVersion, X402Challenge,
    credit::CreditHold,
    payments::{
        alarms::Alarms,
        balance_holds::{BalanceHold, BalanceHolds},
        claims::{Claim, Claims},
        gas::{Burner, CountedGas, GasHold, GasMeter},
        last_answers::LastAnswers,
        record::{OwedPayment, PaymentRecord, unresolved_index},
        retry::{Pass, PollBackoff, PollSlots},
        unpaid_runs::{RunParties, RunPermit, UnpaidRunLimiter},
        verdicts::Verdicts,
        verifications::Verifications,
    },
    receipt::PaymentKind,
    x402::extensions,
};

const PAYMENTS: Table<PaymentId, PaymentRecord> = schema::PAYMENTS.indexed(&[open_intent, unresolved_index]);
/// Maps a client's payment name, prefixed by the payer, to the payment.
const PAYMENT_NAMES: Table<String, PaymentId> = schema::PAYMENT_NAMES.holding();
const OPEN_INTENTS: Table<PaymentId, ()> = schema::OPEN_INTENTS.holding();
/// When to look at each payment again.
const PAYMENT_EXPIRY: Table<(Timestamp, String), ()> = schema::PAYMENT_EXPIRY.holding();

fn open_intent(id: &PaymentId, record: &PaymentRecord) -> Option<IndexEntry> {
    record.is_open().then(|| schema::OPEN_INTENTS.entry(id, &()))
}

/// Number of locks for requests with the same payment. Unrelated payments may share one.
const TWIN_LOCKS: usize = 1_024;

/// A request that needs a payment.
#[derive(Debug, Clone, Copy)]
pub struct PaymentRequest<'a> {
    /// The request that the payment is bound to: see [`binding`](super::binding()).
    pub binding: &'a str,
    /// The caller's address, if known.
    pub from: Option<IpAddr>,
}

impl<'a> From<&'a str> for PaymentRequest<'a> {
    fn from(binding: &'a str) -> Self {
        Self { binding, from: None }
    }
}

/// The result of admitting a payment.
#[must_use]
pub enum Admit {
    /// The tool may run.
    Run(Admission),
    /// The payment was sent before.
    Seen(SeenPayment),
}

/// The state of a payment that was sent before.
#[derive(Debug)]
pub enum SeenPayment {
    /// The answer that it has bought.
    Stored(PaymentId, StoredAnswer),
    /// A run that uses it is in flight. Wait for its end.
    InFlight(PaymentId),
    /// It was charged but has no answer yet. The tool may run again: see [`Payments::resume`].
    Owed(OwedPayment),
}

/// A payment that admits a run. Dropping it releases the reservation. [`Payments::settle`] takes the money.
#[must_use]
pub struct Admission {
    payments: Arc<Payments>,
    id: PaymentId,
    record: Box<PaymentRecord>,
    /// Whether its record is written and belongs to this call. It is not written if nobody else can use the same
    /// payment.
    reserved: bool,
    means: PaymentMeans,
    /// Whether its money moved before it was admitted, as far as the chain shows.
    has_moved: bool,
    /// `None` once the outcome of the run is known.
    held: Option<Box<RunHolds>>,
    /// `None` if nothing is reserved.
    claim: Option<Claim>,
}

/// The shares of limits that a run in flight holds.
struct RunHolds {
    permit: RunPermit,
    balance: Option<BalanceHold>,
    gas: Option<GasHold>,
    by_contract: bool,
    /// Whether the settlement failed because its facilitator fails for everybody, which is not the payer's fault.
    is_excusable: bool,
    /// Whether the payment was verified for this run.
    is_verified: bool,
}

/// A settlement whose outcome is unknown, and what was counted for it.
struct OpenRun {
    /// The run whose failure was counted. `None` if another process ran it.
    running: Option<RunParties>,
    /// The parties for which its gas counts.
    burner: Burner,
    burned: Vec<CountedGas>,
    /// Held because the money may still move.
    balance: Option<BalanceHold>,
    /// Held because gas may still be burned. `None` once burned gas is counted.
    gas: Option<GasHold>,
}

enum PaymentMeans {
    X402(Box<OfferedX402>),
    Credit(CreditHold),
}

/// The gate of a host.
pub struct Payments {
    store: Arc<dyn Store>,
    facilitators: Facilitators,
    clock: Clock,
    started: Timestamp,
    config: PaymentConfig,
    finisher: Arc<ReceiptFinisher>,
    /// The replica that owns this gate's payments.
    replica: Arc<Replica>,
    credits: Arc<Credits>,
    /// Store of large answers.
    objects: Arc<Objects>,
    throttle: Arc<UnpaidRunLimiter>,
    verifications: Verifications,
    verdicts: Verdicts,
    /// Amounts of payers' balances held by runs in flight.
    balance_holds: Arc<BalanceHolds>,
    /// Gas burned by settlements that did not pay.
    gas: Arc<GasMeter>,
    alarms: Alarms,
    last_answers: LastAnswers,
    /// Limit log lines about payments that could not be verified, and about settlements that could not be prepared.
    unverified: LogGate,
    unprepared: LogGate,
    /// The runs whose settlements this process keeps open.
    open_runs: Lock<HashMap<PaymentId, OpenRun>>,
    /// Held while a payment is bound, so that requests with the same payment are handled one after the other.
    twins: Box<[tokio::sync::Mutex<()>]>,
    /// Open settlements of this replica: the next lookup, and the number of lookups.
    retries: Lock<HashMap<PaymentId, PollBackoff>>,
    poll_slots: PollSlots,
    /// The last unresolved settlement that was looked up, from which the next pass continues.
    pass: Lock<Pass>,
    /// The last block of a network whose settlements were compared in turn. The next round continues there.
    compared: Lock<HashMap<&'static str, u64>>,
    /// Reservations of running calls.
    claims: Claims,
    /// Reservations of this process whose release has not reached the store yet.
    orphaned: Lock<HashMap<PaymentId, PaymentRecord>>,
}

impl Payments {
    /// Constructs a gate over this store and these facilitators.
    pub fn new(
        store: Arc<dyn Store>,
        facilitators: impl Into<Facilitators>,
        clock: Clock,
        config: PaymentConfig,
        finisher: Arc<ReceiptFinisher>,
        replica: Arc<Replica>,
        objects: Arc<Objects>,
    ) -> Arc<Self> {
        let credits = Credits::new(Arc::clone(&store), clock.clone());
        let verifications = Verifications::new(config.failed_runs.refused_of_address);
        let (throttle, gas) = (UnpaidRunLimiter::new(config.failed_runs, replica.counted()), GasMeter::new(config.gas));
        let facilitators = facilitators.into();
        let last_answers = LastAnswers::new(facilitators.networks());
        Arc::new(Self {
            store,
            facilitators,
            started: clock.now(),
            clock,
            config,
            finisher,
            replica,
            credits,
            objects,
            throttle,
            verifications,
            verdicts: Verdicts::default(),
            balance_holds: Arc::default(),
            gas,
            alarms: Alarms::new(),
            last_answers,
            unverified: LogGate::default(),
            unprepared: LogGate::default(),
            open_runs: Lock::default(),
            twins: (0..TWIN_LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
            retries: Lock::default(),
            poll_slots: PollSlots::default(),
            pass: Lock::default(),
            compared: Lock::default(),
            claims: Claims::default(),
            orphaned: Lock::default(),
        })
    }

    /// Returns the developer credits.
    pub fn credits(&self) -> &Arc<Credits> {
        &self.credits
    }

    /// Builds the challenge for a call under `terms`.
    pub fn challenge(&self, terms: &CallTerms, method: EntryMethod, reason: &str) -> X402Challenge {
        let accepts = [WireVersion::V1, WireVersion::V2].map(|version| self.accepts(terms, version));
        let offers = self.offers(terms, method, &accepts[1]);
        X402Challenge::new(terms, method, &accepts, &offers, reason)
    }

    /// Returns the ways to pay for a call under `terms`, in the order of the settings.
    pub fn accepts(&self, terms: &CallTerms, version: WireVersion) -> Vec<Value> {
        self.config.accepts(&self.facilitators, terms, version)
    }

    /// Returns the signed offers. They are valid until the next minute, plus the time that a payment may take.
    fn offers(&self, terms: &CallTerms, method: EntryMethod, accepts: &[Value]) -> Arc<Vec<Value>> {
        let minute = self.clock.now().as_secs() / 60;
        let until = Timestamp((minute + 1).saturating_mul(60).saturating_add(terms.timeout_secs).saturating_mul(1_000));
        terms.offers.of((minute, method), accepts, || self.finisher.offers(&terms.resource(method), accepts, until))
    }

    /// Describes the accepted payments, for the manifest.
    pub fn describe(&self) -> Value {
        let AcceptedToken { asset, pay_to } = self.config.first();
        let simulated = self.facilitators.simulated();
        let accepts: Vec<_> = self.config.accepted.iter().map(|accepted| accepted.describe(&self.facilitators)).collect();
        let mut payment = json!({
            "protocol": "x402",
            "versions": [1, 2],
            "schemes": self.config.schemes(&self.facilitators),
            "network": asset.network.caip2,
            "networkV1": asset.network.name,
            "asset": asset.describe(),
            "payTo": pay_to,
            "accepts": accepts,
            "facilitator": self.facilitators.of(asset.network).name(),
            "simulated": simulated,
            "paymentId": "`pmt_` and the first 32 hex digits of the SHA-256 of network, asset, payer and nonce: CAIP-2 and lower-case 0x texts, joined by line feeds",
            "extensions": extensions::ALL,
            "developerCredit": { "header": "X-Developer-Credit", "idempotency": "Idempotency-Key" },
        });
        if simulated {
            payment["faucet"] = json!("POST /dev/faucet {\"address\", \"amountUsd\"}");
        }
        payment
    }

    /// Returns the facilitators, for their status.
    pub fn facilitators(&self) -> &Facilitators {
        &self.facilitators
    }

    async fn find_credit(&self, token: &str, observer: Option<&dyn CredentialObserver>) -> Result<Option<Credit>, Refusal> {
        let lookup = if let Some(observer) = observer { Some(observer.begin().await?) } else { None };
        let credit = self.credits.find(token).await?;
        if let (None, Some(lookup)) = (&credit, lookup) {
            lookup.saw_wrong();
        }
        Ok(credit)
    }

    /// Forgets inactive payers and tools, to bound memory.
    pub fn prune_idle(&self) {
        self.throttle.prune_idle();
        self.verifications.prune_idle();
        self.verdicts.prune_idle();
        self.gas.prune_idle();
        // This host gets no news of a settlement that another host has taken over.
        let open = self.retries.lock();
        self.open_runs.lock().retain(|id, _| open.contains_key(id));
    }

    /// Returns the counts of payers and tools to share with other hosts of the store.
    pub fn tallies(&self) -> SharedCounts {
        let (runs, gas) = (self.throttle.tallies(), self.gas.tallies());
        runs.into_iter().chain(gas).chain(self.verifications.tally()).collect()
    }

    /// Returns the number of settlements whose outcome is unknown.
    pub fn open_intents(&self) -> usize {
        self.retries.lock().len()
    }

    /// Reads one record among many. An unreadable one is logged and skipped, so that it does not block the others.
    async fn read_shared(&self, id: &PaymentId) -> Result<Option<Row<PaymentId, PaymentRecord>>, StoreError> {
        let Some(found) = PAYMENTS.found(&*self.store, id).await? else { return Ok(None) };
        let logged = |error| tracing::error!(payment.id = %id, %error, "the record of a payment is malformed and is skipped");
        Ok(PAYMENTS.read(found).map_err(logged).ok())
    }
}

/// Returns the id of a call on credit and the credit's id. The token is already checked.
fn credit_known(credit: &Credit, key: &str) -> (PaymentId, String) {
    (PaymentId::of(&["credit", credit.id.as_str(), key]), credit.id.to_string())
}

impl Admission {
    /// Returns the payment's id.
    pub fn id(&self) -> &PaymentId {
        &self.id
    }

    /// Returns the payer's address, shortened, or `None` for credit.
    pub fn payer(&self) -> Option<String> {
        match &self.means {
            PaymentMeans::X402(payment) => Some(crate::receipt::shortened(payment.signed.sender())),
            PaymentMeans::Credit(_) => None,
        }
    }

    /// Returns the means of payment as in the receipt.
    pub fn kind(&self) -> PaymentKind {
        match self.means {
            PaymentMeans::X402(_) => PaymentKind::X402,
            PaymentMeans::Credit(_) => PaymentKind::Credit,
        }
    }

    /// Returns whether its money moved before it was admitted, for example after a refused settlement. Settle it before
    /// the run then: the payer has paid, whether or not the run succeeds.
    pub fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Reduces the charge to the actual price of the call.
    pub fn charge(&mut self, amount: MicroUsd) {
        match &mut self.means {
            PaymentMeans::X402(payment) => payment.charge(amount),
            PaymentMeans::Credit(hold) => hold.shrink(amount),
        }
        if let Some(held) = &mut self.held {
            let price = &mut held.permit.running.price;
            *price = amount.min(*price);
        }
    }

    /// Counts the run as unpaid, because its caller cancels it. Call [`Self::fail`] then. Returns false if too many runs
    /// are unpaid: then the run must go on, and is charged if it succeeds.
    pub fn cancel(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.permit.cancel())
    }

    /// Releases the reservation after a run that is not paid for.
    #[boxed]
    pub async fn fail(mut self) {
        if let Some(held) = self.held.take() {
            held.permit.failed("failed");
        }
        self.release().await;
    }

    /// Ends the reservation of a call that did not run, or was free after all. If its payment was verified, that counts
    /// as a refused payment of the caller's address, and a repetition is not verified for a few seconds. A call with
    /// credit counts nowhere, and leaves no row.
    #[boxed]
    pub async fn unused(mut self) {
        if let (PaymentMeans::X402(payment), Some(held)) = (&self.means, &self.held)
            && held.is_verified
        {
            self.payments.verifications.count(held.permit.running.from);
            self.payments.verdicts.put(payment, &self.record.digest, held.balance.as_ref().map(BalanceHold::balance));
        }
        if self.record.is_on_credit() && std::mem::take(&mut self.reserved) {
            return self.payments.forget_reservation(&self.id, &self.record).await;
        }
        self.release().await;
    }

    /// Releases the reservation, and waits until that is stored.
    #[boxed]
    pub async fn release(mut self) {
        if std::mem::take(&mut self.reserved) {
            self.payments.release_reservation(&self.id, &self.record).await;
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.reserved {
            return;
        }
        let (payments, id, record) = (Arc::clone(&self.payments), self.id.clone(), self.record.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { payments.release_reservation(&id, &record).await });
        }
    }
}
