//! Binds a payment to its request, and finds what a bound payment buys.

use std::{num::NonZeroU32, sync::Arc};

use tollhouse_replica::PAYMENTS_UNRESOLVED;
use tollhouse_store::{Decided, Durability, StoreError, Tx, update};
use tollhouse_telemetry::counted::PAYMENTS as PAYMENTS_RESERVED;

use super::{
    Admission, Admit, Gate, PAYMENT_NAMES, PAYMENTS, Reservation, Seen,
    admit::slowed_by,
    answer::Bought,
    funds::{self, PurseHold},
    record::{Record, Tail},
};
use crate::{PaymentId, Refusal, State};

impl Gate {
    /// Returns what a known payment admits to, or `None` if it is unspent.
    pub(super) async fn seen(&self, id: &PaymentId, digest: &str, request: &str) -> Result<Option<Seen>, Refusal> {
        match PAYMENTS.get(&*self.store, id).await? {
            Some(record) => match admits(record, digest, request)? {
                Some(bound) => self.bought(id.clone(), bound).await.map(Some),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// Returns what a bound payment has bought.
    async fn bought(&self, id: PaymentId, bound: Bound) -> Result<Seen, Refusal> {
        let record = match bound {
            Bound::Settled(record) => record,
            Bound::Owed(record) if !self.is_running(&record).await? => return self.owed(id, record).map(Seen::Owed),
            Bound::Owed(_) | Bound::InFlight => return Ok(Seen::InFlight(id)),
        };
        let on_credit = record.is_on_credit();
        match self.answer_of(&id, *record).await? {
            Bought::Answer(answer) => Ok(Seen::Stored(id, answer)),
            Bought::Lost => Err(Refusal::AnswerLost(id)),
            Bought::NotKept if on_credit => Err(Refusal::AnswerExpired(id)),
            Bought::NotKept => {
                let message = "the authorization is spent, and its answer is no longer kept";
                Err(Refusal::invalid("invalid_exact_evm_nonce_already_used", message))
            }
        }
    }

    /// Binds the payment to the request. Of concurrent requests, only one succeeds.
    pub(super) async fn reserve(self: &Arc<Self>, reservation: Reservation<'_>) -> Result<Admit, Refusal> {
        let Reservation { id, digest, request, tail, means, held } = reservation;
        let mut record = Record::reserved(request, digest, tail, self.clock.now()).held_by(self.replica.id());
        let shared = self.store.is_shared() && self.replica.writes(PAYMENTS_UNRESOLVED);
        let purse = held.purse.as_ref().filter(|_| shared).map(PurseHold::shared);
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
                    gate: Arc::clone(self),
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
                None => Err(slowed_by(funds::beyond(NonZeroU32::MIN))),
            },
            Err(Refusal::Store(StoreError::Contended)) => Err(Refusal::InProgress(id)),
            Err(refusal) => {
                if matches!(refusal, Refusal::Store(StoreError::Unknown(_))) {
                    // If it was written, no run uses it.
                    self.give_back(&id, &record).await;
                }
                Err(refusal)
            }
        }
    }
}

/// The state of a bound payment that admits no new run.
enum Bound {
    /// A run that has not ended.
    InFlight,
    /// The answer that it has bought.
    Settled(Box<Record>),
    /// A missing answer that was charged before the run.
    Owed(Box<Record>),
}

/// Returns what a payment's record admits the sender to, or `None` if the payment is unspent.
fn admits(record: Record, digest: &str, request: &str) -> Result<Option<Bound>, Refusal> {
    if matches!(record.state, State::Released | State::Refused) {
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
        State::Settled => Bound::Settled(Box::new(record)),
        State::Owed => Bound::Owed(Box::new(record)),
        State::Reserved | State::Settling | State::Unresolved | State::Refused | State::Released => Bound::InFlight,
    }))
}

/// Writes a reservation, unless the payment, or the one with the same client name, already admits to something. The
/// commit fails if the rows read here have changed.
async fn bind<'a>(
    mut tx: Tx<'a>,
    id: &PaymentId,
    record: &Record,
    balance: Option<i128>,
) -> Result<Decided<'a, Option<(PaymentId, Bound)>>, Refusal> {
    let earlier = tx.row(&PAYMENTS, id).await?;
    if let Some(row) = &earlier
        && let Some(bound) = admits(row.value.clone(), &record.digest, &record.request)?
    {
        return tx.answer(Some((id.clone(), bound)));
    }
    let name_of = |record: &Record| record.tail.as_ref().and_then(Tail::name);
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
    let left = earlier.as_ref().and_then(|row| name_of(&row.value)).filter(|left| name.as_ref() != Some(left));
    if let Some(left) = left
        && tx.get(&PAYMENT_NAMES, &left).await?.as_ref() == Some(id)
    {
        tx.delete(&PAYMENT_NAMES, &left);
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
