//! Binding a payment to its request, and what one that is bound buys.

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
    /// What a payment that is known already admits to; `None` when it is unspent.
    pub(super) async fn seen(&self, id: &PaymentId, digest: &str, request: &str) -> Result<Option<Seen>, Refusal> {
        match PAYMENTS.get(&*self.store, id).await? {
            Some(record) => match admits(record, digest, request)? {
                Some(bound) => self.bought(id.clone(), bound).await.map(Some),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// What a payment is told that is bound already.
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

    /// Binds the payment to the request: of many that arrive together, one.
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
            // Other hosts hold the rest. A twin at one of them may be what does.
            Err(Refusal::Store(StoreError::Beyond { .. })) => match self.seen(&id, &record.digest, request).await? {
                Some(seen) => Ok(seen.into()),
                None => Err(slowed_by(funds::beyond(NonZeroU32::MIN))),
            },
            Err(Refusal::Store(StoreError::Contended)) => Err(Refusal::InProgress(id)),
            Err(refusal) => {
                if matches!(refusal, Refusal::Store(StoreError::Unknown(_))) {
                    // Nobody runs under it, if it was written.
                    self.give_back(&id, &record).await;
                }
                Err(refusal)
            }
        }
    }
}

/// What a payment is bound to that admits to no run.
enum Bound {
    /// A run that has not ended.
    InFlight,
    /// The answer that it has bought.
    Settled(Box<Record>),
    /// An answer, for which it was charged before the run.
    Owed(Box<Record>),
}

/// What the record of a payment admits to whoever shows it; `None` when it is unspent.
fn admits(record: Record, digest: &str, request: &str) -> Result<Option<Bound>, Refusal> {
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
    Ok(Some(match record.state {
        State::Settled => Bound::Settled(Box::new(record)),
        State::Owed => Bound::Owed(Box::new(record)),
        State::Reserved | State::Settling | State::Unresolved | State::Refused | State::Released => Bound::InFlight,
    }))
}

/// Writes a reservation, unless the payment, or the one that has its client's name, admits to something already. All that is
/// read here must be so still when it is written.
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
        // Same payer, by the key; the payer signed the payment that names it (payment-identifier extension). While we take its
        // name it must not come back to life.
        let digest = named.digest.clone();
        if let Some(bound) = admits(named, &digest, &record.request)? {
            return tx.answer(Some((other, bound)));
        }
    }
    // The name under which it was shown before: nothing else would remove it.
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
