//! Admitting: what a payment is, whom it lets in, and the record that says so.

mod agrees;
pub(super) mod answer;
mod ask;
mod asked;
mod bind;
mod claims;
mod elsewhere;
mod reconcile;
pub(super) mod record;
mod recovery;
mod retry;
mod settle;
pub(super) mod slow;
mod watch;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

pub use self::{
    agrees::check_payments,
    reconcile::{BlockRange, ReconcileError, Reconciliation},
};
use super::{
    Accepted, Challenge, CredentialObserver, Credit, CreditOffer, Credits, Facilitators, Finisher, Offered, Payment, PaymentConfig,
    PaymentId, PaymentState, Refusal, State, StoredAnswer, Terms, Verdict, Way, WireVersion,
    credit::Hold,
    gate::{
        asked::asked,
        claims::{Claim, Claims},
        record::{Record, Tail},
        retry::{Lanes, Retry},
        slow::{Running, Slow},
    },
    offered::checked_key,
    receipt::Kind,
    terms::SETTLE_MARGIN,
    x402::{extensions, offer::Shown, wire::Question},
};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::RequestId,
    },
    objects::Objects,
    replica::Replica,
    store::{Entry, Row, Store, StoreError, Table, schema},
    tool::MicroUsd,
};

const PAYMENTS: Table<PaymentId, Record> = schema::PAYMENTS.indexed(&[open_intent]);
/// From a payer's own name of a payment, behind the payer, to the payment.
const PAYMENT_NAMES: Table<String, PaymentId> = schema::PAYMENT_NAMES.holding();
/// The payments that are reserved or settling.
const OPEN_INTENTS: Table<PaymentId, ()> = schema::OPEN_INTENTS.holding();
/// When to look at which payment again.
const PAYMENT_EXPIRY: Table<(Timestamp, String), ()> = schema::PAYMENT_EXPIRY.holding();

fn open_intent(id: &PaymentId, record: &Record) -> Option<Entry> {
    matches!(record.state, State::Reserved | State::Settling).then(|| schema::OPEN_INTENTS.entry(id, &()))
}

/// Longest time that an authorisation may still be valid when it is shown: as long as its record must be kept. Clients
/// sign for the minutes that the terms ask for.
const MAX_VALIDITY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long an idempotency key of a credit names the same call, from its first use.
const KEY_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a payment admits its caller to.
#[must_use]
pub enum Admit {
    /// A run.
    Run(Admission),
    /// The answer that the payment has bought already.
    Stored(PaymentId, StoredAnswer),
    /// The end of the run that has the payment.
    InFlight(PaymentId),
}

/// What became of a payment that was shown before.
#[derive(Debug)]
pub enum Seen {
    /// The answer that it has bought.
    Stored(PaymentId, StoredAnswer),
    /// It is buying one.
    InFlight(PaymentId),
}

impl From<Seen> for Admit {
    fn from(seen: Seen) -> Self {
        match seen {
            Seen::Stored(id, answer) => Self::Stored(id, answer),
            Seen::InFlight(id) => Self::InFlight(id),
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
    running: Running,
    /// `None` where nothing is reserved.
    _claim: Option<Claim>,
}

/// What a reservation is made of.
struct Reservation<'a> {
    id: PaymentId,
    digest: String,
    request: &'a str,
    tail: Tail,
    means: Means,
    running: Running,
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
    config: PaymentConfig,
    finisher: Arc<dyn Finisher>,
    /// Whose payments this gate's are.
    replica: Arc<Replica>,
    credits: Arc<Credits>,
    /// Where large answers are.
    objects: Arc<Objects>,
    /// Whose runs fail.
    slow: Slow,
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
        let slow = Slow::new(config.failed_runs);
        let facilitators = facilitators.into();
        Arc::new(Self {
            store,
            facilitators,
            clock,
            config,
            finisher,
            replica,
            credits,
            objects,
            slow,
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

    /// Verifies what is offered and reserves it for the request with this [`binding`](super::binding()). What was seen before is
    /// looked up before today's terms are matched: they may be others than those that it was paid under.
    ///
    /// # Errors
    ///
    /// Why it does not admit a call. Nothing was taken.
    pub async fn admit(self: &Arc<Self>, terms: &Terms, offered: Offered, request: &str) -> Result<Admit, Refusal> {
        match offered {
            Offered::Nothing => Err(Refusal::NoPayment),
            Offered::X402 { version, header } => self.admit_x402(terms, version, &header, request).await,
            Offered::Credit(offer) => self.admit_credit(terms, offer, request).await,
        }
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

    async fn admit_x402(self: &Arc<Self>, terms: &Terms, version: WireVersion, header: &str, request: &str) -> Result<Admit, Refusal> {
        let shown = Shown::decode(version, header)?;
        let known = shown.known();
        if let Some((id, digest)) = &known
            && let Some(seen) = self.seen(id, digest, request).await?
        {
            return Ok(seen.into());
        }
        let payment = shown.matching(terms, self.accepts(terms, version))?;
        let Some((id, digest)) = known else { return Err(Refusal::invalid("invalid_payload", "the payment does not read")) };
        let showable_until_ms = self.valid_until(&payment, terms)?;
        let payer = payment.payer();
        let running = Running { payer: payer.clone(), tool: terms.slug.clone() };
        self.slow.check(&running)?;
        match asked("verify", self.facilitators.of(payment.asset.network).verify(&payment), Verdict::name).await {
            Verdict::Valid => {}
            Verdict::Invalid { reason, message } => {
                // It may have been spent by a twin that was faster than the facilitator.
                return match self.seen(&id, &digest, request).await? {
                    Some(seen) => Ok(seen.into()),
                    None => Err(Refusal::Invalid { message: with_flaw(message, &reason, &payment), reason }),
                };
            }
            Verdict::Unavailable(why) => {
                tracing::warn!(payment.id = %id, why, "the facilitator could not verify a payment");
                return Err(Refusal::FacilitatorUnavailable(why));
            }
        }
        let tail = Tail::new(showable_until_ms, payment.client_id.as_deref().map(|name| (payer.as_str(), name)));
        let means = Means::X402(Box::new(payment));
        self.reserve(Reservation { id, digest, request, tail, means, running }).await
    }

    /// Until when an authorisation can be shown, in milliseconds since 1970. An expired one is refused whatever the
    /// facilitator says: the record that it is spent may be gone.
    /// What ends before it can be settled is refused before the work.
    fn valid_until(&self, payment: &Payment, terms: &Terms) -> Result<u64, Refusal> {
        let now = self.clock.now().0;
        let most = u64::try_from(MAX_VALIDITY.as_millis()).unwrap_or(u64::MAX);
        let Some(until) = payment.valid_before_secs() else { return Ok(now.saturating_add(most)) };
        let until = until.saturating_mul(1_000);
        let refused = |message: String| Refusal::invalid("invalid_exact_evm_payload_authorization_valid_before", message);
        match until.checked_sub(now) {
            None | Some(0) => Err(refused("the authorization has expired".to_owned())),
            Some(left) if left > most => {
                let days = MAX_VALIDITY.as_secs() / (24 * 60 * 60);
                Err(refused(format!("`validBefore` is more than {days} days ahead; sign for the `maxTimeoutSeconds` that are asked for")))
            }
            Some(left) if Duration::from_millis(left) < terms.wall + SETTLE_MARGIN => {
                Err(Refusal::TooShort { left: Duration::from_millis(left), wall: terms.wall, margin: SETTLE_MARGIN })
            }
            Some(_) => Ok(until),
        }
    }

    async fn admit_credit(self: &Arc<Self>, terms: &Terms, offer: CreditOffer, request: &str) -> Result<Admit, Refusal> {
        let credit = self.find_credit(&offer.token, offer.observer.as_deref()).await?.ok_or(Refusal::CreditUnknown)?;
        let key = offer.idempotency_key.map(checked_key).transpose().map_err(|message| Refusal::invalid("invalid_payload", message))?;
        let known = key.map(|key| credit_known(&credit, &key));
        // A repeated call need not be affordable again.
        if let Some((id, digest)) = &known
            && let Some(seen) = self.seen(id, digest, request).await?
        {
            return Ok(seen.into());
        }
        if credit.revoked.is_some() {
            return Err(Refusal::CreditRevoked);
        }
        if credit.budgets.in_force().frozen {
            return Err(Refusal::CreditFrozen);
        }
        let running = Running { payer: credit.id.to_string(), tool: terms.slug.clone() };
        self.slow.check(&running)?;
        let means = Means::Credit(self.credits.hold(&credit, terms.price, &terms.slug).await?);
        let Some((id, digest)) = known else {
            // A payment of its own, which nobody can show again: the commit of its debit says all there is to say of it.
            let (id, _) = credit_known(&credit, RequestId::generate().as_str());
            let record = Box::new(Record::reserved("", credit.id.to_string(), Tail::new(0, None), self.clock.now()));
            return Ok(Admit::Run(Admission { gate: Arc::clone(self), id, record, reserved: false, means, running, _claim: None }));
        };
        let kept = u64::try_from(KEY_KEPT.as_millis()).unwrap_or(u64::MAX);
        let tail = Tail::new(self.clock.now().plus_millis(kept).0, None);
        self.reserve(Reservation { id, digest, request, tail, means, running }).await
    }

    /// The credit with this token; `observer` is told where there is none.
    async fn find_credit(&self, token: &str, observer: Option<&dyn CredentialObserver>) -> Result<Option<Credit>, StoreError> {
        let credit = self.credits.find(token).await?;
        if let (None, Some(observer)) = (&credit, observer) {
            observer.saw_wrong();
        }
        Ok(credit)
    }

    /// The state of a payment, as everyone may see it.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn state(&self, id: &PaymentId) -> Result<Option<PaymentState>, StoreError> {
        Ok(PAYMENTS.get(&*self.store, id).await?.map(|record| record.public(id)))
    }

    /// Forgets payers and tools that have been quiet, so that memory stays flat.
    pub fn forget_quiet(&self) {
        self.slow.forget_quiet();
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
            Means::X402(payment) => Some(crate::money::receipt::shortened(payment.signed.sender())),
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
    }

    /// Gives the reservation back after a run that is not paid for.
    pub async fn fail(self) {
        self.gate.slow.failed(&self.running);
        self.release().await;
    }

    /// Ends the call without a word to the store, as where its task is gone.
    #[cfg(test)]
    pub(in crate::money) fn vanish(mut self) {
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

/// Why a payment was refused, with what no token takes of the form of its signature where that is the reason.
fn with_flaw(message: String, reason: &str, payment: &Payment) -> String {
    match payment.signed.flaw_of_form().filter(|_| reason.ends_with("signature")) {
        Some(flaw) => format!("{message}: {flaw}"),
        None => message,
    }
}
