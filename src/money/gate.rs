//! Admitting: what a payment is, whom it lets in, and the record that says so.

pub(super) mod record;
mod recovery;
mod settle;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Challenge, CreditOffer, Credits, Facilitator, Finisher, Offered, Payment, PaymentConfig, PaymentId, PaymentState, Refusal, State,
    StoredAnswer, Terms, Verdict, WireVersion,
    credit::Hold,
    gate::record::{Record, Tail},
    x402::wire,
};
use crate::{
    base::{
        clock::{Clock, Timestamp},
        id::RequestId,
    },
    money::receipt::Kind,
    store::{Check, Durability, Space, Store, StoreError, Write},
};

/// Most characters of an idempotency key.
const MAX_IDEMPOTENCY_KEY: usize = 255;

/// Longest time that an authorisation may still be valid when it is shown: as long as its record must be kept. Clients
/// sign for the minutes that the terms ask for.
const MAX_VALIDITY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long an idempotency key of a credit names the same call, from its first use.
const KEY_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Tries of a conditional commit: each failure means that another succeeded.
pub(super) const TRIES: usize = 1_000;

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

/// A reserved payment. Dropping it releases the reservation; [`Gate::settle`] takes the money.
#[must_use]
pub struct Admission {
    gate: Arc<Gate>,
    id: PaymentId,
    record: Box<Record>,
    means: Means,
    /// Set once the reservation is somebody else's to end.
    ended: bool,
}

/// What is paid with.
enum Means {
    X402(Box<Payment>),
    Credit(Hold),
}

/// The gate of a host.
pub struct Gate {
    store: Arc<dyn Store>,
    facilitator: Arc<dyn Facilitator>,
    clock: Clock,
    config: PaymentConfig,
    finisher: Arc<dyn Finisher>,
    credits: Arc<Credits>,
    /// Settlements that this process has open: when to ask again, and how often it has asked.
    open: Mutex<HashMap<PaymentId, Retry>>,
    /// Reservations of this process that the store did not take back yet.
    orphans: Mutex<HashMap<PaymentId, Record>>,
}

/// What a name that the client gave its payment says of it.
enum Named {
    /// The payment that has the name has bought this.
    Admits(Admit),
    /// None has it, or one that is unspent as long as the check holds.
    Unspent(Option<Check>),
}

#[derive(Clone, Copy)]
struct Retry {
    /// `None` while the first answer is awaited.
    at: Option<Instant>,
    tries: u32,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("facilitator", &self.facilitator.name()).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate over this store, paid through this facilitator.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        facilitator: Arc<dyn Facilitator>,
        clock: Clock,
        config: PaymentConfig,
        finisher: Arc<dyn Finisher>,
    ) -> Arc<Self> {
        let credits = Credits::new(Arc::clone(&store), clock.clone());
        Arc::new(Self { store, facilitator, clock, config, finisher, credits, open: Mutex::default(), orphans: Mutex::default() })
    }

    /// Developer credits.
    #[must_use]
    pub fn credits(&self) -> &Arc<Credits> {
        &self.credits
    }

    /// The challenge for a call under `terms`.
    #[must_use]
    pub fn challenge(&self, terms: &Terms, reason: &str) -> Challenge {
        Challenge::new(&self.config, terms, reason)
    }

    /// What payments are taken, for the manifest.
    #[must_use]
    pub fn describe(&self) -> Value {
        let network = self.config.network;
        let simulated = self.facilitator.simulated();
        let mut payment = json!({
            "protocol": "x402",
            "versions": [1, 2],
            "schemes": ["exact"],
            "network": network.caip2,
            "networkV1": network.v1_name,
            "asset": { "address": network.asset, "symbol": super::network::SYMBOL, "name": network.asset_name, "version": network.asset_version, "decimals": super::network::DECIMALS },
            "payTo": self.config.pay_to,
            "facilitator": self.facilitator.name(),
            "simulated": simulated,
            "paymentId": "`pmt_` and the first 32 hex digits of the SHA-256 of network, asset, payer and nonce: CAIP-2 and lower-case 0x texts, joined by line feeds",
            "extensions": [wire::PAYMENT_IDENTIFIER, "offer-receipt", "bazaar"],
            "developerCredit": { "header": "X-Developer-Credit", "idempotency": "Idempotency-Key" },
        });
        if simulated {
            payment["faucet"] = json!("POST /dev/faucet {\"address\", \"amountUsd\"}");
        }
        payment
    }

    /// Verifies what is offered and reserves it for the request with this hash.
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

    async fn admit_x402(self: &Arc<Self>, terms: &Terms, version: WireVersion, header: &str, request: &str) -> Result<Admit, Refusal> {
        let payment = Payment::decode(version, header, terms, &self.config)?;
        let (id, digest) = (payment.id(), payment.digest());
        if let Some(admit) = self.seen(&id, &digest, request).await? {
            return Ok(admit);
        }
        let showable_until_ms = self.valid_until(&payment)?;
        match self.facilitator.verify(&payment).await {
            Verdict::Valid => {}
            Verdict::Invalid { reason, message } => {
                // It may have been spent by a twin that was faster than the facilitator.
                return match self.seen(&id, &digest, request).await? {
                    Some(admit) => Ok(admit),
                    None => Err(Refusal::Invalid { reason, message }),
                };
            }
            Verdict::Unavailable(why) => return Err(Refusal::FacilitatorUnavailable(why)),
        }
        let named = payment.client_id.as_ref().map(|name| client_key(&payment.payer(), name));
        let tail = Tail { showable_until_ms, named };
        self.reserve(id, digest, request, tail, || Means::X402(Box::new(payment.clone()))).await
    }

    /// Until when an authorisation can be shown, in milliseconds since 1970. An expired one is refused whatever the
    /// facilitator says: the record that it is spent may be gone.
    fn valid_until(&self, payment: &Payment) -> Result<u64, Refusal> {
        let (now, until) = (self.clock.now().0, payment.valid_before_secs().saturating_mul(1_000));
        let refused = |message: String| Refusal::invalid("invalid_exact_evm_payload_authorization_valid_before", message);
        let most = u64::try_from(MAX_VALIDITY.as_millis()).unwrap_or(u64::MAX);
        match until.checked_sub(now) {
            None | Some(0) => Err(refused("the authorization has expired".to_owned())),
            Some(left) if left > most => {
                let days = MAX_VALIDITY.as_secs() / (24 * 60 * 60);
                Err(refused(format!("`validBefore` is more than {days} days ahead; sign for the `maxTimeoutSeconds` that are asked for")))
            }
            Some(_) => Ok(until),
        }
    }

    async fn admit_credit(self: &Arc<Self>, terms: &Terms, offer: CreditOffer, request: &str) -> Result<Admit, Refusal> {
        let Some(credit) = self.credits.find(&offer.token).await? else {
            if let Some(witness) = offer.witness {
                witness.saw_wrong();
            }
            return Err(Refusal::CreditUnknown);
        };
        let (key, showable_until_ms) = match offer.idempotency_key {
            Some(key) => {
                let kept = u64::try_from(KEY_KEPT.as_millis()).unwrap_or(u64::MAX);
                let key = checked_key(key).map_err(|message| Refusal::invalid("invalid_payload", message))?;
                (key, self.clock.now().plus_millis(kept).0)
            }
            // Each call is a payment of its own, which nobody can show again.
            None => (RequestId::generate().to_string(), 0),
        };
        let id = PaymentId::of(&["credit", credit.id.as_str(), &key]);
        // The token is checked already; a repeated call need not be affordable again.
        let digest = credit.id.to_string();
        if let Some(admit) = self.seen(&id, &digest, request).await? {
            return Ok(admit);
        }
        if credit.revoked.is_some() {
            return Err(Refusal::CreditRevoked);
        }
        let hold = self.credits.hold(&credit, terms.price, &terms.slug);
        let mut hold = Some(hold.ok_or(Refusal::InsufficientCredit { balance: credit.balance, price: terms.price })?);
        let tail = Tail { showable_until_ms, named: None };
        self.reserve(id, digest, request, tail, move || Means::Credit(hold.take().expect("a reservation is made once"))).await
    }

    /// What a payment that is known already admits to; `None` when it is unspent.
    async fn seen(&self, id: &PaymentId, digest: &str, request: &str) -> Result<Option<Admit>, Refusal> {
        let Some((record, _)) = self.read(id).await? else { return Ok(None) };
        if matches!(record.state, State::Released | State::Refused) {
            return Ok(None);
        }
        if record.digest != digest {
            // Nonces are public once settled: the answer is for who holds the signature.
            return Err(Refusal::invalid("invalid_exact_evm_nonce_already_used", "the authorization is spent"));
        }
        if record.request != request {
            return Err(Refusal::Reused);
        }
        match (record.state, record.answer) {
            (State::Settled, Some(answer)) => Ok(Some(Admit::Stored(id.clone(), answer))),
            (State::Settled, None) => {
                let message = "the authorization is spent, and its answer is no longer kept";
                Err(Refusal::invalid("invalid_exact_evm_nonce_already_used", message))
            }
            _ => Ok(Some(Admit::InFlight(id.clone()))),
        }
    }

    /// Binds the payment to the request: of many that arrive together, one.
    async fn reserve(
        self: &Arc<Self>,
        id: PaymentId,
        digest: String,
        request: &str,
        tail: Tail,
        mut means: impl FnMut() -> Means,
    ) -> Result<Admit, Refusal> {
        for _ in 0..TRIES {
            if let Some(admit) = self.seen(&id, &digest, request).await? {
                return Ok(admit);
            }
            let before = self.store.get(Space::Payments, &id.key()).await?;
            let earlier = before.as_deref().and_then(Record::decode);
            if earlier.as_ref().is_some_and(|record| !matches!(record.state, State::Released | State::Refused)) {
                continue;
            }
            let mut checks = vec![Check { space: Space::Payments, key: id.key(), expected: before }];
            let record = Record::reserved(request, digest.clone(), tail.clone(), self.clock.now());
            let mut writes = vec![Write::put(Space::Payments, id.key(), record.encode()), Write::put(Space::OpenIntents, id.key(), vec![])];
            if let Some(named) = &tail.named {
                let known = self.store.get(Space::Payments, named).await?;
                match self.named(known.as_deref(), &id, request).await? {
                    Named::Admits(admit) => return Ok(admit),
                    // It must not come back to life while we take its name.
                    Named::Unspent(check) => checks.extend(check),
                }
                checks.push(Check { space: Space::Payments, key: named.clone(), expected: known });
                writes.push(Write::put(Space::Payments, named.clone(), id.as_str()));
            }
            // The name under which it was shown before: nothing else would remove it.
            let left = earlier.and_then(|record| record.tail?.named).filter(|left| tail.named.as_ref() != Some(left));
            if let Some(left) = left
                && self.store.get(Space::Payments, &left).await?.as_deref() == Some(id.as_str().as_bytes())
            {
                checks.push(Check::holds(Space::Payments, left.clone(), id.as_str()));
                writes.push(Write::delete(Space::Payments, left));
            }
            match self.store.commit(checks, writes, Durability::Buffered).await {
                Ok(()) => {
                    let means = means();
                    return Ok(Admit::Run(Admission { gate: Arc::clone(self), id, record: Box::new(record), means, ended: false }));
                }
                Err(StoreError::Conflict) => {}
                Err(error) => {
                    if matches!(error, StoreError::Unknown(_)) {
                        // Nobody runs under it, if it was written.
                        self.give_back(&id, &record).await;
                    }
                    return Err(error.into());
                }
            }
        }
        Err(Refusal::InProgress(id))
    }

    /// What the payment that has the client's id already admits to (payment-identifier extension).
    async fn named(&self, known: Option<&[u8]>, id: &PaymentId, request: &str) -> Result<Named, Refusal> {
        let Some(earlier) = known.and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse::<PaymentId>().ok()) else {
            return Ok(Named::Unspent(None));
        };
        if &earlier == id {
            return Ok(Named::Unspent(None));
        }
        let Some((record, bytes)) = self.read(&earlier).await? else { return Ok(Named::Unspent(None)) };
        // Same payer, by the key; the payer signed the payment that names it.
        Ok(match self.seen(&earlier, &record.digest, request).await? {
            Some(admit) => Named::Admits(admit),
            None => Named::Unspent(Some(Check::holds(Space::Payments, earlier.key(), bytes))),
        })
    }

    /// The state of a payment, as everyone may see it.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn state(&self, id: &PaymentId) -> Result<Option<PaymentState>, StoreError> {
        Ok(self.read(id).await?.map(|(record, _)| record.public(id)))
    }

    /// The end of a payment that another call or replica has: its answer, or that it is still under
    /// way, or that it ended without one.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn ended(&self, id: &PaymentId) -> Result<Ended, StoreError> {
        Ok(match self.read(id).await? {
            Some((Record { state: State::Settled, answer: Some(answer), .. }, _)) => Ended::Answer(answer),
            Some((Record { state: State::Settling, .. }, _)) if self.retries().get(id).is_some_and(|retry| retry.at.is_some()) => {
                Ended::Open
            }
            Some((Record { state: State::Reserved | State::Settling, .. }, _)) => Ended::NotYet,
            _ => Ended::Without,
        })
    }

    /// Settlements whose end is not known.
    #[must_use]
    pub fn open_intents(&self) -> usize {
        self.retries().len()
    }

    async fn read(&self, id: &PaymentId) -> Result<Option<(Record, Vec<u8>)>, StoreError> {
        let unreadable = || StoreError::Away(format!("the record of payment `{id}` does not read"));
        match self.stored(id).await? {
            Some((None, _)) => Err(unreadable()),
            Some((Some(record), bytes)) => Ok(Some((record, bytes))),
            None => Ok(None),
        }
    }

    /// The same for who goes through many: one that does not read is logged, and holds up no other.
    async fn read_among_others(&self, id: &PaymentId) -> Result<Option<(Record, Vec<u8>)>, StoreError> {
        match self.stored(id).await? {
            Some((None, _)) => {
                tracing::error!(payment.id = %id, "the record of a payment does not read; it stays as it is");
                Ok(None)
            }
            Some((Some(record), bytes)) => Ok(Some((record, bytes))),
            None => Ok(None),
        }
    }

    /// A record, if it reads, and the bytes of it.
    async fn stored(&self, id: &PaymentId) -> Result<Option<(Option<Record>, Vec<u8>)>, StoreError> {
        let bytes = self.store.get(Space::Payments, &id.key()).await?;
        Ok(bytes.map(|bytes| (Record::decode(&bytes), bytes)))
    }

    fn orphans(&self) -> std::sync::MutexGuard<'_, HashMap<PaymentId, Record>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retries(&self) -> std::sync::MutexGuard<'_, HashMap<PaymentId, Retry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a payment that someone else holds.
#[derive(Debug)]
pub enum Ended {
    /// It ended, with this.
    Answer(StoredAnswer),
    /// It runs, or is being looked up.
    NotYet,
    /// The facilitator did not say how its settlement ended.
    Open,
    /// Nothing was taken.
    Without,
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
            Means::X402(payment) => Some(crate::money::receipt::shortened(&payment.authorization.from)),
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

    /// Gives the reservation back, and waits until that is done.
    pub async fn release(mut self) {
        self.ended = true;
        self.gate.give_back(&self.id, &self.record).await;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (gate, id, record) = (Arc::clone(&self.gate), self.id.clone(), self.record.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { gate.give_back(&id, &record).await });
        }
    }
}

/// An idempotency key, or what is wrong with it.
pub(super) fn checked_key(key: String) -> Result<String, String> {
    let fits = (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(key) } else { Err(format!("`Idempotency-Key` is 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters")) }
}

fn expiry_key(at: Timestamp, id: &PaymentId) -> Vec<u8> {
    [at.0.to_be_bytes().as_slice(), id.as_str().as_bytes()].concat()
}

/// Key of the index entry for a client's own id of a payment. Scoped by payer: no one can take another's.
fn client_key(payer: &str, name: &str) -> Vec<u8> {
    format!("cid/{payer}/{name}").into_bytes()
}
