//! Limits on gas that settlements burn without paying.
//!
//! If the host sends transactions itself, a reverted one costs its gas key and moves nothing. A successful one can cost
//! more than it pays, because a payer that is a contract chooses how much gas its signature takes. Burned gas, and gas
//! beyond an ordinary settlement ([`BurnedGas::ORDINARY`]), counts for an hour: per payer, per caller's address, per
//! builder whose tool was run, and in total, over all hosts of a store. The gas that runs in flight can burn counts too:
//! the gas limit of a payer that is a contract, because it can behave differently in the transaction than in the
//! simulation, and the gas of an ordinary revert for others.
//!
//! A settlement of less than the least amount ([`PaymentConfig::least_settlement`](crate::PaymentConfig)) is underpaid:
//! its gas costs more than it brings. That gas is counted separately, and limits only underpaid runs. So tiny prices cost
//! the host no more than the limits, and do not delay payers of normal prices.
//!
//! A payer may have few reverted settlements in an hour ([`GasLimits::reverts`]). If it has more runs in flight, and its
//! earlier paid runs do not cover them, their settlements wait for each other, so that no more can be reverted.
//!
//! Nobody can close a tool to its customers by burning gas. Per builder and in total, new payers have a pool of their own
//! of half the limit. Even if they burn more than that, it does not count against the other half ([`Pool`]).

pub(super) mod cover;
mod held;
mod shared;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use tollhouse_base::lock::Lock;
use tollhouse_telemetry::counters::{BURNED_GAS, UNDERPAID_GAS};

use self::cover::GasCover;
use super::{
    run_limits::RunLimitReached,
    sliding_window::{SlidingWindow, WindowMoment},
    unpaid_runs::{RunParties, Standing},
    unsent::UnsentCounts,
};
use crate::{BurnedGas, GasLimits, SettlementGas};

/// The time for which burned gas and reverted settlements count.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Number of excuses for an address, as a multiple of those for a payer: payers behind one address share it, and new
/// payers cost nothing.
const EXCUSES_OF_ADDRESS: u32 = 2;

/// Maximum number of payers, of addresses and of builders that are remembered.
const MAX_KEYS: usize = 16_384;

/// The parties for which burned gas counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Burner {
    pub(super) payer: String,
    /// The caller's address, or `None` if it is not known.
    pub(super) from: Option<IpAddr>,
    /// The builder's share name, or `None` if it is no longer known.
    pub(super) builder: Option<String>,
    /// The payer's standing. It decides which pool the gas counts for.
    pub(super) standing: Standing,
}

impl From<&RunParties> for Burner {
    fn from(running: &RunParties) -> Self {
        let builder = Some(running.builder.clone());
        Self { payer: running.payer.clone(), from: running.from, builder, standing: running.standing }
    }
}

impl Burner {
    /// Constructs the parties of a settlement of which only the payer is known.
    pub(super) fn of_payer(payer: String) -> Self {
        Self { payer, from: None, builder: None, standing: Standing::New }
    }
}

/// Gas that was counted as burned: for whom, how much, and when. [`GasMeter::forgive`] removes it. Dropping this value
/// leaves the count as it is.
#[derive(Debug)]
#[must_use]
pub(super) struct CountedGas {
    pub(super) burner: Burner,
    gas: u64,
    at: WindowMoment,
}

/// The caller of a run whose settlement may burn gas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GasCaller {
    burner: Burner,
    cover: GasCover,
}

impl GasCaller {
    pub(super) fn new(running: &RunParties, cover: GasCover) -> Self {
        Self { burner: running.into(), cover }
    }

    /// Returns the caller of a settlement that is sent again.
    pub(super) fn again(burner: Burner) -> Self {
        Self { burner, cover: GasCover::Full }
    }
}

/// Why a run is refused whose settlement may burn gas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GasRefusal {
    /// The payer, address or builder is at a limit.
    Slowed(RunLimitReached),
    /// The limit in total is used up.
    Spent { wait: Duration },
}

#[derive(Debug, Clone, Copy, Default)]
struct Burned {
    gas: SlidingWindow,
    underpaid: SlidingWindow,
    reverts: SlidingWindow,
    excused: SlidingWindow,
    held: u64,
    /// Gas that the settlements of underpaid runs in flight will use.
    held_underpaid: u64,
    runs: u64,
    /// Number of a payer's settlements in flight that no earlier paid run covers.
    settling: u64,
}

/// The counts of payers of one kind, by builder and in total. Gas that new payers burn counts in one pool, and that of
/// customers in another. Gas of underpaid settlements counts in the customers' pool only for payers who have been
/// customers for long.
#[derive(Debug, Default)]
struct Pool {
    builders: HashMap<String, Burned>,
    all: Burned,
}

/// Counts that were not sent to other hosts or not written to the store yet.
#[derive(Debug, Default)]
struct Pending {
    /// By the kind of count.
    unsent: [UnsentCounts; 3],
    /// The key is the kind of count, `/`, and the party.
    unwritten: HashMap<String, i128>,
}

#[derive(Debug, Default)]
struct State {
    payers: HashMap<String, Burned>,
    addresses: HashMap<String, Burned>,
    newcomers: Pool,
    customers: Pool,
    /// Counts to send to other hosts and to write to the store.
    pending: Pending,
    /// Whether the store was read and is being written.
    is_open: bool,
    /// Whether the host has ever settled with its own gas.
    is_used: bool,
    /// Cost of the gas burned since the start and in the hour before it, that of underpaid settlements included, in the
    /// smallest unit of the native currency.
    wei: u128,
}

#[derive(Debug)]
pub(super) struct GasMeter {
    limits: GasLimits,
    started: Instant,
    state: Lock<State>,
    /// Notified when there is something to write.
    changed: Arc<Notify>,
    /// Notified when a settlement has ended that others may wait for.
    ended: Notify,
}

/// Gas that a run in flight may burn. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct GasHold {
    meter: Arc<GasMeter>,
    burner: Burner,
    held: HeldGas,
    /// Whether it counts among the payer's settlements in flight.
    is_settling: bool,
}

/// Amounts of gas that a run in flight holds.
#[derive(Debug, Clone, Copy)]
struct HeldGas {
    gas: u64,
    of_payer: u64,
    /// Gas that its settlement will use, if that is underpaid.
    underpaid: u64,
}

impl GasMeter {
    pub(super) fn new(limits: GasLimits) -> Arc<Self> {
        Arc::new(Self { limits, started: Instant::now(), state: Lock::default(), changed: Arc::default(), ended: Notify::new() })
    }

    /// Returns whether the host has ever settled with its own gas.
    pub(super) fn is_used(&self) -> bool {
        self.state.lock().is_used
    }

    /// Returns whether no settlement of this payer was reverted in the last hour.
    pub(super) fn is_clean(&self, payer: &str) -> bool {
        self.state.lock().payers.get(payer).is_none_or(|burned| burned.reverts.total(self.now()) == 0)
    }

    pub(super) fn burned(&self, burner: &Burner, burned: BurnedGas) -> CountedGas {
        BURNED_GAS.add([], burned.gas);
        let at = self.count(burner, burned, 1);
        CountedGas { burner: burner.clone(), gas: burned.gas, at }
    }

    /// Counts the gas of a successful settlement: the part beyond an ordinary settlement and, if it is underpaid, the
    /// rest.
    pub(super) fn settled(&self, burner: &Burner, used: SettlementGas, is_underpaid: bool) {
        let SettlementGas { ordinary, excess } = used;
        if excess.gas > 0 {
            self.count(burner, excess, 0);
        }
        if is_underpaid && ordinary.gas > 0 {
            UNDERPAID_GAS.add([], ordinary.gas);
            let (mut state, now) = (self.state.lock(), self.now());
            state.wei = state.wei.saturating_add(ordinary.wei);
            state.change_all(burner, burner.standing.is_regular(), now, |of| of.underpaid.add(ordinary.gas, now));
            state.pending.underpaid(burner, ordinary);
            self.changed.notify_one();
        }
    }

    fn count(&self, burner: &Burner, burned: BurnedGas, reverts: u64) -> WindowMoment {
        let (mut state, now) = (self.state.lock(), self.now());
        state.wei = state.wei.saturating_add(burned.wei);
        state.change_all(burner, burner.standing.is_customer(), now, |of| {
            of.gas.add(burned.gas, now);
            of.reverts.add(reverts, now);
        });
        state.pending.burned(burner, burned, reverts);
        self.changed.notify_one();
        now
    }

    /// Removes a count of burned gas from its payer, address and builder, because another transaction had already moved
    /// the money. The gas is gone, so it still counts in total.
    ///
    /// The payer may have sent the other transaction. So a payer gets only as many excuses as settlements may be
    /// reverted, and an address [`EXCUSES_OF_ADDRESS`] times as many. Further ones count like others.
    pub(super) fn forgive(&self, counted: CountedGas) {
        let (mut state, now) = (self.state.lock(), self.now());
        let CountedGas { mut burner, gas, at } = counted;
        let State { payers, addresses, newcomers, customers, pending, .. } = &mut *state;
        let pool = if burner.standing.is_customer() { customers } else { newcomers };
        let max = self.limits.reverts.map(NonZeroU32::get);
        let payer = entry(payers, &burner.payer, now);
        if !payer.forgive(max, now) {
            return;
        }
        let most_of_address = max.map(|max| max.saturating_mul(EXCUSES_OF_ADDRESS));
        let address = burner.from.map(move |from| entry(addresses, &from.to_string(), now));
        let address = address.and_then(|address| address.forgive(most_of_address, now).then_some(address));
        if address.is_none() {
            burner.from = None;
        }
        let builder = burner.builder.as_ref().and_then(|id| pool.builders.get_mut(id));
        for of in [Some(payer), builder, address].into_iter().flatten() {
            of.gas.take_back_of(gas, at, now);
            of.reverts.take_back_of(1, at, now);
        }
        pending.excused(&burner, gas);
        self.changed.notify_one();
    }

    pub(super) fn last_hour(&self) -> u64 {
        let now = self.now();
        self.state.lock().sum(|of| of.gas.total(now))
    }

    /// Returns whether more than half of the total limit is used.
    pub(super) fn is_high(&self) -> bool {
        self.limits.of_all.is_some_and(|max| self.last_hour() > max.get() / 2)
    }

    /// Returns whether underpaid settlements have used more than half of the total limit.
    pub(super) fn is_underpaid_high(&self) -> bool {
        let now = self.now();
        self.limits.of_all.is_some_and(|max| self.state.lock().sum(|of| of.underpaid.total(now)) > max.get() / 2)
    }

    pub(super) fn status(&self) -> Value {
        let (state, now) = (self.state.lock(), self.now());
        json!({
            "burnedLastHour": state.sum(|of| of.gas.total(now)),
            "underpaidLastHour": state.sum(|of| of.underpaid.total(now)),
            "revertedLastHour": state.sum(|of| of.reverts.total(now)),
            "limitPerHour": self.limits.of_all,
            "burnedWei": state.wei.to_string(),
        })
    }

    /// Forgets parties that have burned nothing for an hour.
    pub(super) fn prune_idle(&self) {
        let (mut state, now) = (self.state.lock(), self.now());
        let State { payers, addresses, newcomers, customers, .. } = &mut *state;
        [payers, addresses, &mut newcomers.builders, &mut customers.builders]
            .into_iter()
            .for_each(|of| of.retain(|_, burned| burned.counts(now)));
    }

    fn now(&self) -> WindowMoment {
        self.ago(Duration::ZERO)
    }

    /// Returns the moment `age` ago, for up to two hours, even from before the start.
    fn ago(&self, age: Duration) -> WindowMoment {
        WindowMoment::new((self.started.elapsed() + 2 * WINDOW).saturating_sub(age), WINDOW)
    }
}

impl State {
    fn pool(&mut self, is_of_customers: bool) -> &mut Pool {
        if is_of_customers { &mut self.customers } else { &mut self.newcomers }
    }

    /// Changes the builder's count and the total, in the pool of customers or in that of new payers.
    fn change_pool(&mut self, burner: &Burner, is_of_customers: bool, now: WindowMoment, change: impl Fn(&mut Burned)) {
        let pool = self.pool(is_of_customers);
        change(&mut pool.all);
        if let Some(builder) = &burner.builder {
            change(entry(&mut pool.builders, builder, now));
        }
    }

    fn change_all(&mut self, burner: &Burner, is_of_customers: bool, now: WindowMoment, change: impl Fn(&mut Burned)) {
        self.change_pool(burner, is_of_customers, now, &change);
        change(entry(&mut self.payers, &burner.payer, now));
        if let Some(from) = burner.from {
            change(entry(&mut self.addresses, &from.to_string(), now));
        }
    }

    /// Returns a count in total, of new payers and customers together.
    fn sum(&self, count: impl Fn(&Burned) -> u64) -> u64 {
        count(&self.newcomers.all).saturating_add(count(&self.customers.all))
    }
}

/// Returns the entry of a key. At [`MAX_KEYS`], removes entries that burn nothing, then the one that has burned least.
fn entry<'a>(of: &'a mut HashMap<String, Burned>, key: &str, now: WindowMoment) -> &'a mut Burned {
    if of.len() >= MAX_KEYS && !of.contains_key(key) {
        of.retain(|_, burned| burned.counts(now));
        let weight = |burned: &Burned| (burned.runs, burned.held_underpaid, burned.underpaid_and_burned(now));
        let least = of.iter().min_by_key(|(_, burned)| weight(burned)).map(|(key, _)| key.clone());
        if let Some(least) = least.filter(|_| of.len() >= MAX_KEYS) {
            of.remove(&least);
        }
    }
    of.entry(key.to_owned()).or_default()
}

impl Burned {
    fn underpaid_and_burned(&self, now: WindowMoment) -> u64 {
        self.gas.total(now).saturating_add(self.underpaid.total(now))
    }

    fn counts(&self, now: WindowMoment) -> bool {
        let is_held = self.runs > 0 || self.held_underpaid > 0;
        is_held || [&self.gas, &self.underpaid, &self.reverts, &self.excused].iter().any(|of| of.total(now) > 0)
    }

    /// Returns whether another reverted settlement is excused, and counts it. `most` is the maximum per hour, if any.
    fn forgive(&mut self, max: Option<u32>, now: WindowMoment) -> bool {
        if max.is_some_and(|max| self.excused.total(now) >= u64::from(max)) {
            return false;
        }
        self.excused.add(1, now);
        true
    }
}
