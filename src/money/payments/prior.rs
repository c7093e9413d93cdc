//! Was this already paid? The one place that knows what a payment that was sent before has bought.

use std::io::ErrorKind;
use tollhouse_base::boxed;

use tollhouse_api::Payment;
use tollhouse_store::StoreError;

use super::{
    PAYMENT_NAMES, PAYMENTS, Payments, SeenPayment,
    answer::PAYMENT_ANSWERS,
    credit_known,
    record::{ExpiryInfo, PaymentRecord},
};
use crate::{
    CreditOffer, OfferedPayment, OwedPayment, PaymentId, PaymentState, Refusal, StoredAnswer, Unanswered, x402::offer::ShownPayment,
};

/// The outcome of a payment that another call or host may handle.
#[derive(Debug)]
pub enum HeldPaymentEnd {
    /// It ended with this answer.
    Answer(StoredAnswer),
    /// It was charged, and the object with its answer is missing or corrupt.
    Lost,
    /// It was charged, and its answer has expired.
    NotKept,
    /// It is running, or its settlement is being looked up.
    NotYet,
    /// It was charged before its run, which is in flight.
    Running {
        /// Number of earlier runs that ended without an answer.
        failed_runs: u32,
    },
    /// The facilitator did not report the outcome of its settlement.
    Open,
    /// It was charged before its run, and no run is in flight. The same payment can run the tool again.
    Owed(OwedPayment),
    /// It ended without an answer, and nothing was taken.
    Without,
}

impl Payments {
    /// Looks up what an offered payment has bought or is buying, for a request that cannot be paid for now. Returns
    /// `None` if it is unspent or can be used only once. If an unspent payment has a name, looks up the payment that
    /// its payer sent under this name before.
    ///
    /// # Errors
    ///
    /// The payment is malformed or was made for another request. [`Refusal::NoMoreRuns`] if it was charged before its
    /// run, and no run is left or it was refunded.
    #[boxed]
    pub async fn earlier(&self, offered: &OfferedPayment, request: &str) -> Result<Option<SeenPayment>, Refusal> {
        let (known, shown) = match offered {
            OfferedPayment::Nothing | OfferedPayment::Credit(CreditOffer { idempotency_key: None, .. }) => (None, None),
            OfferedPayment::X402 { version, header } => {
                let shown = ShownPayment::decode(*version, header)?;
                (shown.known(), Some(shown))
            }
            OfferedPayment::Credit(CreditOffer { token, idempotency_key: Some(key), observer }) => {
                (self.find_credit(token, observer.as_deref()).await?.map(|credit| credit_known(&credit, key)), None)
            }
        };
        let Some((id, digest)) = known else { return Ok(None) };
        let payer = shown.as_ref().and_then(ShownPayment::payer);
        let seen = match (self.seen(&id, &digest, request).await?, shown) {
            (None, Some(shown)) => self.seen_by_name(&shown, request).await?,
            (seen, _) => seen,
        };
        match seen {
            Some(SeenPayment::Owed(owed)) => {
                self.check_owed(&owed).await?;
                Ok(Some(SeenPayment::Owed(OwedPayment { payer, ..owed })))
            }
            seen => Ok(seen),
        }
    }

    /// Returns what a payment has bought or is buying for its sender, or `None` if it is unspent.
    pub(super) async fn seen(&self, id: &PaymentId, digest: &str, request: &str) -> Result<Option<SeenPayment>, Refusal> {
        match PAYMENTS.get(&*self.store, id).await? {
            Some(record) if check_use(&record, digest, request)? => self.bought_by(id.clone(), record).await.map(Some),
            Some(_) | None => Ok(None),
        }
    }

    /// Returns what another payment with the name of an unspent one has bought. The unspent payment must be signed by
    /// its payer's key for this host and must not have expired, because a chain publishes the signatures of all others.
    async fn seen_by_name(&self, shown: &ShownPayment, request: &str) -> Result<Option<SeenPayment>, Refusal> {
        let Some(name) = shown.named().and_then(|(payer, name)| ExpiryInfo::new(0, Some((payer.as_str(), name))).named) else {
            return Ok(None);
        };
        // Looked up first, because recovering a key is slow.
        let Some(other) = PAYMENT_NAMES.get(&*self.store, &name).await? else { return Ok(None) };
        let Some((asset, to)) = shown.signed_recipient(self.clock.now()) else { return Ok(None) };
        if !self.config.accepted.iter().any(|accepted| accepted.asset == asset && accepted.pay_to.parse() == Ok(to)) {
            return Ok(None);
        }
        match PAYMENTS.get(&*self.store, &other).await? {
            Some(record) if check_use(&record, &record.digest, request)? => self.bought_by(other, record).await.map(Some),
            Some(_) | None => Ok(None),
        }
    }

    /// Returns what a payment that is not unspent has bought for its sender.
    #[boxed]
    pub(super) async fn bought_by(&self, id: PaymentId, record: PaymentRecord) -> Result<SeenPayment, Refusal> {
        let on_credit = record.is_on_credit();
        match self.bought(&id, record).await? {
            HeldPaymentEnd::Answer(answer) if answer.is_unkept() => Err(Refusal::AnswerExpired(id)),
            HeldPaymentEnd::Answer(answer) => Ok(SeenPayment::Stored(id, answer)),
            HeldPaymentEnd::Lost => Err(Refusal::AnswerLost(id)),
            HeldPaymentEnd::NotKept if on_credit => Err(Refusal::AnswerExpired(id)),
            HeldPaymentEnd::NotKept => {
                let message = "the authorization was already used, and its stored answer has expired";
                Err(Refusal::invalid("invalid_exact_evm_nonce_already_used", message))
            }
            HeldPaymentEnd::Owed(owed) => {
                let Unanswered { payment, receipt, runs_left, until, .. } = self.unanswered_by(&owed);
                if runs_left == 0 || until <= self.clock.now() {
                    return Err(Refusal::NoMoreRuns { payment, receipt, is_refunded: false });
                }
                Ok(SeenPayment::Owed(owed))
            }
            HeldPaymentEnd::Without | HeldPaymentEnd::NotYet | HeldPaymentEnd::Open | HeldPaymentEnd::Running { .. } => {
                Ok(SeenPayment::InFlight(id))
            }
        }
    }

    /// Returns the outcome of a payment that another call or replica handles.
    #[boxed]
    pub async fn ended(&self, id: &PaymentId) -> Result<HeldPaymentEnd, StoreError> {
        match PAYMENTS.get(&*self.store, id).await? {
            Some(record) => self.bought(id, record).await,
            None => Ok(HeldPaymentEnd::Without),
        }
    }

    /// Returns the answer of a payment that has ended, if it is still there.
    pub(super) async fn kept_answer(&self, id: &PaymentId, record: PaymentRecord) -> Result<Option<StoredAnswer>, StoreError> {
        Ok(if let HeldPaymentEnd::Answer(answer) = self.answer_of(id, record).await? { Some(answer) } else { None })
    }

    async fn bought(&self, id: &PaymentId, record: PaymentRecord) -> Result<HeldPaymentEnd, StoreError> {
        Ok(match record.state {
            PaymentState::Released | PaymentState::Refused => HeldPaymentEnd::Without,
            PaymentState::Reserved => HeldPaymentEnd::NotYet,
            PaymentState::Settling if self.retries.lock().get(id).is_some_and(|retry| retry.at.is_some()) => HeldPaymentEnd::Open,
            PaymentState::Settling => HeldPaymentEnd::NotYet,
            PaymentState::Unresolved => HeldPaymentEnd::Open,
            PaymentState::Owed if self.is_running(&record).await? => HeldPaymentEnd::Running { failed_runs: record.failed_runs() },
            PaymentState::Owed => HeldPaymentEnd::Owed(OwedPayment { id: id.clone(), record: Box::new(record), payer: None }),
            PaymentState::Settled => self.answer_of(id, record).await?,
        })
    }

    async fn answer_of(&self, id: &PaymentId, record: PaymentRecord) -> Result<HeldPaymentEnd, StoreError> {
        if !record.has_answer {
            return Ok(HeldPaymentEnd::NotKept);
        }
        let Some(row) = PAYMENT_ANSWERS.get(&*self.store, id).await? else { return Ok(HeldPaymentEnd::NotKept) };
        let receipt_id = record.receipt_id.unwrap_or_default();
        let answer = StoredAnswer { receipt_id, settlement: record.notice, ..row.answer };
        let Some(object) = row.object else { return Ok(HeldPaymentEnd::Answer(answer)) };
        match self.objects.get(&object.name, Some(&object.sha256)).await {
            Ok(Some(body)) => Ok(HeldPaymentEnd::Answer(StoredAnswer { body, ..answer })),
            // The answer expired between the two reads.
            Ok(None) if PAYMENT_ANSWERS.get(&*self.store, id).await?.is_none() => Ok(HeldPaymentEnd::NotKept),
            Ok(None) => {
                tracing::error!(payment.id = %id, object.name, "the object with the answer of a payment is missing");
                Ok(HeldPaymentEnd::Lost)
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                tracing::error!(payment.id = %id, %error, "the object with the answer of a payment is corrupt");
                Ok(HeldPaymentEnd::Lost)
            }
            Err(error) => Err(StoreError::Away(format!("the bucket is unavailable: {error}"))),
        }
    }

    /// Returns the state of a payment, with its receipt and transaction, and what a reorganization did to it.
    #[boxed]
    pub async fn state(&self, id: &PaymentId) -> Result<Option<Payment>, StoreError> {
        let Some(record) = PAYMENTS.get(&*self.store, id).await? else { return Ok(None) };
        let state = record.public(id);
        let receipt = state.receipt_id.as_ref().filter(|_| state.transaction.is_some()).and_then(|receipt| receipt.parse().ok());
        let settlement = match receipt {
            Some(receipt) => self.reorganization(&receipt).await?,
            None => None,
        };
        Ok(Some(Payment { settlement, ..state }))
    }

    /// Returns whether an offered payment is this payment, or the developer credit that paid for it. The id alone
    /// proves nothing, because anybody can compute it from public data of the chain.
    #[boxed]
    pub async fn is_payer(&self, id: &PaymentId, offered: &OfferedPayment) -> Result<bool, StoreError> {
        let digest = match offered {
            OfferedPayment::Nothing => None,
            // A chain publishes signatures too.
            OfferedPayment::X402 { version, header } if offered.is_private() => {
                let known = ShownPayment::decode(*version, header).ok().and_then(|shown| shown.known());
                known.filter(|(shown, _)| shown == id).map(|(_, digest)| digest)
            }
            OfferedPayment::X402 { .. } => None,
            OfferedPayment::Credit(CreditOffer { token, .. }) => self.credits.find(token).await?.map(|credit| credit.id.to_string()),
        };
        let Some(digest) = digest else { return Ok(false) };
        Ok(PAYMENTS.get(&*self.store, id).await?.is_some_and(|record| record.digest == digest))
    }
}

/// Checks that a sender with this digest and request may get what a payment has bought. Returns false if it is unspent.
pub(super) fn check_use(record: &PaymentRecord, digest: &str, request: &str) -> Result<bool, Refusal> {
    if matches!(record.state, PaymentState::Released | PaymentState::Refused) {
        return Ok(false);
    }
    if record.digest != digest {
        // Nonces are public once settled. Only the holder of the signature gets the answer.
        return Err(Refusal::invalid("invalid_exact_evm_nonce_already_used", "the authorization was already used"));
    }
    if record.request != request {
        return Err(Refusal::Reused);
    }
    Ok(true)
}
