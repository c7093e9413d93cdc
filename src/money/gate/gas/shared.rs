//! Shares counts of burned gas between the hosts of a store, and keeps them in the store for restarts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tollhouse_base::{
    clock::{Clock, Timestamp},
    uses::Tally,
};
use tollhouse_store::{Batch, Counter, Durability, Limit, Starting, Store, StoreError, schema};

use super::{Burned, BurnedGas, Burner, CountedGas, GasMeter, MAX_KEYS, Moment, Pending, Recent, State, WINDOW, entry};
use crate::{Payment, PaymentId, gate::Gate};

/// Burned gas, gas of underpaid settlements, and reverted settlements, by interval, kind of count and party.
const BURNED: Counter<(u64, String)> = schema::BURNED_GAS.counting();

/// Length of an interval with its own sums, in milliseconds: 5 minutes.
const STRETCH_MS: u64 = 5 * 60 * 1_000;

/// Number of intervals in the window, including the one in which it begins.
const STRETCHES: u64 = WINDOW.as_millis() as u64 / STRETCH_MS + 1;

/// Number of sums read at once.
const PAGE: usize = 1_000;

/// Pause after a failure of the store.
const AGAIN: Duration = Duration::from_secs(1);

/// The kinds of counts.
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
    fn recent(&mut self, count: Count) -> &mut Recent {
        match count {
            Count::Gas => &mut self.gas,
            Count::Underpaid => &mut self.underpaid,
            Count::Reverts => &mut self.reverts,
        }
    }
}

impl Pending {
    pub(super) fn burned(&mut self, burner: &Burner, gas: u64, reverts: u64) {
        for name in names(burner).chain([ALL.to_owned()]) {
            self.change(Count::Gas, &name, gas, true);
            self.change(Count::Reverts, &name, reverts, true);
        }
    }

    pub(super) fn underpaid(&mut self, burner: &Burner, gas: u64) {
        for name in names(burner).chain([ALL.to_owned()]) {
            self.change(Count::Underpaid, &name, gas, true);
        }
    }

    /// Undoes counts as [`GasMeter::excuse`] does. Other hosts keep counts that they already have.
    pub(super) fn excused(&mut self, burner: &Burner, gas: u64) {
        for name in names(burner) {
            self.change(Count::Gas, &name, gas, false);
            self.change(Count::Reverts, &name, 1, false);
        }
    }

    fn change(&mut self, count: Count, name: &str, amount: u64, is_more: bool) {
        if amount == 0 {
            return;
        }
        let is_told = self.is_told;
        let untold = self.untold(count);
        let has_room = name == ALL || untold.len() < MAX_KEYS;
        match untold.get_mut(name) {
            Some(told) if is_more => *told = told.saturating_add(amount),
            Some(told) => *told = told.saturating_sub(amount),
            None if is_more && is_told && has_room => _ = untold.insert(name.to_owned(), amount),
            None => {}
        }
        let key = format!("{}/{name}", count.name());
        if name == ALL || self.unwritten.len() < 2 * MAX_KEYS || self.unwritten.contains_key(&key) {
            *self.unwritten.entry(key).or_default() += if is_more { i128::from(amount) } else { -i128::from(amount) };
        }
    }

    fn note(&mut self, payment: &PaymentId, burner: &Burner) {
        let key = format!("{COUNTED}/{payment}");
        let parties: Vec<_> = names(burner).map(|name| format!("{key}/{name}")).collect();
        for key in std::iter::once(key).chain(parties) {
            if self.unwritten.len() < 2 * MAX_KEYS {
                self.unwritten.insert(key, 1);
            }
        }
    }

    fn untold(&mut self, count: Count) -> &mut HashMap<String, u64> {
        match count {
            Count::Gas => &mut self.gas,
            Count::Underpaid => &mut self.underpaid,
            Count::Reverts => &mut self.reverts,
        }
    }

    fn take(&mut self, count: Count, most: usize) -> Vec<(String, u64)> {
        self.is_told = true;
        let untold = self.untold(count);
        let some: Vec<_> = untold.keys().take(most).cloned().collect();
        some.into_iter().filter_map(|name| untold.remove_entry(&name)).filter(|(_, amount)| *amount > 0).collect()
    }
}

/// Name of the total.
const ALL: &str = "all";

/// Key prefix of payments whose burned gas was counted. One key has only the payment, others have the name of a party for
/// which it was counted as well.
const COUNTED: &str = "counted";

/// Maximum number of keys of one such payment.
const MAX_COUNTED: usize = 4;

/// Returns the names of a payer, its address and a builder.
fn names(burner: &Burner) -> impl Iterator<Item = String> + use<> {
    let payer = Some(format!("payer/{}", burner.payer));
    let address = burner.from.map(|from| format!("address/{from}"));
    let builder = burner.builder.as_ref().map(|builder| format!("builder/{builder}"));
    [payer, address, builder].into_iter().flatten()
}

impl Burner {
    /// Adds the party with this name.
    fn add(&mut self, name: &str) {
        match name.split_once('/') {
            Some(("payer", payer)) => payer.clone_into(&mut self.payer),
            Some(("address", address)) => self.from = address.parse().ok(),
            Some(("builder", builder)) => self.builder = Some(builder.to_owned()),
            _ => {}
        }
    }
}

impl State {
    /// Returns the entry with this name.
    fn named(&mut self, name: &str, now: Moment) -> Option<&mut Burned> {
        match name.split_once('/') {
            Some(("payer", payer)) => Some(entry(&mut self.payers, payer, now)),
            Some(("address", address)) => Some(entry(&mut self.addresses, address, now)),
            Some(("builder", builder)) => Some(entry(&mut self.builders, builder, now)),
            None if name == ALL => Some(&mut self.all),
            _ => None,
        }
    }
}

/// Shares one kind of count with other hosts.
struct Told(Arc<GasMeter>, Count);

impl Tally for Told {
    fn take_used(&self, most: usize) -> Vec<(String, u64)> {
        self.0.state().pending.take(self.1, most)
    }

    fn used_elsewhere(&self, name: &str, used: u64) {
        self.0.add(self.1, name, used, self.0.now());
    }
}

impl GasMeter {
    /// Returns the counts that hosts of a store share.
    pub(in crate::gate) fn tallies(self: &Arc<Self>) -> [(&'static str, Arc<dyn Tally>); 3] {
        Count::ALL.map(|count| (count.name(), Arc::new(Told(Arc::clone(self), count)) as Arc<dyn Tally>))
    }

    /// Records that gas was counted for this payment, and for whom, for lookups after a restart or by another host.
    pub(in crate::gate) fn note_counted(&self, payment: &PaymentId, counted: &CountedGas) {
        self.state().pending.note(payment, &counted.burner);
        self.changed.notify_one();
    }

    fn add(&self, count: Count, name: &str, amount: u64, at: Moment) {
        let (mut state, now) = (self.state(), self.now());
        if let Some(of) = state.named(name, now) {
            of.recent(count).add(amount, at);
        }
    }

    /// Removes a count that was excused at `at`.
    fn remove(&self, count: Count, name: &str, amount: u64, at: Moment) {
        let (mut state, now) = (self.state(), self.now());
        if let Some(of) = state.named(name, now) {
            of.recent(count).take_back_of(amount, at, now);
        }
    }

    /// Returns the moment from which the sums of an interval count. Everything counts from the end of its interval, so
    /// that it counts for at least an hour.
    fn end_of(&self, stretch: u64, now: Timestamp) -> Moment {
        self.ago(Duration::from_millis(now.0.saturating_sub((stretch + 1).saturating_mul(STRETCH_MS))))
    }

    /// Reads the counts of the last hour from the store, and writes new ones in the background. Call it inside a tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub(in crate::gate) async fn open(self: &Arc<Self>, store: &Arc<dyn Store>, clock: &Clock) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.state().is_open, true) {
            return Ok(());
        }
        self.read(&**store, clock.now()).await?;
        let (meter, changed, store, clock) = (Arc::downgrade(self), Arc::clone(&self.changed), Arc::clone(store), clock.clone());
        tokio::spawn(async move {
            loop {
                changed.notified().await;
                let Some(meter) = meter.upgrade() else { return };
                if let Err(error) = meter.write(&*store, clock.now()).await {
                    tracing::warn!(%error, "burned gas was not written to the store; it is tried again");
                    drop(meter);
                    tokio::time::sleep(AGAIN).await;
                    changed.notify_one();
                }
            }
        });
        Ok(())
    }

    /// Reads the counts of the last hour from the store.
    async fn read(&self, store: &(impl Store + ?Sized), now: Timestamp) -> Result<(), StoreError> {
        let rows = BURNED.rows();
        let mut range = rows.all().from(&(now.0 / STRETCH_MS).saturating_sub(STRETCHES));
        while let Some((page, rest)) = rows.sound(store, &range, PAGE).await? {
            range = rest;
            for row in page {
                let (stretch, key) = row.key;
                let Some((count, name)) = key.split_once('/') else { continue };
                let Some(count) = Count::ALL.into_iter().find(|known| known.name() == count) else { continue };
                let (at, sum) = (self.end_of(stretch, now), row.value.0);
                match u64::try_from(sum.unsigned_abs()) {
                    Ok(amount @ 1..) if sum > 0 => self.add(count, name, amount, at),
                    // Counts of an earlier interval were excused in this one.
                    Ok(amount @ 1..) => self.remove(count, name, amount, at),
                    Ok(0) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Writes the counts since the last time, and deletes those that no longer count.
    async fn write(&self, store: &(impl Store + ?Sized), now: Timestamp) -> Result<(), StoreError> {
        let unwritten = std::mem::take(&mut self.state().pending.unwritten);
        let (stretch, mut batch) = (now.0 / STRETCH_MS, Batch::new());
        for (key, change) in &unwritten {
            batch.add(&BURNED, &(stretch, key.clone()), *change, Limit::Floor(i128::MIN));
        }
        if let Err(error) = batch.commit(store, Durability::Buffered).await {
            let mut state = self.state();
            unwritten.into_iter().for_each(|(key, change)| *state.pending.unwritten.entry(key).or_default() += change);
            return Err(error);
        }
        let rows = BURNED.rows();
        rows.clear(store, &rows.all().before(&stretch.saturating_sub(STRETCHES)), u64::MAX).await.map(drop)
    }
}

impl Gate {
    /// Returns what another process has counted for this payment, or `None` if it has counted nothing.
    pub(in crate::gate) async fn counted_before(&self, payment: &Payment, burned: BurnedGas) -> Option<CountedGas> {
        let (now, key, rows) = (self.clock.now(), format!("{COUNTED}/{}", payment.id()), BURNED.rows());
        let last = now.0 / STRETCH_MS;
        for stretch in last.saturating_sub(STRETCHES)..=last {
            // If it cannot be read, counting twice is better than not at all.
            let noted = rows.sound(&*self.store, &rows.under(&(stretch, Starting(&key))), MAX_COUNTED).await;
            let Ok(Some((noted, _))) = noted else { continue };
            let mut burner = Burner::of_payer(payment.payer());
            for row in &noted {
                if let Some(name) = row.key.1.strip_prefix(&key).and_then(|rest| rest.strip_prefix('/')) {
                    burner.add(name);
                }
            }
            return Some(CountedGas { burner, gas: burned.gas, at: self.gas.end_of(stretch, now) });
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

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use tollhouse_store::memory::MemoryStore;

    use super::*;
    use crate::gate::gas::{BurnedGas, GasCaller, GasLimits, GasRefusal, SettlementGas, TriedGas, cover::GasCover};

    const KEY: TriedGas = TriedGas { limit: 300, by_contract: false };

    fn meter() -> Arc<GasMeter> {
        let some = NonZeroU64::new;
        let limits = GasLimits {
            of_payer: some(1_000),
            of_address: None,
            of_builder: some(10_000),
            of_all: some(10_000),
            reverts: NonZeroU32::new(3),
        };
        GasMeter::new(limits)
    }

    fn burner(payer: &str) -> Burner {
        Burner { payer: payer.to_owned(), from: None, builder: Some("b".to_owned()) }
    }

    fn counted(meter: &Arc<GasMeter>, payer: &str, gas: u64) -> CountedGas {
        meter.burned(&burner(payer), BurnedGas { gas, wei: 1 })
    }

    fn burn(meter: &Arc<GasMeter>, payer: &str, gas: u64) {
        _ = counted(meter, payer, gas);
    }

    fn underpay(meter: &Arc<GasMeter>, payer: &str, gas: u64) {
        let (ordinary, excess) = (BurnedGas { gas, wei: 1 }, BurnedGas { gas: 0, wei: 0 });
        meter.settled(&burner(payer), SettlementGas { ordinary, excess }, true);
    }

    fn admits(meter: &Arc<GasMeter>, payer: &str) -> bool {
        let caller = GasCaller { burner: burner(payer), is_customer: true, cover: GasCover::Full };
        match meter.hold(caller, KEY) {
            Ok(_) => true,
            Err(GasRefusal::Slowed(_)) => false,
            Err(GasRefusal::Spent { .. }) => panic!("of all"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn gas_that_one_host_burned_counts_at_the_others() {
        let (one, other) = (meter(), meter());
        let exchange = || {
            for ((_, told), (_, heard)) in one.tallies().into_iter().zip(other.tallies()) {
                told.take_used(100).iter().for_each(|(name, used)| heard.used_elsewhere(name, *used));
            }
        };
        burn(&one, "before", 1_000);
        exchange();
        assert_eq!(other.last_hour(), 0, "what was burned before anybody asked is in the store");
        burn(&one, "a", 1_000);
        for _ in 0..3 {
            burn(&one, "c", 100);
        }
        exchange();
        exchange();
        assert_eq!(other.last_hour(), 1_300);
        assert_eq!((admits(&other, "a"), admits(&other, "c"), admits(&other, "d")), (false, false, true));
        assert_eq!(other.status()["revertedLastHour"], 4);
        one.excuse(counted(&one, "d", 900));
        exchange();
        assert!(admits(&other, "d") && other.last_hour() == 2_200, "the gas was spent, so it counts in total");
        underpay(&one, "e", 70);
        exchange();
        assert_eq!(other.status()["underpaidLastHour"], 70);
        assert_eq!(other.last_hour(), 2_200);
    }

    #[tokio::test(start_paused = true)]
    async fn burned_gas_outlasts_a_restart_for_an_hour() {
        let (store, begun) = (MemoryStore::new(), Timestamp(1_800_000_000_000));
        let later = |minutes: u64| begun.plus_millis(minutes * 60_000);
        let (one, other) = (meter(), meter());
        burn(&one, "a", 1_000);
        one.write(&store, begun).await.unwrap();
        burn(&other, "a", 1);
        let late = counted(&other, "c", 500);
        underpay(&other, "a", 70);
        other.write(&store, later(1)).await.unwrap();
        // It is excused in another interval than it was counted in.
        other.excuse(late);
        other.write(&store, later(8)).await.unwrap();
        for (minutes, all, of_payer) in [(1, 1_501, false), (59, 1_501, false), (80, 0, true)] {
            let restarted = meter();
            restarted.read(&store, later(minutes)).await.unwrap();
            let (underpaid, of_builder) = if all > 0 { (70_u64, 1_001) } else { (0, 0) };
            assert_eq!(restarted.status()["underpaidLastHour"], underpaid, "{minutes}");
            assert_eq!(restarted.burned_by(&burner("c")), [0, 0, of_builder], "{minutes}");
            assert_eq!((restarted.last_hour(), admits(&restarted, "a"), admits(&restarted, "c")), (all, of_payer, true), "{minutes}");
        }
        one.write(&store, later(300)).await.unwrap();
        let left = BURNED.rows().sound(&store, &BURNED.rows().all(), PAGE).await.unwrap();
        assert!(left.is_none_or(|(rows, _)| rows.is_empty()), "what counts no more is removed");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_wait_are_bounded() {
        let meter = meter();
        meter.tallies()[0].1.take_used(1);
        for n in 0..MAX_KEYS + 100 {
            burn(&meter, &format!("payer-{n}"), 1);
        }
        let state = meter.state();
        let pending = &state.pending;
        assert!(pending.gas.len() <= MAX_KEYS + 1 && pending.reverts.len() <= MAX_KEYS + 1);
        assert!(pending.unwritten.len() <= 2 * (MAX_KEYS + 1));
        assert_eq!(pending.gas[ALL], MAX_KEYS as u64 + 100);
    }
}
