//! What payers' balances are held for: no more runs are under way than a balance pays for. On hosts that share a store the sums of all of
//! them are in it: a reservation adds to its payer's in its own commit, and whatever ends it takes that away in its own.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tollhouse_store::{Batch, Counter, Durability, Limit, Store, StoreError, schema};

use super::{
    record::HeldBalance,
    slowed::{Bound, Slowed},
};
use crate::Payment;

/// What all hosts of the store hold of a balance.
const HELD_BALANCES: Counter<String> = schema::HELD_BALANCES.counting();

/// Sums of nothing that are removed at once.
const PAGE: usize = 256;

/// After how long it is worth asking again.
const SOON: Duration = Duration::from_secs(1);

/// Whose balance, and of what: payer, network, token.
type Purse = (String, &'static str, &'static str);

/// What is held of each balance, in the token's smallest unit, and by how many runs.
#[derive(Debug, Default)]
pub(super) struct Purses(Mutex<HashMap<Purse, (u128, u32)>>);

/// A part of a balance that a run under way will take. Dropped, it is free again.
#[derive(Debug)]
pub(super) struct PurseHold {
    purses: Arc<Purses>,
    purse: Purse,
    amount: u128,
    balance: u128,
}

impl Purses {
    /// Holds what a payment will move, where `balance` covers it beside all that is held.
    ///
    /// The balance may have been read before another run's money moved, or after: in the first case one run too many begins, in the
    /// second the caller asks again.
    pub(super) fn hold(self: &Arc<Self>, payment: &Payment, balance: u128) -> Result<PurseHold, Slowed> {
        let purse = (payment.payer(), payment.asset.network.caip2, payment.asset.address);
        // More than fits is more than anybody has.
        let amount = payment.asked().parse().unwrap_or(u128::MAX);
        let mut purses = self.purses();
        let (held, runs) = purses.get(&purse).copied().unwrap_or_default();
        if held.checked_add(amount).is_none_or(|needed| needed > balance) && runs > 0 {
            return Err(beyond(NonZeroU32::new(runs).unwrap_or(NonZeroU32::MIN)));
        }
        purses.insert(purse.clone(), (held.saturating_add(amount), runs + 1));
        drop(purses);
        Ok(PurseHold { purses: Arc::clone(self), purse, amount, balance })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.purses().len()
    }

    fn purses(&self) -> MutexGuard<'_, HashMap<Purse, (u128, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PurseHold {
    /// The same, as the store has it for all hosts, and the balance that it is a part of.
    pub(super) fn shared(&self) -> (HeldBalance, i128) {
        let (payer, network, token) = &self.purse;
        let amount = |amount: u128| i128::try_from(amount).unwrap_or(i128::MAX);
        (HeldBalance { purse: format!("{payer}/{network}/{token}"), amount: amount(self.amount) }, amount(self.balance))
    }
}

impl HeldBalance {
    /// Has the commit hold it, where `balance` covers it beside all that is held: else the store says that the sum would be
    /// [beyond](StoreError::Beyond).
    pub(super) fn hold(&self, batch: &mut Batch, balance: i128) {
        // One alone may always begin, as in memory: the balance may have been read before the money came.
        batch.add(&HELD_BALANCES, &self.purse, self.amount, Limit::Ceiling(balance.max(self.amount)));
    }

    /// Has the commit release it.
    pub(super) fn release(&self, batch: &mut Batch) {
        batch.add(&HELD_BALANCES, &self.purse, -self.amount, Limit::Floor(i128::MIN));
    }
}

/// The refusal of a run that a balance does not cover beside so many others.
pub(super) fn beyond(runs: NonZeroU32) -> Slowed {
    Slowed { bound: Bound::Balance, most: runs, window: SOON, wait: SOON }
}

/// Removes the sums of payers who have nothing under way.
pub(super) async fn forget_free(store: &dyn Store) -> Result<(), StoreError> {
    let rows = HELD_BALANCES.rows();
    let mut range = rows.all();
    while let Some((page, rest)) = rows.sound(store, &range, PAGE).await? {
        range = rest;
        for row in page.iter().filter(|row| row.value.0 == 0) {
            let mut batch = Batch::new();
            batch.remove(&rows, row);
            match batch.commit(store, Durability::Buffered).await {
                // It is used again.
                Ok(_) | Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

impl Drop for PurseHold {
    fn drop(&mut self) {
        let mut purses = self.purses.purses();
        match purses.get_mut(&self.purse) {
            Some((held, runs)) if *runs > 1 => (*held, *runs) = (held.saturating_sub(self.amount), *runs - 1),
            _ => _ = purses.remove(&self.purse),
        }
    }
}
