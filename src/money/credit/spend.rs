//! Spending: what a call under way holds of a balance, and its debit.

use std::sync::{Arc, PoisonError};

use super::{
    Credits,
    balance::{CREDITS, Credit, Movement, MovementKind},
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
    /// One debit of the credit at a time: of those that are decided on one balance, one is committed. Only a courtesy: what
    /// keeps the balance right are the commits' checks.
    pub(in crate::money) turn: Arc<tokio::sync::Mutex<()>>,
}

impl Credits {
    /// Holds `amount` for a call of `slug`, if the balance less what other calls hold is enough.
    pub(in crate::money) fn hold(self: &Arc<Self>, credit: &Credit, amount: MicroUsd, slug: &Slug) -> Option<Hold> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let others = held.get(&credit.id).map_or(0, |held| held.amount);
        let needed = others.checked_add(amount.0).filter(|needed| *needed <= credit.balance.0)?;
        let own = held.entry(credit.id.clone()).or_default();
        own.amount = needed;
        let turn = Arc::clone(&own.turn);
        drop(held);
        Some(Hold { credits: Arc::clone(self), id: credit.id.clone(), amount, slug: slug.clone(), turn })
    }

    /// Debits what is held, in the commit of `tx`. False when the balance is not enough.
    pub(in crate::money) async fn debit(&self, tx: &mut Tx<'_>, hold: &Hold, receipt_id: &str) -> Result<bool, StoreError> {
        let Some(row) = tx.row(&CREDITS, &hold.id).await? else { return Ok(false) };
        let mut credit = row.value.clone();
        let Some(balance) = credit.balance.0.checked_sub(hold.amount.0).map(MicroUsd) else { return Ok(false) };
        let movement = Movement {
            at: self.clock.now(),
            kind: MovementKind::Debit,
            amount: hold.amount,
            balance,
            receipt_id: Some(receipt_id.to_owned()),
            slug: Some(hold.slug.clone()),
        };
        tx.append(credit.moved(balance, &movement));
        tx.replace(&CREDITS, &row, &credit);
        Ok(true)
    }
}

impl Hold {
    /// Holds no more than `amount` from now on, where that is less: what the call has come to cost.
    pub(in crate::money) fn narrow(&mut self, amount: MicroUsd) {
        let Some(less) = self.amount.0.checked_sub(amount.0) else { return };
        let mut held = self.credits.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.id) {
            own.amount = own.amount.saturating_sub(less);
        }
        self.amount = amount;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.credits.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.id) {
            own.amount = own.amount.saturating_sub(self.amount.0);
            if own.amount == 0 {
                held.remove(&self.id);
            }
        }
    }
}
