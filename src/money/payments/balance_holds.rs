//! Holds on payers' balances: no more runs are in flight than a balance pays for. Hosts that share a store keep the
//! sums there: the commit of a reservation adds to its payer's sum, and the commit that ends it subtracts.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use tokio::time::Instant;
use tollhouse_base::lock::Lock;
use tollhouse_store::{Batch, Counter, Durability, Store, StoreError, SumLimit, schema};

use super::{
    record::HeldBalance,
    run_limits::{RunLimit, RunLimitReached},
};
use crate::OfferedX402;

/// Amounts that all hosts of the store hold of each balance.
const HELD_BALANCES: Counter<String> = schema::HELD_BALANCES.counting();

/// Number of zero sums removed at once.
const PAGE: usize = 256;

const SOON: Duration = Duration::from_secs(1);

/// How long a balance that was read refuses further payments without being read again.
const READ_TTL: Duration = Duration::from_secs(2);

/// Key of a balance: payer, network, token.
type BalanceKey = (String, &'static str, &'static str);

/// The amount held by runs in flight, for each balance.
#[derive(Debug, Default)]
pub(super) struct BalanceHolds(Lock<HashMap<BalanceKey, HeldSum>>);

/// The amount held by runs in flight, for one balance.
#[derive(Debug, Clone, Copy)]
struct HeldSum {
    /// In the token's smallest unit.
    amount: u128,
    runs: NonZeroU32,
    /// The balance when it was last read.
    balance: u128,
    read: Instant,
}

impl HeldSum {
    /// Returns whether `balance` does not cover a payment of this amount too.
    fn exceeds(&self, balance: u128, amount: u128) -> bool {
        self.amount.checked_add(amount).is_none_or(|needed| needed > balance)
    }
}

/// The part of a balance that a run in flight will take. Dropping it releases it.
#[derive(Debug)]
pub(super) struct BalanceHold {
    holds: Arc<BalanceHolds>,
    key: BalanceKey,
    amount: u128,
    balance: u128,
}

impl BalanceHolds {
    /// Holds a payment's amount if `balance` covers it and all other held amounts.
    ///
    /// The balance may have been read before or after another run's money moved. In the first case one run too many
    /// begins; in the second the caller retries.
    pub(super) fn hold(self: &Arc<Self>, payment: &OfferedX402, balance: u128) -> Result<BalanceHold, RunLimitReached> {
        let (key, amount, read) = (key_of(payment), amount_of(payment), Instant::now());
        let mut holds = self.0.lock();
        match holds.get_mut(&key) {
            Some(held) => {
                (held.balance, held.read) = (balance, read);
                if held.exceeds(balance, amount) {
                    return Err(beyond(held.runs));
                }
                (held.amount, held.runs) = (held.amount.saturating_add(amount), held.runs.saturating_add(1));
            }
            None => _ = holds.insert(key.clone(), HeldSum { amount, runs: NonZeroU32::MIN, balance, read }),
        }
        drop(holds);
        Ok(BalanceHold { holds: Arc::clone(self), key, amount, balance })
    }

    /// Fails if the balance was read within the last two seconds and does not cover the payment in addition to the runs in
    /// flight. Then it need not be read again.
    pub(super) fn check(&self, payment: &OfferedX402) -> Result<(), RunLimitReached> {
        match self.0.lock().get(&key_of(payment)) {
            Some(held) if held.read.elapsed() < READ_TTL && held.exceeds(held.balance, amount_of(payment)) => Err(beyond(held.runs)),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

fn key_of(payment: &OfferedX402) -> BalanceKey {
    (payment.payer(), payment.asset.network.caip2, payment.asset.address)
}

/// Returns the amount of a payment. One that overflows exceeds any balance.
fn amount_of(payment: &OfferedX402) -> u128 {
    payment.asked().parse().unwrap_or(u128::MAX)
}

impl BalanceHold {
    /// Returns the whole balance.
    pub(super) fn balance(&self) -> u128 {
        self.balance
    }

    /// Returns the hold as stored for all hosts, and the whole balance.
    pub(super) fn shared(&self) -> (HeldBalance, i128) {
        let (payer, network, token) = &self.key;
        let amount = |amount: u128| i128::try_from(amount).unwrap_or(i128::MAX);
        (HeldBalance { key: format!("{payer}/{network}/{token}"), amount: amount(self.amount) }, amount(self.balance))
    }
}

impl HeldBalance {
    /// Adds the hold to a commit, which fails with [`StoreError::Beyond`] unless `balance` covers it and all other held
    /// amounts.
    pub(super) fn hold(&self, batch: &mut Batch, balance: i128) {
        // A single run may always begin, as in memory: the balance may have been read before the money came.
        batch.add(&HELD_BALANCES, &self.key, self.amount, SumLimit::Ceiling(balance.max(self.amount)));
    }

    pub(super) fn release(&self, batch: &mut Batch) {
        batch.add(&HELD_BALANCES, &self.key, -self.amount, SumLimit::Floor(i128::MIN));
    }
}

/// The refusal of a run that the balance does not cover in addition to `runs` others.
pub(super) fn beyond(runs: NonZeroU32) -> RunLimitReached {
    RunLimitReached { bound: RunLimit::Balance, max: runs, window: SOON, wait: SOON }
}

/// Removes the sums of payers without runs in flight.
pub(super) async fn forget_free(store: &dyn Store) -> Result<(), StoreError> {
    let rows = HELD_BALANCES.rows();
    let mut range = rows.all();
    while let Some(page) = rows.sound(store, &mut range, PAGE).await? {
        for row in page.iter().filter(|row| row.value.0 == 0) {
            let mut batch = Batch::new();
            batch.remove(&rows, row);
            // The row may be in use again by now.
            batch.commit_if_unchanged(store, Durability::Buffered).await?;
        }
    }
    Ok(())
}

impl Drop for BalanceHold {
    fn drop(&mut self) {
        let mut holds = self.holds.0.lock();
        let Some(held) = holds.get_mut(&self.key) else { return };
        match NonZeroU32::new(held.runs.get() - 1) {
            Some(runs) => (held.amount, held.runs) = (held.amount.saturating_sub(self.amount), runs),
            None => _ = holds.remove(&self.key),
        }
    }
}
