//! Decides whether an offered payment admits a call.

use std::{sync::Arc, time::Duration};

use tollhouse_base::id::RequestId;
use tollhouse_telemetry::counters::SLOWED_RUNS;

use super::{
    Admission, Admit, PAYMENTS, PaymentMeans, PaymentRequest, Payments, RunHolds, SeenPayment, credit_known,
    facilitator_calls::measured,
    gas::{GasCaller, GasRefusal, cover::GasCover},
    record::{ExpiryInfo, PaymentRecord},
    run_limits::RunLimitReached,
    unpaid_runs::{KnownFunds, RunParties},
    verifications::Verification,
};
use crate::{
    CallTerms, Credit, CreditOffer, IDEMPOTENCY_KEY_TTL, OfferedPayment, OfferedX402, OwedPayment, PaymentId, PaymentState, Refusal,
    SettleOutcome, StartedSettlement, VerifyResult, WireVersion, payment_offer::checked_key, terms::SETTLE_MARGIN,
    x402::offer::ShownPayment,
};

/// Maximum remaining validity of an authorization, since its record must be kept that long. Clients sign for the
/// minutes that the terms require.
const MAX_VALIDITY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Timeout for reading a balance, concurrently with the verification.
const BALANCE_TIMEOUT: Duration = Duration::from_secs(2);

impl Payments {
    /// Verifies an offered payment, and reserves it for the request with this [`binding`](super::binding()). Payments
    /// seen before are looked up before the current terms are matched, since they may have been paid under other terms.
    pub async fn admit(
        self: &Arc<Self>,
        terms: &CallTerms,
        offered: OfferedPayment,
        request: impl Into<PaymentRequest<'_>>,
    ) -> Result<Admit, Refusal> {
        let request = &request.into();
        match offered {
            OfferedPayment::Nothing => Err(Refusal::NoPayment),
            OfferedPayment::X402 { version, header } => {
                let shown = ShownPayment::decode(version, &header)?;
                let payer = shown.payer();
                match self.admit_x402(terms, version, shown, request).await? {
                    Admit::Seen(SeenPayment::Owed(owed)) => Ok(Admit::Seen(SeenPayment::Owed(OwedPayment { payer, ..owed }))),
                    admitted => Ok(admitted),
                }
            }
            OfferedPayment::Credit(offer) => self.admit_credit(terms, offer, request).await,
        }
    }

    async fn admit_x402(
        self: &Arc<Self>,
        terms: &CallTerms,
        version: WireVersion,
        shown: ShownPayment,
        request: &PaymentRequest<'_>,
    ) -> Result<Admit, Refusal> {
        let known = shown.known();
        if let Some((id, digest)) = &known
            && let Some(seen) = self.seen(id, digest, request.binding).await?
        {
            return Ok(Admit::Seen(seen));
        }
        let payment = shown.matching(terms, self.accepts(terms, version))?;
        let Some((id, digest)) = known else { return Err(Refusal::invalid("invalid_payload", "the payment is malformed")) };
        let (showable_until_ms, late) = match self.valid_until(&payment, terms) {
            Ok(until) => (until, None),
            // Its money may have moved while it was valid.
            Err(late) if self.ended_unpaid(&id, &digest, request).await? => {
                (payment.valid_before_secs().map_or(self.clock.now().0, |until| until.saturating_mul(1_000)), Some(late))
            }
            Err(late) => return Err(late),
        };
        let payer = payment.payer();
        let mut running = RunParties::new(payer.clone(), terms, request.from, KnownFunds::Balance);
        // The payer is not verified yet, so no slot is taken before.
        if let Err(slowed) = self.throttle.check(&running).and_then(|()| self.balance_holds.check(&payment)) {
            let _alone = self.twin(&id).await;
            return self.known_or_refused(&id, &digest, request.binding, check_run_limits(slowed)).await;
        }
        let remembered = self.verdicts.find(&payment, &digest);
        let verification = match remembered {
            Some(_) => Verification::skipped(),
            None => match self.verifications.begin(request.from).await {
                Ok(verification) => verification,
                Err(slowed) => {
                    let _alone = self.twin(&id).await;
                    return self.known_or_refused(&id, &digest, request.binding, check_run_limits(slowed)).await;
                }
            },
        };
        let is_remembered = remembered.is_some();
        let (payment, verdict, balance) = match remembered {
            Some((payment, balance)) => (payment, VerifyResult::Valid, balance),
            // Only the chain is asked about it.
            None if late.is_some() => (payment, VerifyResult::Valid, None),
            None => {
                let (verdict, balance) = self.verify(&payment).await;
                (payment, verdict, balance)
            }
        };
        let has_moved = match (late, verdict) {
            (None, VerifyResult::Valid) => false,
            (Some(_), _) | (None, VerifyResult::Invalid { .. }) if self.has_moved(&id, &digest, &payment, request).await? => true,
            (Some(late), _) => {
                verification.refused();
                return self.known_or_refused(&id, &digest, request.binding, late).await;
            }
            (None, VerifyResult::Invalid { reason, message }) => {
                verification.refused();
                // A concurrent request may have spent it before the facilitator answered.
                let message = with_challenge(message, &reason, &payment);
                return self.known_or_refused(&id, &digest, request.binding, Refusal::Invalid { reason, message }).await;
            }
            (None, VerifyResult::Unavailable(cause)) => {
                // Anybody can send a payment that no key signed.
                if payment.is_signed_by_key() == Some(false) {
                    verification.refused();
                }
                if let Some(skipped) = self.unverified.pass() {
                    tracing::warn!(payment.id = %id, cause, skipped, "the facilitator could not verify a payment");
                }
                return Err(Refusal::FacilitatorUnavailable(cause));
            }
        };
        // Money that has moved is no longer in the balance.
        let balance = balance.filter(|_| !has_moved);
        if balance.is_none() {
            running.funds = KnownFunds::Unknown;
        }
        if payment.tried_gas().is_some() {
            running.standing = self.standing(&running).await?;
        }
        let tail = ExpiryInfo::new(showable_until_ms, payment.client_id.as_deref().map(|name| (payer.as_str(), name)));
        let _alone = self.twin(&id).await;
        let own = id.clone();
        let admitted = match self.hold(running, &payment, balance) {
            Ok(held) => {
                let held = RunHolds { is_verified: !is_remembered && !has_moved, ..held };
                self.verdicts.forget_others(&payment, &digest);
                let record = PaymentRecord::reserved(request.binding, digest, tail, self.clock.now());
                let mut admission = self.admission(id, record, PaymentMeans::X402(Box::new(payment)), held);
                admission.has_moved = has_moved;
                self.reserve(admission).await
            }
            Err(refusal) => {
                let refusal = if has_moved { Refusal::Moved(Box::new(refusal)) } else { refusal };
                self.known_or_refused(&id, &digest, request.binding, refusal).await
            }
        };
        if was_in_vain(&own, &admitted) {
            verification.refused();
        }
        admitted
    }

    /// Asks the facilitator about a payment, and for the payer's balance. Both are asked at once only if the payer's key
    /// signed, so that a payment that anybody can make up costs fewer requests.
    async fn verify(&self, payment: &OfferedX402) -> (VerifyResult, Option<u128>) {
        let facilitator = self.facilitators.of(payment.asset.network);
        let balance = async { tokio::time::timeout(BALANCE_TIMEOUT, facilitator.balance(payment)).await.ok().flatten() };
        let verdict = async {
            let verdict = measured("verify", facilitator.verify(payment), VerifyResult::name).await;
            self.last_answers.verified(payment.asset.network, self.clock.now(), &verdict);
            verdict
        };
        if payment.is_signed_by_key() != Some(false) {
            return tokio::join!(verdict, balance);
        }
        let verdict = verdict.await;
        let balance = if verdict == VerifyResult::Valid { balance.await } else { None };
        (verdict, balance)
    }

    /// Returns whether a payment was released or refused here, for the same request.
    async fn ended_unpaid(&self, id: &PaymentId, digest: &str, request: &PaymentRequest<'_>) -> Result<bool, Refusal> {
        let Some(record) = PAYMENTS.get(&*self.store, id).await? else { return Ok(false) };
        let is_unpaid = matches!(record.state, PaymentState::Released | PaymentState::Refused);
        Ok(is_unpaid && record.digest == digest && record.request == request.binding)
    }

    /// Returns whether a payment that was released or refused here, for the same request, has moved its money to this
    /// host after all, or may have: its transfer can be in a block that is not final yet. A facilitator can refuse a
    /// payment and send it later, and anybody can send a signature that a reverted transaction has published. Only the
    /// chain is trusted, and only for the last hour, because an older search would find the settlement of another run.
    async fn has_moved(&self, id: &PaymentId, digest: &str, payment: &OfferedX402, request: &PaymentRequest<'_>) -> Result<bool, Refusal> {
        if !self.ended_unpaid(id, digest, request).await? {
            return Ok(false);
        }
        let facilitator = self.facilitators.of(payment.asset.network);
        if !facilitator.is_spent(payment).await {
            return Ok(false);
        }
        let started = StartedSettlement { at: self.clock.now(), facilitator: Some(facilitator.identity()), transaction: None };
        let found = measured("look_up", facilitator.look_up(payment, &started), SettleOutcome::name).await;
        Ok(matches!(found, SettleOutcome::Settled(_) | SettleOutcome::Unknown(_)))
    }

    /// Takes the shares of all limits that a run with this payment needs.
    fn hold(&self, running: RunParties, payment: &OfferedX402, balance: Option<u128>) -> Result<RunHolds, Refusal> {
        let tried = payment.tried_gas();
        // The limiter decides whether the payer's earlier payments cover this run too.
        let permit = self.throttle.begin(running).map_err(check_run_limits)?;
        let caller = || GasCaller::new(&permit.running, self.gas_cover(payment));
        let gas = tried.map(|tried| self.gas.hold(caller(), tried)).transpose().map_err(|refused| match refused {
            GasRefusal::Slowed(slowed) => check_run_limits(slowed),
            GasRefusal::Spent { wait } => {
                SLOWED_RUNS.count(["gas"]);
                Refusal::GasSpent { wait }
            }
        })?;
        let balance = balance.map(|balance| self.balance_holds.hold(payment, balance)).transpose().map_err(check_run_limits)?;
        let by_contract = tried.is_some_and(|tried| tried.by_contract);
        Ok(RunHolds { permit, balance, gas, by_contract, is_excusable: false, is_verified: false })
    }

    /// Returns whether a payment covers the gas of its settlement, as far as that is known before the run.
    pub(super) fn gas_cover(&self, payment: &OfferedX402) -> GasCover {
        GasCover::of(payment, self.config.least_settlement(payment.asset.network))
    }

    /// Refuses a payment, unless a concurrent request has already bought, or is buying, the same call with it.
    async fn known_or_refused(&self, id: &PaymentId, digest: &str, binding: &str, refusal: Refusal) -> Result<Admit, Refusal> {
        match self.seen(id, digest, binding).await? {
            Some(seen) => Ok(Admit::Seen(seen)),
            None => Err(refusal),
        }
    }

    /// Waits until no other request with this payment is being bound. While the lock is held, only the store is asked.
    async fn twin(&self, id: &PaymentId) -> tokio::sync::MutexGuard<'_, ()> {
        let position = id.to_string().bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % self.twins.len();
        self.twins[position].lock().await
    }

    /// Returns until when an authorization can be used, in milliseconds since 1970. An expired one is refused even if
    /// the facilitator accepts it, because the record that it is spent may be deleted. One that expires before it can
    /// be settled is refused before the run.
    fn valid_until(&self, payment: &OfferedX402, terms: &CallTerms) -> Result<u64, Refusal> {
        let now = self.clock.now().0;
        let max = u64::try_from(MAX_VALIDITY.as_millis()).unwrap_or(u64::MAX);
        let Some(until) = payment.valid_before_secs() else { return Ok(now.saturating_add(max)) };
        let until = until.saturating_mul(1_000);
        let refused = |message: String| Refusal::invalid("invalid_exact_evm_payload_authorization_valid_before", message);
        match until.checked_sub(now) {
            None | Some(0) => Err(refused("the authorization has expired".to_owned())),
            Some(remaining) if remaining > max => {
                let days = MAX_VALIDITY.as_secs() / (24 * 60 * 60);
                Err(refused(format!("`validBefore` is more than {days} days away; sign for the `maxTimeoutSeconds` of the challenge")))
            }
            Some(remaining) if Duration::from_millis(remaining) < terms.wall + SETTLE_MARGIN => {
                Err(Refusal::TooShort { remaining: Duration::from_millis(remaining), wall: terms.wall, margin: SETTLE_MARGIN })
            }
            Some(_) => Ok(until),
        }
    }

    async fn admit_credit(self: &Arc<Self>, terms: &CallTerms, offer: CreditOffer, request: &PaymentRequest<'_>) -> Result<Admit, Refusal> {
        let credit = self.find_credit(&offer.token, offer.observer.as_deref()).await?.ok_or(Refusal::CreditUnknown)?;
        let key = offer.idempotency_key.map(checked_key).transpose().map_err(Refusal::KeyInvalid)?;
        if terms.is_upfront() && key.is_none() {
            return Err(Refusal::KeyRequired);
        }
        let known = key.map(|key| credit_known(&credit, &key));
        let Some((id, digest)) = known else {
            let (means, held) = self.hold_credit(&credit, terms).await?;
            // Nobody can repeat this payment, so the commit of its debit is its only record.
            let (id, _) = credit_known(&credit, RequestId::generate().as_str());
            let record = PaymentRecord::reserved("", credit.id.to_string(), ExpiryInfo::new(0, None), self.clock.now());
            return Ok(Admit::Run(self.admission(id, record, means, held)));
        };
        // A repeated or concurrent call needs no second reservation: the first one holds the amount for both.
        if let Some(seen) = self.seen(&id, &digest, request.binding).await? {
            return Ok(Admit::Seen(seen));
        }
        let _alone = self.twin(&id).await;
        let (means, held) = match self.hold_credit(&credit, terms).await {
            Ok(held) => held,
            Err(refusal) => return self.known_or_refused(&id, &digest, request.binding, refusal).await,
        };
        let tail = ExpiryInfo::new(self.clock.now().plus(IDEMPOTENCY_KEY_TTL).0, None);
        self.reserve(self.admission(id, PaymentRecord::reserved(request.binding, digest, tail, self.clock.now()), means, held)).await
    }

    /// Returns the admission of a run, whose record is not written yet.
    fn admission(self: &Arc<Self>, id: PaymentId, record: PaymentRecord, means: PaymentMeans, held: RunHolds) -> Admission {
        let (record, held) = (Box::new(record), Some(Box::new(held)));
        Admission { payments: Arc::clone(self), id, record, reserved: false, means, has_moved: false, held, claim: None }
    }

    /// Reserves the price on a credit, and takes a slot among the runs.
    async fn hold_credit(&self, credit: &Credit, terms: &CallTerms) -> Result<(PaymentMeans, RunHolds), Refusal> {
        if credit.revoked.is_some() {
            return Err(Refusal::CreditRevoked);
        }
        if credit.budget().frozen {
            return Err(Refusal::CreditFrozen);
        }
        // A credit is bounded by its minted amount, whatever address it is used from.
        let running = RunParties::new(credit.id.to_string(), terms, None, KnownFunds::Credit);
        self.throttle.check(&running).map_err(check_run_limits)?;
        let means = PaymentMeans::Credit(self.credits.hold(credit, terms.price, &terms.slug).await?);
        let permit = self.throttle.begin(running).map_err(check_run_limits)?;
        Ok((means, RunHolds { permit, balance: None, gas: None, by_contract: false, is_excusable: false, is_verified: false }))
    }
}

/// Returns whether a payment was verified for nothing: it begins no run, for a reason other than the store or a concurrent
/// request with the same payment.
fn was_in_vain(id: &PaymentId, admitted: &Result<Admit, Refusal>) -> bool {
    match admitted {
        Ok(Admit::Run(_)) | Err(Refusal::Store(_) | Refusal::InProgress(_)) => false,
        Ok(Admit::Seen(SeenPayment::Stored(other, _) | SeenPayment::InFlight(other))) => other != id,
        Ok(Admit::Seen(SeenPayment::Owed(owed))) => owed.payment() != id,
        Err(_) => true,
    }
}

pub(super) fn check_run_limits(slowed: RunLimitReached) -> Refusal {
    SLOWED_RUNS.count([slowed.bound.metric()]);
    slowed.into()
}

/// Adds the malformation of the signature to a refusal, if that is the reason.
fn with_challenge(message: String, reason: &str, payment: &OfferedX402) -> String {
    match payment.signed.format_error().filter(|_| reason.ends_with("signature")) {
        Some(flaw) => format!("{message}: {flaw}"),
        None => message,
    }
}
