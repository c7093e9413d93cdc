//! Binds a payment to its request.

use std::num::NonZeroU32;

use tollhouse_store::{Durability, StoreError, Tx, UpdatePlan, update};
use tollhouse_telemetry::counters::PAYMENTS as PAYMENTS_RESERVED;

use super::{
    Admission, Admit, PAYMENT_NAMES, PAYMENTS, Payments,
    admit::check_run_limits,
    balance_holds::{self, BalanceHold},
    prior::check_use,
    record::PaymentRecord,
};
use crate::{PaymentId, Refusal};

impl Payments {
    /// Binds the payment to the request. Of concurrent requests, only one succeeds.
    pub(super) async fn reserve(&self, mut admission: Admission) -> Result<Admit, Refusal> {
        let hold = admission.held.as_ref().and_then(|held| held.balance.as_ref()).filter(|_| self.store.is_shared());
        let (held, balance) = hold.map(BalanceHold::shared).unzip();
        (admission.record.held, admission.record.replica) = (held, Some(self.replica.id().clone()));
        admission.claim = Some(self.claims.claim(&admission.record));
        let (id, record) = (&admission.id, &*admission.record);
        match update(&*self.store, Durability::Buffered, |tx| bind(tx, id, record, balance)).await {
            Ok(Some((id, record))) => Ok(Admit::Seen(self.bought_by(id, record).await?)),
            Ok(None) => {
                PAYMENTS_RESERVED.count(["reserved"]);
                admission.reserved = true;
                Ok(Admit::Run(admission))
            }
            // Other hosts hold the rest of the balance, maybe for a concurrent request with this payment.
            Err(Refusal::Store(StoreError::Beyond { .. })) => match self.seen(id, &record.digest, &record.request).await? {
                Some(seen) => Ok(Admit::Seen(seen)),
                None => Err(check_run_limits(balance_holds::beyond(NonZeroU32::MIN))),
            },
            Err(Refusal::Store(StoreError::Contended)) => Err(Refusal::InProgress(id.clone())),
            Err(refusal) => {
                if matches!(refusal, Refusal::Store(StoreError::Unknown(_))) {
                    // If it was written, no run uses it.
                    self.release_reservation(id, record).await;
                }
                Err(refusal)
            }
        }
    }
}

/// Writes a reservation. Returns the record instead if the payment, or one with the same client name, has already bought
/// an answer or a run. The commit fails if the rows read here have changed.
async fn bind<'a>(
    mut tx: Tx<'a>,
    id: &PaymentId,
    record: &PaymentRecord,
    balance: Option<i128>,
) -> Result<UpdatePlan<'a, Option<(PaymentId, PaymentRecord)>>, Refusal> {
    let earlier = tx.row(&PAYMENTS, id).await?;
    if let Some(row) = &earlier
        && check_use(&row.value, &record.digest, &record.request)?
    {
        return tx.answer(Some((id.clone(), row.value.clone())));
    }
    let name = record.name();
    if let Some(name) = name
        && let Some(other) = tx.get(&PAYMENT_NAMES, name).await?.filter(|other| other != id)
        && let Some(named) = tx.get(&PAYMENTS, &other).await?
    {
        // The key ensures the same payer, and the payer signed the payment that names it (payment-identifier
        // extension). The other payment must not become valid again while this one takes its name.
        if check_use(&named, &named.digest, &record.request)? {
            return tx.answer(Some((other, named)));
        }
    }
    // Remove the name under which the payment was sent before, since nothing else would.
    let remaining = earlier.as_ref().and_then(|row| row.value.name()).filter(|remaining| name != Some(remaining));
    if let Some(remaining) = remaining
        && tx.get(&PAYMENT_NAMES, remaining).await?.as_ref() == Some(id)
    {
        tx.delete(&PAYMENT_NAMES, remaining);
    }
    if let Some(name) = name {
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
