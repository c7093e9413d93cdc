//! Admitting: what a payment is, whom it lets in, and the record that says so.

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
mod retry;
mod settle;
pub(super) mod slowed;
mod state;
pub(super) mod throttle;
mod unresolved;
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
        gas::{BurnedGas, Burner, GasHold, GasMeter},
        owed::OwedPayment,
        record::{Record, Tail},
        retry::{Lanes, Retry},
        throttle::{Place, Running, Throttle},
    },
    receipt::Kind,
    x402::{extensions, offer::Shown, wire::Question},
};

const PAYMENTS: Table<PaymentId, Record> = schema::PAYMENTS.indexed(&[open_intent, unresolved::index]);
/// From a payer's own name of a payment, behind the payer, to the payment.
const PAYMENT_NAMES: Table<String, PaymentId> = schema::PAYMENT_NAMES.holding();
/// The payments that are reserved or settling.
const OPEN_INTENTS: Table<PaymentId, ()> = schema::OPEN_INTENTS.holding();
/// When to look at which payment again.
const PAYMENT_EXPIRY: Table<(Timestamp, String), ()> = schema::PAYMENT_EXPIRY.holding();

fn open_intent(id: &PaymentId, record: &Record) -> Option<Entry> {
    record.is_open().then(|| schema::OPEN_INTENTS.entry(id, &()))
}

/// Locks for requests with the same payment. Others share one by chance.
const TWIN_LOCKS: usize = 1_024;

/// A request that is to be paid for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What a payment is bound to: see [`binding`](super::binding()).
    pub binding: &'a str,
    /// Whose network asks; `None` where nobody knows.
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

/// What a payment admits its caller to.
#[must_use]
pub enum Admit {
    /// A run.
    Run(Admission),
    /// The answer that the payment has bought already.
    Stored(PaymentId, StoredAnswer),
    /// The end of the run that has the payment.
    InFlight(PaymentId),
    /// Another run of what was charged before: see [`Gate::resume`].
    Owed(OwedPayment),
}

/// What became of a payment that was shown before.
#[derive(Debug)]
pub enum Seen {
    /// The answer that it has bought.
    Stored(PaymentId, StoredAnswer),
    /// It is buying one.
    InFlight(PaymentId),
    /// It was charged, and has bought none yet.
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

/// A payment that buys a run. Dropping it releases its reservation; [`Gate::settle`] takes the money.
#[must_use]
pub struct Admission {
    gate: Arc<Gate>,
    id: PaymentId,
    record: Box<Record>,
    /// The record is written, and nobody else's to end. It is not where nobody else can show the same payment: there is nothing to
    /// reserve.
    reserved: bool,
    means: Means,
    /// Gone once it is known how the run ended.
    held: Option<Box<Held>>,
    /// `None` where nothing is reserved.
    claim: Option<Claim>,
}

/// What a run under way holds of limits.
struct Held {
    place: Place,
    purse: Option<PurseHold>,
    gas: Option<GasHold>,
    /// Whether the payer is a contract, whose code runs when its payment is tried.
    by_contract: bool,
}

/// A settlement that is not known to have ended, and what was counted of it.
struct OpenRun {
    /// Its run, as its failure was counted; `None` where another process ran it.
    running: Option<Running>,
    /// Whom its gas counts for.
    burner: Burner,
    /// Gas that its transactions burned so far.
    burned: Option<BurnedGas>,
    /// The money may still move.
    purse: Option<PurseHold>,
    /// Gas may still be burned.
    _gas: Option<GasHold>,
}

/// What a reservation is made of.
struct Reservation<'a> {
    id: PaymentId,
    digest: String,
    request: &'a str,
    tail: Tail,
    means: Means,
    held: Held,
}

/// What is paid with.
enum Means {
    X402(Box<Payment>),
    Credit(Hold),
}

/// The gate of a host.
pub struct Gate {
    store: Arc<dyn Store>,
    facilitators: Facilitators,
    clock: Clock,
    /// When this host began.
    begun: Timestamp,
    config: PaymentConfig,
    finisher: Arc<dyn Finisher>,
    /// Whose payments this gate's are.
    replica: Arc<Replica>,
    credits: Arc<Credits>,
    /// Where large answers are.
    objects: Arc<Objects>,
    /// Limits on runs that nobody pays for.
    throttle: Arc<Throttle>,
    /// Of payers' balances, what runs under way hold.
    purses: Arc<Purses>,
    /// Gas of settlements that did not pay.
    gas: Arc<GasMeter>,
    /// What operators are warned of.
    alarms: Alarms,
    /// The runs of settlements that are open here.
    open_runs: Mutex<HashMap<PaymentId, OpenRun>>,
    /// Held while a payment is bound: requests with the same one are judged one after the other.
    twins: Box<[tokio::sync::Mutex<()>]>,
    /// Settlements that this replica has open: when to ask again, and how often it has asked.
    open: Mutex<HashMap<PaymentId, Retry>>,
    lanes: Lanes,
    /// Reservations whose calls run.
    claims: Claims,
    /// Reservations of this process that the store did not take back yet.
    orphans: Mutex<HashMap<PaymentId, Record>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("facilitators", &self.facilitators).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate over this store, paid through these facilitators.
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
            claims: Claims::default(),
            orphans: Mutex::default(),
        })
    }

    /// Developer credits.
    #[must_use]
    pub fn credits(&self) -> &Arc<Credits> {
        &self.credits
    }

    /// The challenge for a call under `terms` that is asked for in this way.
    #[must_use]
    pub fn challenge(&self, terms: &Terms, way: Way, reason: &str) -> Challenge {
        let accepts = [WireVersion::V1, WireVersion::V2].map(|version| self.accepts(terms, version));
        let offers = self.offers(terms, way, &accepts[1]);
        Challenge::new(&Question { accepts, offers, terms, way }, reason)
    }

    /// The ways to pay for a call under `terms`, in the order of the settings.
    #[must_use]
    pub fn accepts(&self, terms: &Terms, version: WireVersion) -> Vec<Value> {
        self.config.accepts(&self.facilitators, terms, version)
    }

    /// The signed offers of what is asked for now. They hold until the next minute, and as long as a payment may take.
    fn offers(&self, terms: &Terms, way: Way, accepts: &[Value]) -> Arc<Vec<Value>> {
        let minute = self.clock.now().as_secs() / 60;
        let until = Timestamp((minute + 1).saturating_mul(60).saturating_add(terms.timeout_secs).saturating_mul(1_000));
        terms.offers.of((minute, way), accepts, || self.finisher.offers(&terms.resource(way), accepts, until))
    }

    /// What payments are taken, for the manifest.
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

    /// How the facilitator fares, for operators.
    #[must_use]
    pub fn facilitator_status(&self) -> Option<Value> {
        self.facilitators.status()
    }

    /// How the facilitator of each network fares.
    #[must_use]
    pub fn facilitator_statuses(&self) -> Value {
        self.facilitators.statuses()
    }

    /// What is offered has bought already, or is buying: for a request that nobody could pay for today. `None` where it is
    /// unspent, or can be shown once.
    ///
    /// # Errors
    ///
    /// Why it buys nothing: it does not read, it was made for another request.
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

    /// The credit with this token; `observer` is told where there is none.
    async fn find_credit(&self, token: &str, observer: Option<&dyn CredentialObserver>) -> Result<Option<Credit>, StoreError> {
        let credit = self.credits.find(token).await?;
        if let (None, Some(observer)) = (&credit, observer) {
            observer.saw_wrong();
        }
        Ok(credit)
    }

    /// Forgets payers and tools that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        self.throttle.forget_quiet();
        self.gas.forget_quiet();
        // Of a settlement that another host has taken over nobody hears here.
        let open = self.retries();
        self.open_runs().retain(|id, _| open.contains_key(id));
    }

    /// What is counted of payers and tools, for the other hosts of the store.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        let (runs, gas) = (self.throttle.tallies(), self.gas.tallies());
        runs.into_iter().chain(gas).collect()
    }

    /// Settlements whose end is not known.
    #[must_use]
    pub fn open_intents(&self) -> usize {
        self.retries().len()
    }

    /// A record, for who goes through many: one that does not read is logged, and holds up no other.
    async fn read_among_others(&self, id: &PaymentId) -> Result<Option<Row<PaymentId, Record>>, StoreError> {
        let Some(found) = PAYMENTS.found(&*self.store, id).await? else { return Ok(None) };
        let logged = |error| tracing::error!(payment.id = %id, %error, "the record of a payment does not read; it stays as it is");
        Ok(PAYMENTS.read(found).map_err(logged).ok())
    }

    fn orphans(&self) -> std::sync::MutexGuard<'_, HashMap<PaymentId, Record>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Balances of which something is held.
    #[cfg(test)]
    pub(super) fn purses_held(&self) -> usize {
        self.purses.len()
    }

    /// Reverted settlements that count against a payer.
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

/// What a call on credit is known by, and whose it is: the token is checked already.
fn credit_known(credit: &Credit, key: &str) -> (PaymentId, String) {
    (PaymentId::of(&["credit", credit.id.as_str(), key]), credit.id.to_string())
}

impl Admission {
    /// What the payment is known by.
    #[must_use]
    pub fn id(&self) -> &PaymentId {
        &self.id
    }

    /// The payer's address, shortened; `None` for credit.
    #[must_use]
    pub fn payer(&self) -> Option<String> {
        match &self.means {
            Means::X402(payment) => Some(crate::receipt::shortened(payment.signed.sender())),
            Means::Credit(_) => None,
        }
    }

    /// What is paid with, as its receipt will say it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.means {
            Means::X402(_) => Kind::X402,
            Means::Credit(_) => Kind::Credit,
        }
    }

    /// Takes less than was asked for: what the call has come to cost.
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

    /// Gives the reservation back after a run that is not paid for.
    pub async fn fail(mut self) {
        if let Some(held) = self.held.take() {
            held.place.failed("failed");
        }
        self.release().await;
    }

    /// Ends the call without a word to the store, as where its task is gone.
    #[cfg(test)]
    pub(crate) fn vanish(mut self) {
        self.reserved = false;
    }

    /// Gives the reservation back, and waits until that is done.
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
