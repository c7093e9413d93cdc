//! What payers' balances are held for on this host: no more runs are under way than a balance pays for.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::slowed::{Bound, Slowed};
use crate::Payment;

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
            let most = NonZeroU32::new(runs).unwrap_or(NonZeroU32::MIN);
            return Err(Slowed { bound: Bound::Balance, most, window: SOON, wait: SOON });
        }
        purses.insert(purse.clone(), (held.saturating_add(amount), runs + 1));
        drop(purses);
        Ok(PurseHold { purses: Arc::clone(self), purse, amount })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.purses().len()
    }

    fn purses(&self) -> MutexGuard<'_, HashMap<Purse, (u128, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
