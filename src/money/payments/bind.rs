//! Binds a payment to its request, and finds what a bound payment buys.

use std::{num::NonZeroU32, sync::Arc};

use tollhouse_replica::PAYMENTS_UNRESOLVED;
use tollhouse_store::{Durability, StoreError, Tx, UpdatePlan, update};
use tollhouse_telemetry::counters::PAYMENTS as PAYMENTS_RESERVED;

use super::{
    Admission, Admit, PAYMENT_NAMES, PAYMENTS, Payments, Reservation, SeenPayment,
    admit::check_run_limits,
    answer::PaidAnswer,
    balance_holds::{self, BalanceHold},
    record::{ExpiryInfo, PaymentRecord},
};
use crate::{PaymentId, PaymentPhase, Refusal};

impl Payments {
    /// Returns what a known payment admits to, or `None` if it is unspent.
    pub(super) async fn seen(&self, id: &PaymentId, digest: &str, request: &str) -> Result<Option<SeenPayment>, Refusal> {
        match PAYMENTS.get(&*self.store, id).await? {
            Some(record) => match admits(record, digest, request)? {
                Some(bound) => self.bought(id.clone(), bound).await.map(Some),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// Returns what a bound payment has bought.
    async fn bought(&self, id: PaymentId, bound: BoundTo) -> Result<SeenPayment, Refusal> {
        let record = match bound {
            BoundTo::Settled(record) => record,
            BoundTo::Owed(record) if !self.is_running(&record).await? => return self.owed(id, record).map(SeenPayment::Owed),
            BoundTo::Owed(_) | BoundTo::InFlight => return Ok(SeenPayment::InFlight(id)),
        };
        let on_credit = record.is_on_credit();
        match self.answer_of(&id, *record).await? {
            PaidAnswer::Answer(answer) => Ok(SeenPayment::Stored(id, answer)),
            PaidAnswer::Lost => Err(Refusal::AnswerLost(id)),
            PaidAnswer::NotKept if on_credit => Err(Refusal::AnswerExpired(id)),
            PaidAnswer::NotKept => {
                let message = "the authorization is spent, and its answer is no longer kept";
                Err(Refusal::invalid("invalid_exact_evm_nonce_already_used", message))
            }
        }
    }

    /// Binds the payment to the request. Of concurrent requests, only one succeeds.
    pub(super) async fn reserve(self: &Arc<Self>, reservation: Reservation<'_>) -> Result<Admit, Refusal> {
        let Reservation { id, digest, request, tail, means, held } = reservation;
        let mut record = PaymentRecord::reserved(request, digest, tail, self.clock.now()).held_by(self.replica.id());
        let shared = self.store.is_shared() && self.replica.writes(PAYMENTS_UNRESOLVED);
        let purse = held.balance_key.as_ref().filter(|_| shared).map(BalanceHold::shared);
        let balance = purse.map(|(held, balance)| {
            record.held = Some(held);
            balance
        });
        let claim = Some(self.claims.claim(&record));
        match update(&*self.store, Durability::Buffered, |tx| bind(tx, &id, &record, balance)).await {
            Ok(Some((earlier, bound))) => Ok(self.bought(earlier, bound).await?.into()),
            Ok(None) => {
                PAYMENTS_RESERVED.count(["reserved"]);
                Ok(Admit::Run(Admission {
                    payments: Arc::clone(self),
                    id,
                    record: Box::new(record),
                    reserved: true,
                    means,
                    held: Some(Box::new(held)),
                    claim,
                }))
            }
            // Other hosts hold the rest of the balance, maybe for a concurrent request with this payment.
            Err(Refusal::Store(StoreError::Beyond { .. })) => match self.seen(&id, &record.digest, request).await? {
                Some(seen) => Ok(seen.into()),
                None => Err(check_run_limits(balance_holds::beyond(NonZeroU32::MIN))),
            },
            Err(Refusal::Store(StoreError::Contended)) => Err(Refusal::InProgress(id)),
            Err(refusal) => {
                if matches!(refusal, Refusal::Store(StoreError::Unknown(_))) {
                    // If it was written, no run uses it.
                    self.release_reservation(&id, &record).await;
                }
                Err(refusal)
            }
        }
    }
}

/// The state of a bound payment that admits no new run.
enum BoundTo {
    /// A run that has not ended.
    InFlight,
    /// The answer that it has bought.
    Settled(Box<PaymentRecord>),
    /// A missing answer that was charged before the run.
    Owed(Box<PaymentRecord>),
}

/// Returns what a payment's record admits the sender to, or `None` if the payment is unspent.
fn admits(record: PaymentRecord, digest: &str, request: &str) -> Result<Option<BoundTo>, Refusal> {
    if matches!(record.state, PaymentPhase::Released | PaymentPhase::Refused) {
        return Ok(None);
    }
    if record.digest != digest {
        // Nonces are public once settled. Only the holder of the signature gets the answer.
        return Err(Refusal::invalid("invalid_exact_evm_nonce_already_used", "the authorization is spent"));
    }
    if record.request != request {
        return Err(Refusal::Reused);
    }
    Ok(Some(match record.state {
        PaymentPhase::Settled => BoundTo::Settled(Box::new(record)),
        PaymentPhase::Owed => BoundTo::Owed(Box::new(record)),
        PaymentPhase::Reserved | PaymentPhase::Settling | PaymentPhase::Unresolved | PaymentPhase::Refused | PaymentPhase::Released => {
            BoundTo::InFlight
        }
    }))
}

/// Writes a reservation, unless the payment, or the one with the same client name, already admits to something. The
/// commit fails if the rows read here have changed.
async fn bind<'a>(
    mut tx: Tx<'a>,
    id: &PaymentId,
    record: &PaymentRecord,
    balance: Option<i128>,
) -> Result<UpdatePlan<'a, Option<(PaymentId, BoundTo)>>, Refusal> {
    let earlier = tx.row(&PAYMENTS, id).await?;
    if let Some(row) = &earlier
        && let Some(bound) = admits(row.value.clone(), &record.digest, &record.request)?
    {
        return tx.answer(Some((id.clone(), bound)));
    }
    let name_of = |record: &PaymentRecord| record.tail.as_ref().and_then(ExpiryInfo::name);
    let name = name_of(record);
    if let Some(name) = &name
        && let Some(other) = tx.get(&PAYMENT_NAMES, name).await?.filter(|other| other != id)
        && let Some(named) = tx.get(&PAYMENTS, &other).await?
    {
        // The key ensures the same payer, and the payer signed the payment that names it (payment-identifier
        // extension). The other payment must not become valid again while this one takes its name.
        let digest = named.digest.clone();
        if let Some(bound) = admits(named, &digest, &record.request)? {
            return tx.answer(Some((other, bound)));
        }
    }
    // Remove the name under which it was sent before, since nothing else would.
    let remaining = earlier.as_ref().and_then(|row| name_of(&row.value)).filter(|remaining| name.as_ref() != Some(remaining));
    if let Some(remaining) = remaining
        && tx.get(&PAYMENT_NAMES, &remaining).await?.as_ref() == Some(id)
    {
        tx.delete(&PAYMENT_NAMES, &remaining);
    }
    if let Some(name) = &name {
        tx.put(&PAYMENT_NAMES, name, id);
    }
    if let (Some(held), Some(balance)) = (&record.held, balance) {
        held.hold(&mut tx, balance);
    }
    match &earlier {
        Some(row) => tx.replace(&PAYMENTS, row, record),
        None => tx.put_new(&PAYMENTS, id, record),
    };
    tx.answer(None)
}
