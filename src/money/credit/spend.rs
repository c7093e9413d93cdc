//! Spending: what a call under way holds of a balance, and its debit.

use std::sync::{Arc, PoisonError};

use super::{
    Credits,
    balance::{CREDITS, Credit},
    budget::Spending,
    budgets::OverBudget,
    line::{Movement, MovementKind},
    number,
};
use crate::{
    base::id::CreditId,
    store::{StoreError, Tx},
    tool::{MicroUsd, Slug},
};

/// An amount of a credit that a call under way may need. Dropping it gives it back.
pub(in crate::money) struct Hold {
    credits: Arc<Credits>,
    pub(in crate::money) id: CreditId,
    pub(in crate::money) amount: MicroUsd,
    /// Of what is called.
    slug: Slug,
}

impl Credits {
    /// Whether a call of `slug` is within the credit's budgets, with all that other calls hold.
    pub(in crate::money) async fn within_budget(
        &self,
        credit: &Credit,
        price: MicroUsd,
        slug: &Slug,
    ) -> Result<Result<(), OverBudget>, StoreError> {
        if credit.budgets.are_none() {
            return Ok(Ok(()));
        }
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&credit.id).copied().unwrap_or(0);
        let spending = Spending { id: &credit.id, slug, price, at: self.clock.now() };
        spending.check(&*self.store, &credit.budgets.in_force(), MicroUsd(held)).await
    }

    /// Holds `amount` for a call of `slug`, if the balance less what other calls hold is enough.
    pub(in crate::money) fn hold(self: &Arc<Self>, credit: &Credit, amount: MicroUsd, slug: &Slug) -> Option<Hold> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let others = held.get(&credit.id).copied().unwrap_or(0);
        let needed = others.checked_add(amount.0).filter(|needed| *needed <= credit.balance.0)?;
        held.insert(credit.id.clone(), needed);
        drop(held);
        Some(Hold { credits: Arc::clone(self), id: credit.id.clone(), amount, slug: slug.clone() })
    }

    /// Enters the debit of what is held, in the commit of `tx`, whose posting takes it from the balance. False when the credit
    /// pays for nothing any more. Commits of others do not stand in its way, but for those that change the credit's record.
    pub(in crate::money) async fn debit(&self, tx: &mut Tx<'_>, hold: &Hold, receipt_id: &str) -> Result<bool, StoreError> {
        let Some(holder) = tx.get(&CREDITS, &hold.id).await? else { return Ok(false) };
        let budget = holder.budgets.in_force();
        if holder.revoked.is_some() || budget.frozen || budget.per_call_usd.is_some_and(|limit| hold.amount > limit) {
            return Ok(false);
        }
        let at = self.clock.now();
        let spending = Spending { id: &hold.id, slug: &hold.slug, price: hold.amount, at };
        tx.append(spending.added(&budget));
        let (receipt_id, slug) = (Some(receipt_id.to_owned()), Some(hold.slug.clone()));
        let movement = Movement { receipt_id, slug, ..Movement::plain(at, MovementKind::Debit, hold.amount) };
        tx.append(movement.stored(&hold.id, number::next(at)));
        Ok(true)
    }
}

impl Hold {
    /// Holds no more than `amount` from now on, where that is less: what the call has come to cost.
    pub(in crate::money) fn narrow(&mut self, amount: MicroUsd) {
        let Some(less) = self.amount.0.checked_sub(amount.0) else { return };
        let mut held = self.credits.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.id) {
            *own = own.saturating_sub(less);
        }
        self.amount = amount;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.credits.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(amount) = held.get_mut(&self.id) {
            *amount = amount.saturating_sub(self.amount.0);
            if *amount == 0 {
                held.remove(&self.id);
            }
        }
    }
}
