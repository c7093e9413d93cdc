//! The gate admits calls: it identifies a payment, decides whether it admits the caller, and keeps its record.

mod admit;
mod agrees;
mod alarms;
pub(super) mod answer;
mod ask;
mod asked;
mod bind;
mod claims;
mod debit;
mod elsewhere;
mod funds;
pub(super) mod gas;
pub(super) mod owed;
mod recent;
mod reconcile;
pub(super) mod record;
mod recovery;
mod resettle;
mod retry;
mod settle;
pub(super) mod slowed;
mod state;
pub(super) mod throttle;
mod unresolved;
mod warnings;
mod watch;

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_objects::Objects;
use tollhouse_replica::{Replica, Tallies};
use tollhouse_store::{Entry, Row, Store, StoreError, Table, schema};
use tollhouse_tool::MicroUsd;

pub use self::{
    agrees::check_payments,
    reconcile::{BlockRange, ReconcileError, Reconciliation},
    unresolved::{Resolution, ResolutionError, UnresolvedSettlement},
};
use super::{
    Accepted, Challenge, CredentialObserver, Credit, CreditOffer, Credits, Facilitators, Finisher, Offered, Payment, PaymentConfig,
    PaymentId, PaymentState, Refusal, StoredAnswer, Terms, Way, WireVersion,
    credit::Hold,
    gate::{
        alarms::Alarms,
        claims::{Claim, Claims},
        funds::{PurseHold, Purses},
        gas::{Burner, CountedGas, GasHold, GasMeter},
        record::{OwedPayment, Record, Tail},
        retry::{Lanes, Pass, Retry},
        throttle::{Place, Running, Throttle},
    },
    receipt::Kind,
    unresolved::index,
    x402::{extensions, offer::Shown, wire::Question},
};

const PAYMENTS: Table<PaymentId, Record> = schema::PAYMENTS.indexed(&[open_intent, index]);
/// Maps a client's payment name, prefixed by the payer, to the payment.
const PAYMENT_NAMES: Table<String, PaymentId> = schema::PAYMENT_NAMES.holding();
/// Payments that are reserved or settling.
const OPEN_INTENTS: Table<PaymentId, ()> = schema::OPEN_INTENTS.holding();
/// When to look at each payment again.
const PAYMENT_EXPIRY: Table<(Timestamp, String), ()> = schema::PAYMENT_EXPIRY.holding();

fn open_intent(id: &PaymentId, record: &Record) -> Option<Entry> {
    record.is_open().then(|| schema::OPEN_INTENTS.entry(id, &()))
}

/// Number of locks for requests with the same payment. Unrelated payments may share one.
const TWIN_LOCKS: usize = 1_024;

/// A request that needs a payment.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The request that the payment is bound to: see [`binding`](super::binding()).
    pub binding: &'a str,
    /// The caller's address, if known.
    pub from: Option<IpAddr>,
}

impl<'a> From<&'a str> for Request<'a> {
    fn from(binding: &'a str) -> Self {
        Self { binding, from: None }
    }
}

impl<'a> From<&'a String> for Request<'a> {
    fn from(binding: &'a String) -> Self {
        Self { binding, from: None }
    }
}

/// The result of admitting a payment.
#[must_use]
pub enum Admit {
    /// The tool may run.
    Run(Admission),
    /// The answer that the payment has already bought.
    Stored(PaymentId, StoredAnswer),
    /// Another run uses the payment. Wait for its end.
    InFlight(PaymentId),
    /// The payment was charged before. The tool may run again: see [`Gate::resume`].
    Owed(OwedPayment),
}

/// The state of a payment that was sent before.
#[derive(Debug)]
pub enum Seen {
    /// The answer that it has bought.
    Stored(PaymentId, StoredAnswer),
    /// A run that uses it is in flight.
    InFlight(PaymentId),
    /// It was charged but has no answer yet.
    Owed(OwedPayment),
}

impl From<Seen> for Admit {
    fn from(seen: Seen) -> Self {
        match seen {
            Seen::Stored(id, answer) => Self::Stored(id, answer),
            Seen::InFlight(id) => Self::InFlight(id),
            Seen::Owed(owed) => Self::Owed(owed),
        }
    }
}

/// A payment that admits a run. Dropping it releases the reservation. [`Gate::settle`] takes the money.
#[must_use]
pub struct Admission {
    gate: Arc<Gate>,
    id: PaymentId,
    record: Box<Record>,
    /// Whether its record is written and belongs to this call. It is not written if nobody else can use the same
    /// payment.
    reserved: bool,
    means: Means,
    /// `None` once the outcome of the run is known.
    held: Option<Box<Held>>,
    /// `None` if nothing is reserved.
    claim: Option<Claim>,
}

/// The shares of limits that a run in flight holds.
struct Held {
    place: Place,
    purse: Option<PurseHold>,
    gas: Option<GasHold>,
    /// Whether the payer is a contract, whose code runs when its payment is simulated.
    by_contract: bool,
}

/// A settlement whose outcome is unknown, and what was counted for it.
struct OpenRun {
    /// The run whose failure was counted. `None` if another process ran it.
    running: Option<Running>,
    /// The parties for which its gas counts.
    burner: Burner,
    /// Gas of its transactions that was counted as burned so far.
    burned: Vec<CountedGas>,
    /// Held because the money may still move.
    purse: Option<PurseHold>,
    /// Held because gas may still be burned. `None` once burned gas is counted.
    gas: Option<GasHold>,
}

/// The parts of a reservation.
struct Reservation<'a> {
    id: PaymentId,
    digest: String,
    request: &'a str,
    tail: Tail,
    means: Means,
    held: Held,
}

/// The means of payment.
enum Means {
    X402(Box<Payment>),
    Credit(Hold),
}

/// The gate of a host.
pub struct Gate {
    store: Arc<dyn Store>,
    facilitators: Facilitators,
    clock: Clock,
    /// When this host started.
    begun: Timestamp,
    config: PaymentConfig,
    finisher: Arc<dyn Finisher>,
    /// The replica that owns this gate's payments.
    replica: Arc<Replica>,
    credits: Arc<Credits>,
    /// Store of large answers.
    objects: Arc<Objects>,
    /// Limits on unpaid runs.
    throttle: Arc<Throttle>,
    /// Amounts of payers' balances held by runs in flight.
    purses: Arc<Purses>,
    /// Gas burned by settlements that did not pay.
    gas: Arc<GasMeter>,
    /// Warnings for operators.
    alarms: Alarms,
    /// The runs whose settlements this process keeps open.
    open_runs: Mutex<HashMap<PaymentId, OpenRun>>,
    /// Held while a payment is bound, so that requests with the same payment are handled one after the other.
    twins: Box<[tokio::sync::Mutex<()>]>,
    /// Open settlements of this replica: the next lookup, and the number of lookups.
    open: Mutex<HashMap<PaymentId, Retry>>,
    lanes: Lanes,
    /// How far unresolved settlements were looked up.
    pass: Mutex<Pass>,
    /// Reservations of running calls.
    claims: Claims,
    /// Reservations of this process whose release has not reached the store yet.
    orphans: Mutex<HashMap<PaymentId, Record>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("facilitators", &self.facilitators).finish_non_exhaustive()
    }
}

impl Gate {
    /// Constructs a gate over this store and these facilitators.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        facilitators: impl Into<Facilitators>,
        clock: Clock,
        config: PaymentConfig,
        finisher: Arc<dyn Finisher>,
        replica: Arc<Replica>,
        objects: Arc<Objects>,
    ) -> Arc<Self> {
        let credits = Credits::new(Arc::clone(&store), clock.clone());
        let (throttle, gas) = (Throttle::new(config.failed_runs), GasMeter::new(config.gas));
        let facilitators = facilitators.into();
        Arc::new(Self {
            store,
            facilitators,
            begun: clock.now(),
            clock,
            config,
            finisher,
            replica,
            credits,
            objects,
            throttle,
            purses: Arc::default(),
            gas,
            alarms: Alarms::new(),
            open_runs: Mutex::default(),
            twins: (0..TWIN_LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
            open: Mutex::default(),
            lanes: Lanes::default(),
            pass: Mutex::default(),
            claims: Claims::default(),
            orphans: Mutex::default(),
        })
    }

    /// Returns the developer credits.
    #[must_use]
    pub fn credits(&self) -> &Arc<Credits> {
        &self.credits
    }

    /// Builds the challenge for a call under `terms`.
    #[must_use]
    pub fn challenge(&self, terms: &Terms, way: Way, reason: &str) -> Challenge {
        let accepts = [WireVersion::V1, WireVersion::V2].map(|version| self.accepts(terms, version));
        let offers = self.offers(terms, way, &accepts[1]);
        Challenge::new(&Question { accepts, offers, terms, way }, reason)
    }

    /// Returns the ways to pay for a call under `terms`, in the order of the settings.
    #[must_use]
    pub fn accepts(&self, terms: &Terms, version: WireVersion) -> Vec<Value> {
        self.config.accepts(&self.facilitators, terms, version)
    }

    /// Returns the signed offers. They are valid until the next minute, plus the time that a payment may take.
    fn offers(&self, terms: &Terms, way: Way, accepts: &[Value]) -> Arc<Vec<Value>> {
        let minute = self.clock.now().as_secs() / 60;
        let until = Timestamp((minute + 1).saturating_mul(60).saturating_add(terms.timeout_secs).saturating_mul(1_000));
        terms.offers.of((minute, way), accepts, || self.finisher.offers(&terms.resource(way), accepts, until))
    }

    /// Describes the accepted payments, for the manifest.
    #[must_use]
    pub fn describe(&self) -> Value {
        let Accepted { asset, pay_to } = self.config.first();
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

    /// Returns the facilitator's status, for operators.
    #[must_use]
    pub fn facilitator_status(&self) -> Option<Value> {
        self.facilitators.status()
    }

    /// Returns the status of each network's facilitator.
    #[must_use]
    pub fn facilitator_statuses(&self) -> Value {
        self.facilitators.statuses()
    }

    /// Looks up what an offered payment has bought or is buying, for a request that cannot be paid for now. Returns
    /// `None` if it is unspent or can be used only once.
    ///
    /// # Errors
    ///
    /// The payment is malformed or was made for another request.
    pub async fn earlier(&self, offered: &Offered, request: &str) -> Result<Option<Seen>, Refusal> {
        let known = match offered {
            Offered::Nothing => None,
            Offered::X402 { version, header } => Shown::decode(*version, header)?.known(),
            Offered::Credit(CreditOffer { idempotency_key: None, .. }) => None,
            Offered::Credit(CreditOffer { token, idempotency_key: Some(key), observer }) => {
                self.find_credit(token, observer.as_deref()).await?.map(|credit| credit_known(&credit, key))
            }
        };
        match known {
            Some((id, digest)) => self.seen(&id, &digest, request).await,
            None => Ok(None),
        }
    }

    /// Finds the credit with this token, once `observer` permits it.
    async fn find_credit(&self, token: &str, observer: Option<&dyn CredentialObserver>) -> Result<Option<Credit>, Refusal> {
        let lookup = if let Some(observer) = observer { Some(observer.begin().await?) } else { None };
        let credit = self.credits.find(token).await?;
        if let (None, Some(lookup)) = (&credit, lookup) {
            lookup.saw_wrong();
        }
        Ok(credit)
    }

    /// Forgets inactive payers and tools, to bound memory.
    pub fn forget_quiet(&self) {
        self.throttle.forget_quiet();
        self.gas.forget_quiet();
        // This host gets no news of a settlement that another host has taken over.
        let open = self.retries();
        self.open_runs().retain(|id, _| open.contains_key(id));
    }

    /// Returns the counts of payers and tools to share with other hosts of the store.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        let (runs, gas) = (self.throttle.tallies(), self.gas.tallies());
        runs.into_iter().chain(gas).collect()
    }

    /// Returns the number of settlements whose outcome is unknown.
    #[must_use]
    pub fn open_intents(&self) -> usize {
        self.retries().len()
    }

    /// Reads one record among many. An unreadable one is logged and skipped, so that it does not block the others.
    async fn read_among_others(&self, id: &PaymentId) -> Result<Option<Row<PaymentId, Record>>, StoreError> {
        let Some(found) = PAYMENTS.found(&*self.store, id).await? else { return Ok(None) };
        let logged = |error| tracing::error!(payment.id = %id, %error, "the record of a payment does not read; it stays as it is");
        Ok(PAYMENTS.read(found).map_err(logged).ok())
    }

    fn orphans(&self) -> std::sync::MutexGuard<'_, HashMap<PaymentId, Record>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of balances with a held amount.
    #[cfg(test)]
    pub(super) fn purses_held(&self) -> usize {
        self.purses.len()
    }

    /// Returns the number of reverted settlements that count against a payer.
    #[cfg(test)]
    pub(super) fn reverts_of(&self, payer: &str) -> u64 {
        self.gas.reverts_of(payer)
    }

    fn open_runs(&self) -> std::sync::MutexGuard<'_, HashMap<PaymentId, OpenRun>> {
        self.open_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retries(&self) -> std::sync::MutexGuard<'_, HashMap<PaymentId, Retry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the id of a call on credit and the credit's id. The token is already checked.
fn credit_known(credit: &Credit, key: &str) -> (PaymentId, String) {
    (PaymentId::of(&["credit", credit.id.as_str(), key]), credit.id.to_string())
}

impl Admission {
    /// Returns the payment's id.
    #[must_use]
    pub fn id(&self) -> &PaymentId {
        &self.id
    }

    /// Returns the payer's address, shortened, or `None` for credit.
    #[must_use]
    pub fn payer(&self) -> Option<String> {
        match &self.means {
            Means::X402(payment) => Some(crate::receipt::shortened(payment.signed.sender())),
            Means::Credit(_) => None,
        }
    }

    /// Returns the means of payment as in the receipt.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.means {
            Means::X402(_) => Kind::X402,
            Means::Credit(_) => Kind::Credit,
        }
    }

    /// Reduces the charge to the actual price of the call.
    pub fn charge(&mut self, amount: MicroUsd) {
        match &mut self.means {
            Means::X402(payment) => payment.charge(amount),
            Means::Credit(hold) => hold.narrow(amount),
        }
        if let Some(held) = &mut self.held {
            let price = &mut held.place.running.price;
            *price = amount.min(*price);
        }
    }

    /// Releases the reservation after a run that is not paid for.
    pub async fn fail(mut self) {
        if let Some(held) = self.held.take() {
            held.place.failed("failed");
        }
        self.release().await;
    }

    /// Ends the call without telling the store, as if its task had died.
    #[cfg(test)]
    pub(crate) fn vanish(mut self) {
        self.reserved = false;
    }

    /// Releases the reservation, and waits until that is stored.
    pub async fn release(mut self) {
        if std::mem::take(&mut self.reserved) {
            self.gate.give_back(&self.id, &self.record).await;
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.reserved {
            return;
        }
        let (gate, id, record) = (Arc::clone(&self.gate), self.id.clone(), self.record.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { gate.give_back(&id, &record).await });
        }
    }
}
