//! Limits on gas that settlements burn without paying.
//!
//! If the host sends transactions itself, a reverted one costs its gas key and moves nothing. A successful one can cost
//! more than it pays, because a payer that is a contract chooses how much gas its signature takes. Burned gas, and gas
//! beyond an ordinary settlement ([`BurnedGas::ORDINARY`]), counts for an hour: per payer, per caller's address, per
//! builder whose tool was run, and in total, over all hosts of a store. A payer that is a contract can behave
//! differently in the transaction than in the simulation. So the gas limits of its runs in flight count too.
//!
//! A settlement of less than the least amount ([`PaymentConfig::least_settlement`](crate::PaymentConfig)) is underpaid:
//! its gas costs more than it brings. That gas is counted separately, and limits only underpaid runs. So tiny prices cost
//! the host no more than the limits, and do not delay payers of normal prices.
//!
//! Nobody can close a tool to its customers by burning gas: payers who have not paid for the tool can use only half of
//! the limits per builder and in total, and contracts among them a quarter.

pub(super) mod cover;
mod shared;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    net::IpAddr,
    num::{NonZeroU32, NonZeroU64},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use tollhouse_telemetry::counted::BURNED_GAS;

use self::cover::GasCover;
use super::{
    recent::{Moment, Recent},
    slowed::{Bound, Slowed},
    throttle::Running,
};
use crate::{BurnedGas, GasLimits, SettlementGas, x402::offer::TriedGas};

/// The time for which burned gas and reverted settlements count.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// When a retry is worthwhile if only runs in flight exceed the limit.
const SOON: Duration = Duration::from_secs(1);

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
}

impl From<&Running> for Burner {
    fn from(running: &Running) -> Self {
        Self { payer: running.payer.clone(), from: running.from, builder: Some(running.builder.clone()) }
    }
}

impl Burner {
    /// Constructs the parties of a settlement of which only the payer is known.
    pub(super) fn of_payer(payer: String) -> Self {
        Self { payer, from: None, builder: None }
    }
}

/// Gas that was counted as burned: for whom, how much, and when. [`GasMeter::excuse`] removes it. Dropping this value
/// leaves the count as it is.
#[derive(Debug)]
#[must_use]
pub(super) struct CountedGas {
    pub(super) burner: Burner,
    gas: u64,
    at: Moment,
}

/// The caller of a run whose settlement may burn gas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GasCaller {
    burner: Burner,
    is_customer: bool,
    cover: GasCover,
}

impl GasCaller {
    pub(super) fn new(running: &Running, cover: GasCover) -> Self {
        Self { burner: running.into(), is_customer: running.is_customer, cover }
    }

    /// Returns the caller of a settlement that is sent again. It has paid before, and its address is no longer known.
    pub(super) fn again(burner: Burner) -> Self {
        Self { burner, is_customer: true, cover: GasCover::Full }
    }
}

/// Why a run is refused whose settlement may burn gas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GasRefusal {
    /// The payer, address or builder is at a limit.
    Slowed(Slowed),
    /// The limit in total is used up.
    Spent { wait: Duration },
}

#[derive(Debug, Clone, Copy, Default)]
struct Burned {
    gas: Recent,
    /// Gas of underpaid settlements.
    underpaid: Recent,
    reverts: Recent,
    /// Reverted settlements that were excused.
    excused: Recent,
    /// Gas that runs in flight may burn.
    held: u64,
    /// Gas that the settlements of underpaid runs in flight will use.
    held_underpaid: u64,
    /// Number of runs in flight.
    runs: u32,
}

/// Counts that were not sent to other hosts or not written to the store yet.
#[derive(Debug, Default)]
struct Pending {
    /// Whether counts are sent to other hosts.
    is_told: bool,
    gas: HashMap<String, u64>,
    underpaid: HashMap<String, u64>,
    reverts: HashMap<String, u64>,
    /// The key is the kind of count, `/`, and the party.
    unwritten: HashMap<String, i128>,
}

#[derive(Debug, Default)]
struct State {
    payers: HashMap<String, Burned>,
    addresses: HashMap<String, Burned>,
    builders: HashMap<String, Burned>,
    all: Burned,
    /// Counts to send to other hosts and to write to the store.
    pending: Pending,
    /// Whether the store was read and is being written.
    is_open: bool,
    /// Whether the host has ever settled with its own gas.
    is_used: bool,
    /// Cost of the gas burned since the start, that of underpaid settlements included, in the smallest unit of the native
    /// currency.
    wei: u128,
}

/// The limits on burned gas, and the counts.
#[derive(Debug)]
pub(super) struct GasMeter {
    limits: GasLimits,
    begun: Instant,
    state: Mutex<State>,
    /// Notified when there is something to write.
    changed: Arc<Notify>,
}

/// Gas that a run in flight may burn. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct GasHold {
    meter: Arc<GasMeter>,
    burner: Burner,
    gas: u64,
    underpaid: u64,
}

impl GasMeter {
    pub(super) fn new(limits: GasLimits) -> Arc<Self> {
        Arc::new(Self { limits, begun: Instant::now(), state: Mutex::default(), changed: Arc::default() })
    }

    /// Admits a run whose settlement needs this gas, and counts the gas until the hold is dropped.
    pub(super) fn hold(self: &Arc<Self>, caller: GasCaller, tried: TriedGas) -> Result<GasHold, GasRefusal> {
        let (mut state, now) = (self.state(), self.now());
        let GasCaller { burner, is_customer, cover } = caller;
        let of = |burned: Option<&Burned>| burned.copied().unwrap_or_default();
        let of_payer = of(state.payers.get(&burner.payer));
        let of_address = of(burner.from.and_then(|from| state.addresses.get(&from.to_string())));
        let of_builder = of(burner.builder.as_ref().and_then(|id| state.builders.get(id)));
        // A payment signed by a key fails only if its money has moved meanwhile, and then early.
        let gas = if tried.by_contract { tried.limit } else { 0 };
        let slowed = |bound, most: u64, wait| {
            let most = NonZeroU32::new(u32::try_from(most).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
            Err(GasRefusal::Slowed(Slowed { bound, most, window: WINDOW, wait }))
        };
        if let Some(reverts) = self.limits.reverts.filter(|most| of_payer.reverts.total(now) >= u64::from(most.get())) {
            return slowed(Bound::Reverts, reverts.get().into(), of_payer.reverts.wait(now).unwrap_or(SOON));
        }
        if let Some((most, wait)) = self.limits.of_payer.and_then(|most| of_payer.beyond(most.get(), gas, now)) {
            return slowed(Bound::PayerGas, most, wait);
        }
        let limit_of_address = self.limits.of_address.filter(|_| !is_customer);
        if let Some((most, wait)) = limit_of_address.and_then(|most| of_address.beyond(most.get(), gas, now)) {
            return slowed(Bound::AddressGas, most, wait);
        }
        let part = |most: NonZeroU64| part(most, tried.by_contract, is_customer);
        if let Some(whole) = self.limits.of_builder
            && let Some((most, wait)) = of_builder.beyond(part(whole), gas, now)
        {
            let is_closed = is_customer || of_builder.gas.total(now) >= whole.get();
            return slowed(if is_closed { Bound::OwnerGas } else { Bound::NewPayers }, most, wait);
        }
        if let Some(whole) = self.limits.of_all
            && let Some((most, wait)) = state.all.beyond(part(whole), gas, now)
        {
            let is_closed = is_customer || tried.by_contract || state.all.gas.total(now) >= whole.get();
            return if is_closed { Err(GasRefusal::Spent { wait }) } else { slowed(Bound::NewPayers, most, wait) };
        }
        let is_underpaid = cover.is_limited(of_payer.underpaid.total(now) > 0);
        if is_underpaid {
            let limits = [
                (self.limits.of_payer.map(NonZeroU64::get), &of_payer),
                (limit_of_address.map(NonZeroU64::get), &of_address),
                (self.limits.of_builder.map(part), &of_builder),
                (self.limits.of_all.map(part), &state.all),
            ];
            let beyond = limits.into_iter().find_map(|(most, used)| used.beyond_underpaid(most?, tried.limit, now));
            if let Some((most, wait)) = beyond {
                return slowed(Bound::Underpaid, most, wait);
            }
        }
        let underpaid = if is_underpaid && !tried.by_contract { tried.limit } else { 0 };
        state.is_used = true;
        state.change(&burner, now, |burned| (burned.held, burned.runs) = (burned.held.saturating_add(gas), burned.runs + 1));
        if underpaid > 0 {
            state.change_all(&burner, now, |burned| burned.held_underpaid = burned.held_underpaid.saturating_add(underpaid));
        }
        drop(state);
        Ok(GasHold { meter: Arc::clone(self), burner, gas, underpaid })
    }

    /// Returns whether so much gas was burned that the limits depend on who has paid for a tool of this builder before.
    pub(super) fn keeps_to_customers(&self, burner: &Burner) -> bool {
        let (state, now) = (self.state(), self.now());
        let is_high = |most: Option<NonZeroU64>, of: &Burned| {
            let underpaid = of.underpaid.total(now).saturating_add(of.held_underpaid);
            most.is_some_and(|most| of.gas.total(now).saturating_add(underpaid) >= most.get() / 4)
        };
        let of_builder = burner.builder.as_ref().and_then(|id| state.builders.get(id));
        let of_address = burner.from.and_then(|from| state.addresses.get(&from.to_string()));
        is_high(self.limits.of_all, &state.all)
            || of_builder.is_some_and(|burned| is_high(self.limits.of_builder, burned))
            || of_address.is_some_and(|burned| is_high(self.limits.of_address, burned))
    }

    /// Returns whether the host has ever settled with its own gas.
    pub(super) fn is_used(&self) -> bool {
        self.state().is_used
    }

    /// Returns whether no settlement of this payer was reverted in the last hour.
    pub(super) fn is_clean(&self, payer: &str) -> bool {
        self.state().payers.get(payer).is_none_or(|burned| burned.reverts.total(self.now()) == 0)
    }

    /// Counts the gas burned by a reverted settlement.
    pub(super) fn burned(&self, burner: &Burner, burned: BurnedGas) -> CountedGas {
        BURNED_GAS.add(burned.gas);
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
            let (mut state, now) = (self.state(), self.now());
            state.wei = state.wei.saturating_add(ordinary.wei);
            state.change_all(burner, now, |of| of.underpaid.add(ordinary.gas, now));
            state.pending.underpaid(burner, ordinary.gas);
            self.changed.notify_one();
        }
    }

    /// Counts burned gas, and returns when.
    fn count(&self, burner: &Burner, burned: BurnedGas, reverts: u64) -> Moment {
        let (mut state, now) = (self.state(), self.now());
        state.wei = state.wei.saturating_add(burned.wei);
        state.change_all(burner, now, |of| {
            of.gas.add(burned.gas, now);
            of.reverts.add(reverts, now);
        });
        state.pending.burned(burner, burned.gas, reverts);
        self.changed.notify_one();
        now
    }

    /// Removes a count of burned gas from its payer, address and builder, because another transaction had already moved
    /// the money. The gas is gone, so it still counts in total.
    ///
    /// The payer may have sent the other transaction. So a payer gets only as many excuses as settlements may be
    /// reverted, and an address [`EXCUSES_OF_ADDRESS`] times as many. Further ones count like others.
    pub(super) fn excuse(&self, counted: CountedGas) {
        let (mut state, now) = (self.state(), self.now());
        let CountedGas { mut burner, gas, at } = counted;
        let State { payers, addresses, builders, pending, .. } = &mut *state;
        let most = self.limits.reverts.map(NonZeroU32::get);
        let payer = entry(payers, &burner.payer, now);
        if !payer.excuse(most, now) {
            return;
        }
        let most_of_address = most.map(|most| most.saturating_mul(EXCUSES_OF_ADDRESS));
        let address = burner.from.map(move |from| entry(addresses, &from.to_string(), now));
        let address = address.and_then(|address| address.excuse(most_of_address, now).then_some(address));
        if address.is_none() {
            burner.from = None;
        }
        let builder = burner.builder.as_ref().and_then(|id| builders.get_mut(id));
        for of in [Some(payer), builder, address].into_iter().flatten() {
            of.gas.take_back_of(gas, at, now);
            of.reverts.take_back_of(1, at, now);
        }
        pending.excused(&burner, gas);
        self.changed.notify_one();
    }

    /// Returns the gas burned in the last hour.
    pub(super) fn last_hour(&self) -> u64 {
        self.state().all.gas.total(self.now())
    }

    /// Returns whether more than half of the total limit is used.
    pub(super) fn is_high(&self) -> bool {
        self.limits.of_all.is_some_and(|most| self.last_hour() > most.get() / 2)
    }

    /// Returns whether underpaid settlements have used more than half of the total limit.
    pub(super) fn is_underpaid_high(&self) -> bool {
        self.limits.of_all.is_some_and(|most| self.state().all.underpaid.total(self.now()) > most.get() / 2)
    }

    /// Returns the status for operators.
    pub(super) fn status(&self) -> Value {
        let (state, now) = (self.state(), self.now());
        json!({
            "burnedLastHour": state.all.gas.total(now),
            "underpaidLastHour": state.all.underpaid.total(now),
            "revertedLastHour": state.all.reverts.total(now),
            "limitPerHour": self.limits.of_all,
            "burnedWei": state.wei.to_string(),
        })
    }

    /// Returns the number of reverted settlements that count against a payer.
    #[cfg(test)]
    pub(super) fn reverts_of(&self, payer: &str) -> u64 {
        self.state().payers.get(payer).map_or(0, |burned| burned.reverts.total(self.now()))
    }

    /// Returns the gas burned in the last hour by a payer, from an address, and for the tools of a builder.
    #[cfg(test)]
    pub(super) fn burned_by(&self, burner: &Burner) -> [u64; 3] {
        let (state, now) = (self.state(), self.now());
        let address = burner.from.and_then(|from| state.addresses.get(&from.to_string()));
        let builder = burner.builder.as_ref().and_then(|id| state.builders.get(id));
        [state.payers.get(&burner.payer), address, builder].map(|of| of.map_or(0, |of| of.gas.total(now)))
    }

    /// Forgets parties that have burned nothing for an hour.
    pub(super) fn forget_quiet(&self) {
        let (mut state, now) = (self.state(), self.now());
        let State { payers, addresses, builders, .. } = &mut *state;
        [payers, addresses, builders].into_iter().for_each(|of| of.retain(|_, burned| burned.counts(now)));
    }

    fn now(&self) -> Moment {
        self.ago(Duration::ZERO)
    }

    /// Returns the moment `age` ago, for up to two hours, even from before the start.
    fn ago(&self, age: Duration) -> Moment {
        Moment::new((self.begun.elapsed() + 2 * WINDOW).saturating_sub(age), WINDOW)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes the counts of a payer, of a builder, and in total.
    fn change(&mut self, burner: &Burner, now: Moment, change: impl Fn(&mut Burned)) {
        change(&mut self.all);
        change(entry(&mut self.payers, &burner.payer, now));
        if let Some(builder) = &burner.builder {
            change(entry(&mut self.builders, builder, now));
        }
    }

    /// Changes the counts of all parties, the caller's address included, and in total.
    fn change_all(&mut self, burner: &Burner, now: Moment, change: impl Fn(&mut Burned)) {
        self.change(burner, now, &change);
        if let Some(from) = burner.from {
            change(entry(&mut self.addresses, &from.to_string(), now));
        }
    }
}

/// Returns the entry of a key. At [`MAX_KEYS`], removes entries that burn nothing, then the one that has burned least.
fn entry<'a>(of: &'a mut HashMap<String, Burned>, key: &str, now: Moment) -> &'a mut Burned {
    if of.len() >= MAX_KEYS && !of.contains_key(key) {
        of.retain(|_, burned| burned.counts(now));
        let used = |burned: &Burned| burned.gas.total(now).saturating_add(burned.underpaid.total(now));
        let least = of.iter().min_by_key(|(_, burned)| (burned.runs, burned.held_underpaid, used(burned))).map(|(key, _)| key.clone());
        if let Some(least) = least.filter(|_| of.len() >= MAX_KEYS) {
            of.remove(&least);
        }
    }
    of.entry(key.to_owned()).or_default()
}

impl Burned {
    /// Returns the limit and the time to wait if a run that may burn `gas` more exceeds it.
    fn beyond(&self, most: u64, gas: u64, now: Moment) -> Option<(u64, Duration)> {
        let burned = self.gas.total(now);
        if burned >= most {
            return Some((most, self.gas.wait(now).unwrap_or(SOON)));
        }
        let needed = burned.saturating_add(self.held).saturating_add(gas);
        // A single run may always begin, because its gas is limited anyway.
        (gas > 0 && self.held > 0 && needed > most).then_some((most, SOON))
    }

    /// Like [`Self::beyond`], for a run whose settlement is underpaid and uses `gas`. Burned gas counts as well.
    fn beyond_underpaid(&self, most: u64, gas: u64, now: Moment) -> Option<(u64, Duration)> {
        let used = self.gas.total(now).saturating_add(self.underpaid.total(now));
        if used >= most {
            let waits = [self.gas.wait(now), self.underpaid.wait(now)];
            return Some((most, waits.into_iter().flatten().min().unwrap_or(SOON)));
        }
        let held = self.held.saturating_add(self.held_underpaid);
        (held > 0 && used.saturating_add(held).saturating_add(gas) > most).then_some((most, SOON))
    }

    fn counts(&self, now: Moment) -> bool {
        let is_held = self.runs > 0 || self.held_underpaid > 0;
        is_held || [&self.gas, &self.underpaid, &self.reverts, &self.excused].iter().any(|of| of.total(now) > 0)
    }

    /// Returns whether another reverted settlement is excused, and counts it. `most` is the maximum per hour, if any.
    fn excuse(&mut self, most: Option<u32>, now: Moment) -> bool {
        if most.is_some_and(|most| self.excused.total(now) >= u64::from(most)) {
            return false;
        }
        self.excused.add(1, now);
        true
    }
}

impl Drop for GasHold {
    fn drop(&mut self) {
        let (mut state, now) = (self.meter.state(), self.meter.now());
        state.change(&self.burner, now, |burned| {
            (burned.held, burned.runs) = (burned.held.saturating_sub(self.gas), burned.runs.saturating_sub(1));
        });
        if self.underpaid > 0 {
            state.change_all(&self.burner, now, |burned| burned.held_underpaid = burned.held_underpaid.saturating_sub(self.underpaid));
        }
    }
}

/// Returns the part of a limit that a payer may use. Customers who pay with a key may use all of it. New payers with a
/// key and customers that are contracts may use half, and new contracts a quarter, because contracts can burn gas on
/// purpose.
fn part(most: NonZeroU64, by_contract: bool, is_customer: bool) -> u64 {
    let parts = match (by_contract, is_customer) {
        (false, true) => return most.get(),
        (true, true) | (false, false) => 2,
        (true, false) => 4,
    };
    // Keys may begin even under the smallest limit, since they hold nothing of it.
    (most.get() / parts).max(u64::from(!by_contract))
}
