//! Reserve, settle, resolve: every change of a payment's record.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::{
    Challenge, CreditOffer, Credits, Facilitator, Finisher, Offered, Outcome, Payment, PaymentConfig, PaymentId, PaymentState, Refusal,
    SettleError, Settlement, SettlementKind, State, StoredAnswer, Terms, Verdict, WireVersion,
    credit::Hold,
    record::{Intent, Record, SettlementNotice},
    wire,
};
use crate::{
    clock::{Clock, Timestamp},
    id::RequestId,
    store::{Check, Direction, Durability, KeyRange, Space, Store, StoreError, Write},
};

/// How long an answer is kept for whoever shows its payment again.
const ANSWER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest time between two questions about one open settlement.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Age at which a settlement of another process counts as open: above every facilitator's own time-out.
const FOREIGN_AGE: Duration = Duration::from_secs(180);

/// Open settlements, and expired answers, looked at in one go.
const BATCH: usize = 256;

/// Open settlements asked about at once.
const AT_ONCE: usize = 16;

/// Most characters of an idempotency key.
const MAX_IDEMPOTENCY_KEY: usize = 255;

/// Tries of a conditional commit: each failure means that another succeeded.
const TRIES: usize = 1_000;

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
            "asset": { "address": network.asset, "name": network.asset_name, "version": network.asset_version, "decimals": super::config::DECIMALS },
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
        self.reserve(id, digest, request, named, || Means::X402(Box::new(payment.clone()))).await
    }

    async fn admit_credit(self: &Arc<Self>, terms: &Terms, offer: CreditOffer, request: &str) -> Result<Admit, Refusal> {
        let credit = self.credits.find(&offer.token).await?.ok_or(Refusal::CreditUnknown)?;
        let key = match offer.idempotency_key {
            Some(key) if key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY || !key.bytes().all(|b| b.is_ascii_graphic()) => {
                let message = format!("`Idempotency-Key` is 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters");
                return Err(Refusal::invalid("invalid_payload", message));
            }
            Some(key) => key,
            // Each call is a payment of its own.
            None => RequestId::generate().to_string(),
        };
        let id = PaymentId::of(&["credit", credit.id.as_str(), &key]);
        // The token is checked already; a repeated call need not be affordable again.
        let digest = credit.id.to_string();
        if let Some(admit) = self.seen(&id, &digest, request).await? {
            return Ok(admit);
        }
        let hold = self.credits.hold(&credit, terms.price);
        let mut hold = Some(hold.ok_or(Refusal::InsufficientCredit { balance: credit.balance, price: terms.price })?);
        self.reserve(id, digest, request, None, move || Means::Credit(hold.take().expect("a reservation is made once"))).await
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
        named: Option<Vec<u8>>,
        mut means: impl FnMut() -> Means,
    ) -> Result<Admit, Refusal> {
        for _ in 0..TRIES {
            if let Some(admit) = self.seen(&id, &digest, request).await? {
                return Ok(admit);
            }
            let before = self.store.get(Space::Payments, &id.key()).await?;
            if before.as_deref().and_then(Record::decode).is_some_and(|record| !matches!(record.state, State::Released | State::Refused)) {
                continue;
            }
            let mut checks = vec![Check { space: Space::Payments, key: id.key(), expected: before }];
            let record = Record::reserved(request, digest.clone(), self.clock.now());
            let mut writes = vec![put(Space::Payments, id.key(), record.encode()), put(Space::OpenIntents, id.key(), vec![])];
            if let Some(named) = &named {
                let known = self.store.get(Space::Payments, named).await?;
                match self.named(known.as_deref(), &id, request).await? {
                    Named::Admits(admit) => return Ok(admit),
                    // It must not come back to life while we take its name.
                    Named::Unspent(check) => checks.extend(check),
                }
                checks.push(Check { space: Space::Payments, key: named.clone(), expected: known });
                writes.push(put(Space::Payments, named.clone(), id.as_str().as_bytes().to_vec()));
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
        Err(Refusal::InProgress)
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
            None => Named::Unspent(Some(Check { space: Space::Payments, key: earlier.key(), expected: Some(bytes) })),
        })
    }

    /// Takes the money for `answer`, and stores receipt and answer in the commit that says so.
    /// `draft` is what the finisher makes the receipt from.
    ///
    /// # Errors
    ///
    /// [`SettleError`]; the answer must be withheld.
    pub async fn settle(&self, mut admission: Admission, answer: StoredAnswer, draft: &[u8]) -> Result<StoredAnswer, SettleError> {
        match &admission.means {
            Means::X402(_) => {
                let (payment, id) = self.intend(&mut admission, answer, draft).await?;
                let outcome = self.facilitator.settle(&payment).await;
                self.conclude(&id, outcome).await
            }
            Means::Credit(_) => self.debit(admission, answer, draft).await,
        }
    }

    /// Writes the intent. From here on only [`Gate::conclude`] ends the payment.
    async fn intend(&self, admission: &mut Admission, answer: StoredAnswer, draft: &[u8]) -> Result<(Payment, PaymentId), SettleError> {
        let Means::X402(payment) = &admission.means else { unreachable!("only x402 payments have an intent") };
        let payment = Payment::clone(payment);
        let id = admission.id.clone();
        let before = admission.record.encode();
        let mut record = admission.record.clone();
        record.state = State::Settling;
        record.updated_ms = self.clock.now().0;
        record.intent = Some(Intent {
            version: payment.version,
            payload: payment.payload.to_string(),
            requirements: payment.requirements.to_string(),
            draft: draft.to_vec(),
            answer,
        });
        // Known as ours before anyone can see it in the store.
        self.retries().insert(id.clone(), Retry { at: None, tries: 0 });
        let check = Check { space: Space::Payments, key: id.key(), expected: Some(before) };
        let committed = self.store.commit(vec![check], vec![put(Space::Payments, id.key(), record.encode())], Durability::Durable).await;
        if let Err(error) = committed {
            // Not asked to settle. Of the intent and the release, one is written.
            admission.ended = true;
            if self.give_back(&id, &admission.record).await == Some(true) || !matches!(error, StoreError::Unknown(_)) {
                self.retries().remove(&id);
                return Err(error.into());
            }
            // The intent may be on disk: whoever finds it there acts on it.
            self.ask_later(&id);
            return Err(SettleError::Unknown { payment: id });
        }
        admission.ended = true;
        Ok((payment, id))
    }

    /// Records how a settlement ended.
    async fn conclude(&self, id: &PaymentId, outcome: Outcome) -> Result<StoredAnswer, SettleError> {
        let unknown = || SettleError::Unknown { payment: id.clone() };
        let mut concluded = self.try_conclude(id, &outcome).await;
        for _ in 0..TRIES {
            if !matches!(concluded, Err(SettleError::Store(StoreError::Conflict))) {
                break;
            }
            // Another replica was faster.
            concluded = self.try_conclude(id, &outcome).await;
        }
        match &concluded {
            Ok(_) | Err(SettleError::Refused { .. }) => _ = self.retries().remove(id),
            Err(error) => {
                tracing::warn!(payment.id = %id, %error, "a settlement is open");
                self.ask_later(id);
            }
        }
        // The intent is on disk: a store that went away now leaves the outcome to be found out again.
        concluded.map_err(|error| if matches!(error, SettleError::Store(_)) { unknown() } else { error })
    }

    async fn try_conclude(&self, id: &PaymentId, outcome: &Outcome) -> Result<StoredAnswer, SettleError> {
        let unknown = || SettleError::Unknown { payment: id.clone() };
        let Some((mut record, before)) = self.read(id).await? else { return Err(unknown()) };
        let Some(intent) = record.intent.take() else {
            return match (record.state, record.reason) {
                (State::Refused, Some(reason)) => Err(SettleError::Refused { message: reason.clone(), reason }),
                _ => record.answer.ok_or_else(unknown),
            };
        };
        record.updated_ms = self.clock.now().0;
        let check = Check { space: Space::Payments, key: id.key(), expected: Some(before) };
        match outcome {
            Outcome::Settled(settlement) => {
                let mut finished = self.finisher.finish(&intent.draft, settlement, intent.answer);
                // As the intent names it: the settings may be others since.
                let requirements: Value = serde_json::from_str(&intent.requirements).unwrap_or_default();
                let network = requirements["network"].as_str().unwrap_or(&settlement.network);
                let body = wire::settle_response(settlement, intent.version, network, finished.extensions.as_ref());
                finished.answer.settlement = Some(SettlementNotice { version: intent.version, body: body.to_string() });
                let answer = self.finish(id, check, record, settlement.clone(), finished).await?;
                Ok(answer)
            }
            Outcome::Refused { reason, message } => {
                record.state = State::Refused;
                record.reason = Some(reason.clone());
                let writes = vec![put(Space::Payments, id.key(), record.encode()), delete(Space::OpenIntents, id.key())];
                self.store.commit(vec![check], writes, Durability::Durable).await?;
                Err(SettleError::Refused { reason: reason.clone(), message: message.clone() })
            }
            Outcome::Unknown(why) => {
                tracing::warn!(payment.id = %id, why, "the facilitator did not say how a settlement ended");
                Err(unknown())
            }
        }
    }

    /// The commit that ends a payment: record, receipt and answer together.
    async fn finish(
        &self,
        id: &PaymentId,
        check: Check,
        record: Record,
        settlement: Settlement,
        finished: super::Finished,
    ) -> Result<StoredAnswer, StoreError> {
        let writes = self.final_writes(id, record, settlement, &finished);
        self.store.commit(vec![check], [finished.writes, writes].concat(), Durability::Durable).await?;
        Ok(finished.answer)
    }

    fn final_writes(&self, id: &PaymentId, mut record: Record, settlement: Settlement, finished: &super::Finished) -> Vec<Write> {
        record.state = State::Settled;
        record.updated_ms = self.clock.now().0;
        record.receipt_id = Some(finished.answer.receipt_id.clone());
        record.transaction = (!settlement.transaction.is_empty()).then_some(settlement.transaction);
        record.answer = Some(finished.answer.clone());
        let expiry = self.clock.now().plus_millis(u64::try_from(ANSWER_KEPT.as_millis()).unwrap_or(u64::MAX));
        vec![
            put(Space::Payments, id.key(), record.encode()),
            delete(Space::OpenIntents, id.key()),
            put(Space::PaymentExpiry, expiry_key(expiry, id), vec![]),
        ]
    }

    /// Debits a credit: balance, record, receipt and answer in one commit.
    async fn debit(&self, mut admission: Admission, answer: StoredAnswer, draft: &[u8]) -> Result<StoredAnswer, SettleError> {
        let Means::Credit(hold) = &admission.means else { unreachable!("only credits are debited") };
        let id = admission.id.clone();
        let settlement = Settlement {
            kind: SettlementKind::Credit,
            transaction: String::new(),
            network: String::new(),
            asset: String::new(),
            amount: hold.amount.0.to_string(),
            payer: hold.id.to_string(),
            scheme: "credit".to_owned(),
            version: None,
        };
        let finished = self.finisher.finish(draft, &settlement, answer);
        for _ in 0..TRIES {
            let Some((check, write)) = self.credits.debit(&hold.id, hold.amount).await? else {
                let message = "developer credit is used up".to_owned();
                admission.release().await;
                return Err(SettleError::Refused { reason: "insufficient_funds".to_owned(), message });
            };
            let own = Check { space: Space::Payments, key: id.key(), expected: Some(admission.record.encode()) };
            let mut writes = self.final_writes(&id, Record::clone(&admission.record), settlement.clone(), &finished);
            writes.push(write);
            writes.extend(finished.writes.iter().cloned());
            match self.store.commit(vec![own, check], writes, Durability::Durable).await {
                Ok(()) => {
                    admission.ended = true;
                    return Ok(finished.answer);
                }
                // Another call of the same credit was faster.
                Err(StoreError::Conflict) => {}
                Err(StoreError::Unknown(why)) => {
                    tracing::error!(payment.id = %id, why, "a debit was not confirmed");
                    admission.ended = true;
                    // Of the debit and the release, one is written.
                    return Err(match self.give_back(&id, &admission.record).await {
                        Some(true) => StoreError::Unknown(why).into(),
                        Some(false) | None => SettleError::Unknown { payment: id },
                    });
                }
                Err(error) => {
                    admission.release().await;
                    return Err(error.into());
                }
            }
        }
        Err(StoreError::Conflict.into())
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

    /// Ends what a crash left: reservations are released, settlements asked about. For a store that
    /// no other process uses.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn recover(&self) -> Result<(), StoreError> {
        let mut settling = Vec::new();
        for (id, record, before) in self.open_records().await? {
            match record.state {
                State::Reserved => _ = self.release(&id, record, before).await?,
                State::Settling => {
                    self.retries().insert(id.clone(), Retry { at: Some(Instant::now()), tries: 0 });
                    settling.push(id);
                }
                State::Settled | State::Refused | State::Released => {
                    self.store.commit(vec![], vec![delete(Space::OpenIntents, id.key())], Durability::Buffered).await?;
                }
            }
        }
        if !settling.is_empty() {
            tracing::info!(payments = settling.len(), "resolving settlements that were open when the host ended");
            self.tick().await?;
        }
        Ok(())
    }

    /// Asks about open settlements whose time has come, and forgets answers that are a day old.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn tick(&self) -> Result<(), StoreError> {
        self.give_back_orphans().await;
        let now = Instant::now();
        let mut ended: Vec<PaymentId> = self.retries().iter().filter(|(_, retry)| retry.at.is_some()).map(|(id, _)| id.clone()).collect();
        let foreign = self.clock.now().0.saturating_sub(u64::try_from(FOREIGN_AGE.as_millis()).unwrap_or(u64::MAX));
        let open = self.open_records().await?;
        ended.retain(|id| !open.iter().any(|(other, record, _)| other == id && record.state == State::Settling));
        for id in ended {
            self.retries().remove(&id);
        }
        let mut settling = Vec::new();
        for (id, record, _) in open {
            let due = match self.retries().get(&id) {
                Some(Retry { at: Some(at), .. }) => *at <= now,
                // Another replica's, or of a call whose task died.
                Some(Retry { at: None, .. }) | None => record.updated_ms < foreign,
            };
            if record.state == State::Settling && due {
                settling.push((id, record));
            }
        }
        // One facilitator that does not answer holds up no other settlement.
        let resolve = async |(id, record): (PaymentId, Record)| self.resolve(&id, &record).await;
        futures_util::stream::iter(settling).for_each_concurrent(AT_ONCE, resolve).await;
        self.forget_answers().await
    }

    async fn resolve(&self, id: &PaymentId, record: &Record) {
        let Some(intent) = &record.intent else { return };
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let Ok(payment) = Payment::from_parts(intent.version, parse(&intent.payload), parse(&intent.requirements)) else {
            tracing::error!(payment.id = %id, "an intent does not read");
            return self.ask_later(id);
        };
        let outcome = self.facilitator.resolve(&payment).await;
        match self.conclude(id, outcome).await {
            Ok(_) => tracing::info!(payment.id = %id, "an open settlement was found settled"),
            Err(SettleError::Refused { reason, .. }) => tracing::info!(payment.id = %id, reason, "an open settlement was found refused"),
            Err(_) => {}
        }
    }

    async fn open_records(&self) -> Result<Vec<(PaymentId, Record, Vec<u8>)>, StoreError> {
        let mut records = Vec::new();
        let mut range = KeyRange::prefix(b"");
        loop {
            let page = self.store.scan(Space::OpenIntents, range.clone(), BATCH, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { return Ok(records) };
            range.start = std::ops::Bound::Excluded(last.clone());
            for (key, _) in &page {
                let id = std::str::from_utf8(key).ok().and_then(|text| text.parse::<PaymentId>().ok());
                let Some(id) = id else { continue };
                if let Some((record, before)) = self.read(&id).await? {
                    records.push((id, record, before));
                }
            }
        }
    }

    async fn forget_answers(&self) -> Result<(), StoreError> {
        let mut due =
            KeyRange { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Excluded(self.clock.now().0.to_be_bytes().to_vec()) };
        loop {
            let page = self.store.scan(Space::PaymentExpiry, due.clone(), BATCH, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            due = due.after(last);
            for (key, _) in page {
                self.forget_answer(key).await?;
            }
        }
    }

    async fn forget_answer(&self, key: Vec<u8>) -> Result<(), StoreError> {
        let id = key.get(8..).and_then(|id| std::str::from_utf8(id).ok()?.parse::<PaymentId>().ok());
        let mut checks = vec![];
        let mut writes = vec![delete(Space::PaymentExpiry, key.clone())];
        if let Some(id) = id
            && let Some((mut record, before)) = self.read(&id).await?
            && record.answer.take().is_some()
        {
            checks.push(Check { space: Space::Payments, key: id.key(), expected: Some(before) });
            writes.push(put(Space::Payments, id.key(), record.encode()));
        }
        match self.store.commit(checks, writes, Durability::Buffered).await {
            // On a conflict the next tick does it.
            Ok(()) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Releases a reservation. False when it has gone on without us: whoever changed it ends it.
    async fn release(&self, id: &PaymentId, mut record: Record, before: Vec<u8>) -> Result<bool, StoreError> {
        record.state = State::Released;
        record.updated_ms = self.clock.now().0;
        let check = Check { space: Space::Payments, key: id.key(), expected: Some(before) };
        let writes = vec![put(Space::Payments, id.key(), record.encode()), delete(Space::OpenIntents, id.key())];
        match self.store.commit(vec![check], writes, Durability::Buffered).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases a reservation of our own, now or as soon as the store does it. `None`: it is not known yet.
    async fn give_back(&self, id: &PaymentId, record: &Record) -> Option<bool> {
        match self.release(id, record.clone(), record.encode()).await {
            Ok(released) => Some(released),
            Err(error) => {
                tracing::error!(payment.id = %id, %error, "a reservation could not be released; it is tried again");
                self.orphans().insert(id.clone(), record.clone());
                None
            }
        }
    }

    async fn give_back_orphans(&self) {
        let orphans: Vec<_> = self.orphans().drain().collect();
        for (id, record) in orphans {
            self.give_back(&id, &record).await;
        }
    }

    async fn read(&self, id: &PaymentId) -> Result<Option<(Record, Vec<u8>)>, StoreError> {
        let Some(bytes) = self.store.get(Space::Payments, &id.key()).await? else { return Ok(None) };
        match Record::decode(&bytes) {
            Some(record) => Ok(Some((record, bytes))),
            None => Err(StoreError::Away(format!("the record of payment `{id}` does not read"))),
        }
    }

    fn ask_later(&self, id: &PaymentId) {
        let mut open = self.retries();
        let retry = open.entry(id.clone()).or_insert(Retry { at: None, tries: 0 });
        let wait = Duration::from_secs(1u64 << retry.tries.min(16)).min(MAX_BACKOFF);
        *retry = Retry { at: Some(Instant::now() + wait), tries: retry.tries + 1 };
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
    Answer(StoredAnswer),
    NotYet,
    /// The facilitator did not say how its settlement ended.
    Open,
    /// Nothing was taken.
    Without,
}

impl Admission {
    #[must_use]
    pub fn id(&self) -> &PaymentId {
        &self.id
    }

    /// The payer's address, shortened; `None` for credit.
    #[must_use]
    pub fn payer(&self) -> Option<String> {
        match &self.means {
            Means::X402(payment) => Some(crate::receipt::shortened(&payment.authorization.from)),
            Means::Credit(_) => None,
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

fn put(space: Space, key: Vec<u8>, value: Vec<u8>) -> Write {
    Write { space, key, value: Some(value) }
}

fn delete(space: Space, key: Vec<u8>) -> Write {
    Write { space, key, value: None }
}

fn expiry_key(at: Timestamp, id: &PaymentId) -> Vec<u8> {
    [at.0.to_be_bytes().as_slice(), id.as_str().as_bytes()].concat()
}

/// Key of the index entry for a client's own id of a payment. Scoped by payer: no one can take another's.
fn client_key(payer: &str, name: &str) -> Vec<u8> {
    format!("cid/{payer}/{name}").into_bytes()
}
