//! Reserves and debits the price of a call in flight.

use std::{
    collections::hash_map::Entry,
    sync::{Arc, atomic::Ordering},
};

use tollhouse_base::id::CreditId;
use tollhouse_store::{StoreError, Tx};
use tollhouse_tool::{MicroUsd, Slug};

use super::{
    CreditError, Credits,
    balance::{CREDITS, Credit, OverBudget},
    budget::PlannedSpend,
    row::{Movement, MovementKind, next_number},
};
use crate::Refusal;

/// Maximum number of times that a day's sums are read for one call, if calls end meanwhile.
const MAX_READS: u32 = 4;

/// An amount of a credit that is reserved for a call in flight. Dropping it releases the amount.
pub(crate) struct CreditHold {
    credits: Arc<Credits>,
    pub(crate) id: CreditId,
    pub(crate) amount: MicroUsd,
    slug: Slug,
}

impl Credits {
    /// Reserves `amount` for a call of `slug` if the budgets and the balance suffice for it and all other reservations.
    /// Of concurrent calls, no more are admitted than can be paid.
    pub(crate) async fn hold(self: &Arc<Self>, credit: &Credit, amount: MicroUsd, slug: &Slug) -> Result<CreditHold, Refusal> {
        let budget = credit.budget();
        let spending = PlannedSpend { id: &credit.id, slug, price: amount, at: self.clock.now() };
        let (all, tool) = ((credit.id.clone(), None), (credit.id.clone(), Some(slug.clone())));
        let mut reads = 0;
        let (spent, mut held) = loop {
            let releases = self.releases.load(Ordering::Relaxed);
            let spent = spending.spent(&*self.store, &budget).await?;
            let held = self.held.lock();
            reads += 1;
            // The price of a call that was debited and released meanwhile would be in neither sum.
            if self.releases.load(Ordering::Relaxed) == releases || reads == MAX_READS {
                break (spent, held);
            }
        };
        let others = |key| held.get(key).copied().unwrap_or(0);
        let (by_all, by_tool) = (others(&all), others(&tool));
        spending.check(&budget, &spent.with(by_all, by_tool))?;
        let needed = by_all.checked_add(amount.0).filter(|needed| *needed <= credit.balance.0);
        let needed = needed.ok_or(Refusal::InsufficientCredit { balance: credit.balance, price: amount })?;
        held.insert(all, needed);
        // This sum cannot overflow: it is at most the sum of all tools, which was checked.
        held.insert(tool, by_tool + amount.0);
        drop(held);
        Ok(CreditHold { credits: Arc::clone(self), id: credit.id.clone(), amount, slug: slug.clone() })
    }

    /// Adds the movement of a refund to `tx`, whose posting adds it to the balance. The budgets still count the amount
    /// as spent.
    pub(crate) async fn refund(tx: &mut Tx<'_>, id: &CreditId, number: u64, movement: Movement) -> Result<(), CreditError> {
        if tx.get(&CREDITS, id).await?.ok_or(CreditError::Unknown)?.revoked.is_some() {
            return Err(CreditError::Revoked);
        }
        tx.append(movement.stored(id, number));
        Ok(())
    }

    /// Adds the debit of the reserved amount to `tx`, whose posting takes it from the balance. Returns false if an admin
    /// has stopped the credit meanwhile. The budget that the holder sets binds [`Self::hold`] only: otherwise a holder
    /// could let calls run, and freeze the credit before they are paid. Only commits that change the credit's record
    /// conflict with it.
    pub(crate) async fn debit(&self, tx: &mut Tx<'_>, hold: &CreditHold, receipt_id: &str) -> Result<bool, StoreError> {
        let Some(holder) = tx.get(&CREDITS, &hold.id).await? else { return Ok(false) };
        let budget = &holder.budgets.admin;
        if holder.revoked.is_some() || budget.frozen || budget.per_call_usd.is_some_and(|limit| hold.amount > limit) {
            return Ok(false);
        }
        let at = self.clock.now();
        let spending = PlannedSpend { id: &hold.id, slug: &hold.slug, price: hold.amount, at };
        tx.append(spending.added(budget));
        let (receipt_id, slug) = (Some(receipt_id.to_owned()), Some(hold.slug.clone()));
        let movement = Movement { receipt_id, slug, ..Movement::plain(at, MovementKind::Debit, hold.amount) };
        tx.append(movement.stored(&hold.id, next_number(at)));
        Ok(true)
    }

    /// Returns the budget of an admin that the reserved amount exceeds now. `None` if the credit is stopped.
    pub(crate) async fn over_budget(&self, hold: &CreditHold) -> Result<Option<OverBudget>, StoreError> {
        let Some(holder) = CREDITS.get(&*self.store, &hold.id).await? else { return Ok(None) };
        let budget = &holder.budgets.admin;
        if holder.revoked.is_some() || budget.frozen {
            return Ok(None);
        }
        let spending = PlannedSpend { id: &hold.id, slug: &hold.slug, price: hold.amount, at: self.clock.now() };
        let spent = spending.spent(&*self.store, budget).await?;
        Ok(spending.check(budget, &spent).err())
    }
}

impl CreditHold {
    /// Reduces the reservation to `amount`, the actual price of the call, if that is lower.
    pub(crate) fn shrink(&mut self, amount: MicroUsd) {
        let Some(less) = self.amount.0.checked_sub(amount.0) else { return };
        self.release(less);
        self.amount = amount;
    }

    fn release(&self, amount: u64) {
        let mut held = self.credits.held.lock();
        self.credits.releases.fetch_add(1, Ordering::Relaxed);
        for tool in [None, Some(self.slug.clone())] {
            if let Entry::Occupied(mut own) = held.entry((self.id.clone(), tool)) {
                *own.get_mut() = own.get().saturating_sub(amount);
                if *own.get() == 0 {
                    own.remove();
                }
            }
        }
    }
}

impl Drop for CreditHold {
    fn drop(&mut self) {
        self.release(self.amount.0);
    }
}
