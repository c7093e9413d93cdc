//! Shares counts of burned gas between the hosts of a store, and keeps them in the store for restarts.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use tollhouse_base::{
    clock::{Clock, Timestamp},
    gcra::Tally,
};
use tollhouse_store::{Batch, Counter, Durability, Store, StoreError, SumLimit, TextPrefix, log_unavailable, schema};

use super::{
    Burned, BurnedGas, Burner, CountedGas, GasMeter, MAX_KEYS, Pending, SlidingWindow, Standing, State, WINDOW, WindowMoment, entry,
};
use crate::{OfferedX402, PaymentId, payments::Payments};

/// Burned gas, gas of underpaid settlements, and reverted settlements, by interval, kind of count and party. Also what gas
/// cost, by interval.
const BURNED: Counter<(u64, String)> = schema::BURNED_GAS.counting();

/// Length of an interval with its own sums, in milliseconds: 5 minutes.
const INTERVAL_MS: u64 = 5 * 60 * 1_000;

/// Number of intervals in the window, including the one in which it begins.
const INTERVALS: u64 = WINDOW.as_millis() as u64 / INTERVAL_MS + 1;

const PAGE: usize = 1_000;

/// Pause after a failure of the store.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Gas,
    Underpaid,
    Reverts,
}

impl Count {
    const ALL: [Self; 3] = [Self::Gas, Self::Underpaid, Self::Reverts];

    const fn name(self) -> &'static str {
        match self {
            Self::Gas => "burned-gas",
            Self::Underpaid => "underpaid-gas",
            Self::Reverts => "reverted",
        }
    }
}

impl Burned {
    fn recent(&mut self, count: Count) -> &mut SlidingWindow {
        match count {
            Count::Gas => &mut self.gas,
            Count::Underpaid => &mut self.underpaid,
            Count::Reverts => &mut self.reverts,
        }
    }
}

impl Pending {
    pub(super) fn burned(&mut self, burner: &Burner, burned: BurnedGas, reverts: u64) {
        let is_customer = burner.standing.is_customer();
        for name in names(burner, is_customer).chain([total(is_customer).to_owned()]) {
            self.change(Count::Gas, &name, burned.gas, true);
            self.change(Count::Reverts, &name, reverts, true);
        }
        self.spent(burned.wei);
    }

    pub(super) fn underpaid(&mut self, burner: &Burner, used: BurnedGas) {
        let is_regular = burner.standing.is_regular();
        for name in names(burner, is_regular).chain([total(is_regular).to_owned()]) {
            self.change(Count::Underpaid, &name, used.gas, true);
        }
        self.spent(used.wei);
    }

    fn spent(&mut self, wei: u128) {
        if wei > 0 {
            let sum = self.unwritten.entry(SPENT.to_owned()).or_default();
            *sum = sum.saturating_add(i128::try_from(wei).unwrap_or(i128::MAX));
        }
    }

    /// Undoes counts as [`GasMeter::forgive`] does. Other hosts keep counts that they already have.
    pub(super) fn excused(&mut self, burner: &Burner, gas: u64) {
        for name in names(burner, burner.standing.is_customer()) {
            self.change(Count::Gas, &name, gas, false);
            self.change(Count::Reverts, &name, 1, false);
        }
    }

    fn change(&mut self, count: Count, name: &str, amount: u64, is_more: bool) {
        if amount == 0 {
            return;
        }
        let unsent = &mut self.unsent[count as usize];
        if is_more {
            unsent.add(name, amount, is_total(name))
        } else {
            unsent.subtract(name, amount)
        }
        let key = format!("{}/{name}", count.name());
        if is_total(name) || self.unwritten.len() < 2 * MAX_KEYS || self.unwritten.contains_key(&key) {
            *self.unwritten.entry(key).or_default() += if is_more { i128::from(amount) } else { -i128::from(amount) };
        }
    }

    fn note(&mut self, payment: &PaymentId, burner: &Burner) {
        let key = format!("{COUNTED}/{payment}");
        let parties: Vec<_> = names(burner, burner.standing.is_customer()).map(|name| format!("{key}/{name}")).collect();
        for key in std::iter::once(key).chain(parties) {
            if self.unwritten.len() < 2 * MAX_KEYS {
                self.unwritten.insert(key, 1);
            }
        }
    }
}

/// Names of the totals of new payers and of customers.
const ALL: &str = "all";
const ALL_CUSTOMERS: &str = "customers/all";

/// Prefix of a builder's name for the gas of customers.
const CUSTOMERS: &str = "customers/";

/// Key of what gas cost, in the smallest unit of the native currency.
const SPENT: &str = "burned-wei/all";

/// Key prefix of payments whose burned gas was counted. One key has only the payment, and each of the others also has the
/// name of a party against which the gas was counted.
const COUNTED: &str = "counted";

/// Maximum number of keys of one such payment.
const MAX_COUNTED: usize = 4;

/// Returns the names of a payer, its address and a builder. The builder's name also says for which pool it counts.
fn names(burner: &Burner, is_of_customers: bool) -> impl Iterator<Item = String> + use<> {
    let pool = if is_of_customers { CUSTOMERS } else { "" };
    let payer = Some(format!("payer/{}", burner.payer));
    let address = burner.from.map(|from| format!("address/{from}"));
    let builder = burner.builder.as_ref().map(|builder| format!("{pool}builder/{builder}"));
    [payer, address, builder].into_iter().flatten()
}

fn total(is_of_customers: bool) -> &'static str {
    if is_of_customers { ALL_CUSTOMERS } else { ALL }
}

fn is_total(name: &str) -> bool {
    name == ALL || name == ALL_CUSTOMERS
}

/// Splits a name into the pool, true if that of customers, and the name within it.
fn pooled(name: &str) -> (bool, &str) {
    name.strip_prefix(CUSTOMERS).map_or((false, name), |name| (true, name))
}

impl Burner {
    fn add(&mut self, name: &str) {
        let (is_of_customers, name) = pooled(name);
        if is_of_customers {
            self.standing = Standing::Customer;
        }
        match name.split_once('/') {
            Some(("payer", payer)) => payer.clone_into(&mut self.payer),
            Some(("address", address)) => self.from = address.parse().ok(),
            Some(("builder", builder)) => self.builder = Some(builder.to_owned()),
            _ => {}
        }
    }
}

impl State {
    fn named(&mut self, name: &str, now: WindowMoment) -> Option<&mut Burned> {
        let (is_of_customers, name) = pooled(name);
        match name.split_once('/') {
            Some(("payer", payer)) => Some(entry(&mut self.payers, payer, now)),
            Some(("address", address)) => Some(entry(&mut self.addresses, address, now)),
            Some(("builder", builder)) => Some(entry(&mut self.pool(is_of_customers).builders, builder, now)),
            None if name == ALL => Some(&mut self.pool(is_of_customers).all),
            _ => None,
        }
    }
}

/// Shares one kind of count with other hosts.
struct SharedCount(Arc<GasMeter>, Count);

impl Tally for SharedCount {
    fn take_used(&self, max: usize) -> Vec<(String, u64)> {
        self.0.state.lock().pending.unsent[self.1 as usize].take(max)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        self.0.change(self.1, name, |of, now| of.add(used, now));
    }
}

impl GasMeter {
    pub(in crate::payments) fn tallies(self: &Arc<Self>) -> [(&'static str, Arc<dyn Tally>); 3] {
        Count::ALL.map(|count| (count.name(), Arc::new(SharedCount(Arc::clone(self), count)) as Arc<dyn Tally>))
    }

    /// Records that gas was counted for this payment, and for whom, for lookups after a restart or by another host.
    pub(in crate::payments) fn note_counted(&self, payment: &PaymentId, counted: &CountedGas) {
        self.state.lock().pending.note(payment, &counted.burner);
        self.changed.notify_one();
    }

    fn change(&self, count: Count, name: &str, change: impl FnOnce(&mut SlidingWindow, WindowMoment)) {
        let (mut state, now) = (self.state.lock(), self.now());
        if let Some(of) = state.named(name, now) {
            change(of.recent(count), now);
        }
    }

    /// Returns the moment from which the sums of an interval count. Everything counts from the end of its interval, so
    /// that it counts for at least an hour.
    fn end_of(&self, interval: u64, now: Timestamp) -> WindowMoment {
        self.ago(Duration::from_millis(now.0.saturating_sub((interval + 1).saturating_mul(INTERVAL_MS))))
    }

    /// Reads the counts of the last hour from the store, and writes new ones in the background. Call it inside a tokio
    /// runtime.
    pub(in crate::payments) async fn open(self: &Arc<Self>, store: &Arc<dyn Store>, clock: &Clock) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.state.lock().is_open, true) {
            return Ok(());
        }
        self.read(&**store, clock.now()).await?;
        let (meter, changed, store, clock) = (Arc::downgrade(self), Arc::clone(&self.changed), Arc::clone(store), clock.clone());
        tokio::spawn(async move {
            loop {
                changed.notified().await;
                let Some(meter) = meter.upgrade() else { return };
                if let Err(error) = meter.write(&*store, clock.now()).await {
                    log_unavailable(&error, "writing burned gas");
                    drop(meter);
                    tokio::time::sleep(RETRY_PAUSE).await;
                    changed.notify_one();
                }
            }
        });
        Ok(())
    }

    async fn read(&self, store: &(impl Store + ?Sized), now: Timestamp) -> Result<(), StoreError> {
        let rows = BURNED.rows();
        let mut range = rows.all().from(&(now.0 / INTERVAL_MS).saturating_sub(INTERVALS));
        while let Some(page) = rows.sound(store, &mut range, PAGE).await? {
            for row in page {
                let (interval, key) = row.key;
                if key == SPENT {
                    let mut state = self.state.lock();
                    state.wei = state.wei.saturating_add(u128::try_from(row.value.0).unwrap_or_default());
                    continue;
                }
                let Some((count, name)) = key.split_once('/') else { continue };
                let Some(count) = Count::ALL.into_iter().find(|known| known.name() == count) else { continue };
                let (at, sum) = (self.end_of(interval, now), row.value.0);
                match u64::try_from(sum.unsigned_abs()) {
                    Ok(amount @ 1..) if sum > 0 => self.change(count, name, |of, _| of.add(amount, at)),
                    // Counts of an earlier interval were excused in this one.
                    Ok(amount @ 1..) => self.change(count, name, |of, now| of.take_back_of(amount, at, now)),
                    Ok(0) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Writes the counts since the last time, and deletes those that no longer count.
    async fn write(&self, store: &(impl Store + ?Sized), now: Timestamp) -> Result<(), StoreError> {
        let unwritten = std::mem::take(&mut self.state.lock().pending.unwritten);
        let (interval, mut batch) = (now.0 / INTERVAL_MS, Batch::new());
        for (key, change) in &unwritten {
            batch.add(&BURNED, &(interval, key.clone()), *change, SumLimit::Floor(i128::MIN));
        }
        if let Err(error) = batch.commit(store, Durability::Buffered).await {
            let mut state = self.state.lock();
            unwritten.into_iter().for_each(|(key, change)| *state.pending.unwritten.entry(key).or_default() += change);
            return Err(error);
        }
        let rows = BURNED.rows();
        rows.clear(store, &rows.all().before(&interval.saturating_sub(INTERVALS)), u64::MAX).await.map(drop)
    }
}

impl Payments {
    /// Returns what another process has counted for this payment, or `None` if it has counted nothing.
    pub(in crate::payments) async fn counted_before(&self, payment: &OfferedX402, burned: BurnedGas) -> Option<CountedGas> {
        let (now, key, rows) = (self.clock.now(), format!("{COUNTED}/{}", payment.id()), BURNED.rows());
        let last = now.0 / INTERVAL_MS;
        for interval in last.saturating_sub(INTERVALS)..=last {
            // If it cannot be read, counting twice is better than not at all.
            let counted = rows.sound(&*self.store, &mut rows.under(&(interval, TextPrefix(&key))), MAX_COUNTED).await;
            let Ok(Some(counted)) = counted else { continue };
            let mut burner = Burner::of_payer(payment.payer());
            for row in &counted {
                if let Some(name) = row.key.1.strip_prefix(&key).and_then(|rest| rest.strip_prefix('/')) {
                    burner.add(name);
                }
            }
            return Some(CountedGas { burner, gas: burned.gas, at: self.gas.end_of(interval, now) });
        }
        None
    }
}

impl Drop for GasMeter {
    /// Ends the writing task.
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}
