//! Limits on gas that settlements burn without paying.
//!
//! Where the host sends transactions itself, one that is reverted costs its gas key and moves nothing. What was burned counts for an
//! hour: by payer, by the builder whose tool was run, and in all. A payer that is a contract can do in the transaction what it did
//! not do in the trial, so the gas of its runs under way counts beside, as much as their transactions may use. Such payers leave
//! half of what all may burn to payers with a key.

use std::{
    collections::HashMap,
    num::{NonZeroU32, NonZeroU64},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;
use tollhouse_telemetry::counted::BURNED_GAS;

use super::{
    recent::{Moment, Recent},
    slowed::{Bound, Slowed},
    throttle::Running,
};

/// The time for which burned gas and reverted settlements count.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// After how long it is worth asking again where only runs under way are in the way.
const SOON: Duration = Duration::from_secs(1);

/// Payers and builders that are remembered.
const MAX_KEYS: usize = 16_384;

/// Gas per hour that settlements may burn without paying. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasLimits {
    /// Of one payer. Default: 3,000,000.
    pub of_payer: Option<NonZeroU64>,
    /// For tools of one builder. Default: 15,000,000.
    pub of_builder: Option<NonZeroU64>,
    /// In all. Default: 60,000,000.
    pub of_all: Option<NonZeroU64>,
    /// Reverted settlements of one payer within an hour. Default: 5.
    pub reverts: Option<NonZeroU32>,
}

impl Default for GasLimits {
    fn default() -> Self {
        let some = NonZeroU64::new;
        Self { of_payer: some(3_000_000), of_builder: some(15_000_000), of_all: some(60_000_000), reverts: NonZeroU32::new(5) }
    }
}

/// What a settlement needs of gas, by a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TriedGas {
    /// The most that its transaction may use.
    pub(crate) limit: u64,
    /// Whether the payer is a contract.
    pub(crate) by_contract: bool,
}

/// Gas that a reverted settlement has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurnedGas {
    /// Units of gas.
    pub gas: u64,
    /// What these cost, in the smallest unit of the network's own money.
    pub wei: u128,
}

/// Whom burned gas counts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Burner {
    pub(super) payer: String,
    /// The builder, as shares name them; `None` where that is not known any more.
    pub(super) builder: Option<String>,
}

impl From<&Running> for Burner {
    fn from(running: &Running) -> Self {
        Self { payer: running.payer.clone(), builder: Some(running.builder.clone()) }
    }
}

/// Why a run whose settlement may burn gas does not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GasRefusal {
    /// Of the payer, or of the builder.
    Slowed(Slowed),
    /// All have burned too much.
    Spent { wait: Duration },
}

#[derive(Debug, Clone, Copy, Default)]
struct Burned {
    gas: Recent,
    reverts: Recent,
    /// What runs under way may use.
    held: u64,
}

#[derive(Debug, Default)]
struct State {
    payers: HashMap<String, Burned>,
    builders: HashMap<String, Burned>,
    all: Burned,
    /// What was burned since the start, as money.
    wei: u128,
}

/// The limits on burned gas, and what counts against them.
#[derive(Debug)]
pub(super) struct GasMeter {
    limits: GasLimits,
    begun: Instant,
    state: Mutex<State>,
}

/// Gas that a run under way may burn. Dropped, it no longer counts.
#[derive(Debug)]
pub(super) struct GasHold {
    meter: Arc<GasMeter>,
    burner: Burner,
    gas: u64,
}

impl GasMeter {
    pub(super) fn new(limits: GasLimits) -> Arc<Self> {
        Arc::new(Self { limits, begun: Instant::now(), state: Mutex::default() })
    }

    /// Lets a run begin whose settlement needs this gas, and counts that until the hold is dropped.
    pub(super) fn hold(self: &Arc<Self>, burner: Burner, tried: TriedGas) -> Result<GasHold, GasRefusal> {
        let (mut state, now) = (self.state(), self.now());
        let Burner { payer, builder } = &burner;
        let of = |burned: Option<&Burned>| burned.copied().unwrap_or_default();
        let (of_payer, of_builder) = (of(state.payers.get(payer)), of(builder.as_ref().and_then(|id| state.builders.get(id))));
        // What a key has signed fails only where its money has gone meanwhile, and early.
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
        // Contracts leave half to keys, of each builder's as of all: they can burn on purpose, and would close its tools to everybody.
        let most_for = |most: NonZeroU64| if tried.by_contract { most.get().div_ceil(2) } else { most.get() };
        if let Some((most, wait)) = self.limits.of_builder.map(most_for).and_then(|most| of_builder.beyond(most, gas, now)) {
            return slowed(Bound::OwnerGas, most, wait);
        }
        let most_of_all = self.limits.of_all.map(|most| if tried.by_contract { most.get() / 2 } else { most.get() });
        if let Some((_, wait)) = most_of_all.and_then(|most| state.all.beyond(most, gas, now)) {
            return Err(GasRefusal::Spent { wait });
        }
        state.change(&burner, now, |burned| burned.held = burned.held.saturating_add(gas));
        drop(state);
        Ok(GasHold { meter: Arc::clone(self), burner, gas })
    }

    /// Counts what a reverted settlement has burned.
    pub(super) fn burned(&self, burner: &Burner, burned: BurnedGas) {
        BURNED_GAS.add(burned.gas);
        let (mut state, now) = (self.state(), self.now());
        state.wei = state.wei.saturating_add(burned.wei);
        state.change(burner, now, |of| {
            of.gas.add(burned.gas, now);
            of.reverts.add(1, now);
        });
    }

    /// Takes back what counts against a payer and a builder for a settlement that did not pay, because another transaction had moved the
    /// money already. The gas is gone, so it still counts in all.
    pub(super) fn excuse(&self, burner: &Burner, burned: BurnedGas) {
        let (mut state, now) = (self.state(), self.now());
        let State { payers, builders, .. } = &mut *state;
        let builder = burner.builder.as_ref().and_then(|id| builders.get_mut(id));
        for of in payers.get_mut(&burner.payer).into_iter().chain(builder) {
            of.gas.take_back(burned.gas, now);
            of.reverts.take_back(1, now);
        }
    }

    /// What was burned in the last hour.
    pub(super) fn last_hour(&self) -> u64 {
        self.state().all.gas.total(self.now())
    }

    /// Whether more than half was burned of what all may burn.
    pub(super) fn is_high(&self) -> bool {
        self.limits.of_all.is_some_and(|most| self.last_hour() > most.get() / 2)
    }

    /// For operators.
    pub(super) fn status(&self) -> Value {
        let (state, now) = (self.state(), self.now());
        json!({
            "burnedLastHour": state.all.gas.total(now),
            "revertedLastHour": state.all.reverts.total(now),
            "limitPerHour": self.limits.of_all,
            "burnedWei": state.wei.to_string(),
        })
    }

    /// Reverted settlements that count against a payer.
    #[cfg(test)]
    pub(super) fn reverts_of(&self, payer: &str) -> u64 {
        self.state().payers.get(payer).map_or(0, |burned| burned.reverts.total(self.now()))
    }

    /// Forgets who has burned nothing for an hour.
    pub(super) fn forget_quiet(&self) {
        let (mut state, now) = (self.state(), self.now());
        state.payers.retain(|_, burned| burned.counts(now));
        state.builders.retain(|_, burned| burned.counts(now));
    }

    fn now(&self) -> Moment {
        Moment::new(self.begun.elapsed(), WINDOW)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes what counts for a payer, for a builder, and for all.
    fn change(&mut self, burner: &Burner, now: Moment, change: impl Fn(&mut Burned)) {
        change(&mut self.all);
        change(entry(&mut self.payers, &burner.payer, now));
        if let Some(builder) = &burner.builder {
            change(entry(&mut self.builders, builder, now));
        }
    }
}

/// The entry of a key. Beyond [`MAX_KEYS`], those that burn nothing are forgotten, then the one that has burned least.
fn entry<'a>(of: &'a mut HashMap<String, Burned>, key: &str, now: Moment) -> &'a mut Burned {
    if of.len() >= MAX_KEYS && !of.contains_key(key) {
        of.retain(|_, burned| burned.counts(now));
        let least = of.iter().min_by_key(|(_, burned)| (burned.held, burned.gas.total(now))).map(|(key, _)| key.clone());
        if let Some(least) = least.filter(|_| of.len() >= MAX_KEYS) {
            of.remove(&least);
        }
    }
    of.entry(key.to_owned()).or_default()
}

impl Burned {
    /// The limit, and how long it stands in the way, of a run that may burn so much more.
    fn beyond(&self, most: u64, gas: u64, now: Moment) -> Option<(u64, Duration)> {
        let burned = self.gas.total(now);
        if burned >= most {
            return Some((most, self.gas.wait(now).unwrap_or(SOON)));
        }
        let needed = burned.saturating_add(self.held).saturating_add(gas);
        // One run alone may always begin: its gas is bounded besides.
        (gas > 0 && self.held > 0 && needed > most).then_some((most, SOON))
    }

    fn counts(&self, now: Moment) -> bool {
        self.held > 0 || self.gas.total(now) > 0 || self.reverts.total(now) > 0
    }
}

impl Drop for GasHold {
    fn drop(&mut self) {
        let now = self.meter.now();
        self.meter.state().change(&self.burner, now, |burned| burned.held = burned.held.saturating_sub(self.gas));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const CONTRACT: TriedGas = TriedGas { limit: 300, by_contract: true };
    const KEY: TriedGas = TriedGas { limit: 300, by_contract: false };

    fn meter(of_payer: u64, of_builder: u64, of_all: u64, reverts: u32) -> Arc<GasMeter> {
        let some = NonZeroU64::new;
        let reverts = NonZeroU32::new(reverts);
        GasMeter::new(GasLimits { of_payer: some(of_payer), of_builder: some(of_builder), of_all: some(of_all), reverts })
    }

    fn burner(payer: &str, builder: &str) -> Burner {
        Burner { payer: payer.to_owned(), builder: Some(builder.to_owned()) }
    }

    fn burn(meter: &Arc<GasMeter>, who: &Burner, gas: u64) {
        meter.burned(who, BurnedGas { gas, wei: u128::from(gas) * 2 });
    }

    fn bound(refused: Result<GasHold, GasRefusal>) -> Option<Bound> {
        match refused {
            Ok(_) => None,
            Err(GasRefusal::Slowed(slowed)) => Some(slowed.bound),
            Err(GasRefusal::Spent { .. }) => panic!("of all"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn gas_that_a_payer_burns_is_limited_for_an_hour() {
        let (meter, payer) = (meter(1_000, 0, 0, 0), burner("a", "b"));
        burn(&meter, &payer, 999);
        assert_eq!(bound(meter.hold(payer.clone(), CONTRACT)), None);
        burn(&meter, &payer, 1);
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(Bound::PayerGas));
        assert_eq!(bound(meter.hold(burner("c", "b"), CONTRACT)), None);
        advance(WINDOW + WINDOW / 12).await;
        assert_eq!(bound(meter.hold(payer, KEY)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn gas_of_a_contracts_runs_under_way_counts() {
        let (meter, payer) = (meter(1_000, 0, 0, 0), burner("a", "b"));
        let holds: Vec<_> = (0..3).map(|_| meter.hold(payer.clone(), CONTRACT).unwrap()).collect();
        assert_eq!(bound(meter.hold(payer.clone(), CONTRACT)), Some(Bound::PayerGas));
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), None, "a key's run burns little");
        drop(holds);
        assert_eq!(bound(meter.hold(payer.clone(), CONTRACT)), None);
        let large = TriedGas { limit: 5_000, by_contract: true };
        assert_eq!(bound(meter.hold(payer, large)), None, "one alone may always run");
    }

    #[tokio::test(start_paused = true)]
    async fn tools_of_one_builder_burn_so_much_whoever_pays() {
        let meter = meter(0, 1_000, 0, 0);
        for payer in ["a", "c", "d"] {
            burn(&meter, &burner(payer, "b"), 400);
        }
        assert_eq!(bound(meter.hold(burner("e", "b"), KEY)), Some(Bound::OwnerGas));
        assert_eq!(bound(meter.hold(burner("e", "other"), KEY)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn contracts_leave_half_of_what_all_may_burn_to_keys() {
        let meter = meter(0, 0, 1_000, 0);
        burn(&meter, &burner("a", "b"), 500);
        assert!(matches!(meter.hold(burner("c", "d"), CONTRACT), Err(GasRefusal::Spent { .. })));
        assert!(meter.hold(burner("c", "d"), KEY).is_ok() && !meter.is_high());
        burn(&meter, &burner("a", "b"), 500);
        assert!(matches!(meter.hold(burner("c", "d"), KEY), Err(GasRefusal::Spent { .. })) && meter.is_high());
        let told = json!({ "burnedLastHour": 1_000, "revertedLastHour": 2, "limitPerHour": 1_000, "burnedWei": "2000" });
        assert_eq!(meter.status(), told);
    }

    #[tokio::test(start_paused = true)]
    async fn payer_is_excused_for_a_settlement_that_another_transaction_made_before() {
        let (meter, payer) = (meter(1_000, 1_000, 10_000, 2), burner("a", "b"));
        burn(&meter, &payer, 400);
        burn(&meter, &payer, 600);
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(Bound::Reverts));
        meter.excuse(&payer, BurnedGas { gas: 600, wei: 1_200 });
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), None, "neither the payer nor the builder is slowed");
        assert_eq!(meter.last_hour(), 1_000, "the gas is gone, and counts in all");
        burn(&meter, &payer, 1);
        assert_eq!(bound(meter.hold(payer, KEY)), Some(Bound::Reverts), "the first one still counts");
    }

    #[tokio::test(start_paused = true)]
    async fn payer_whose_settlements_are_reverted_waits() {
        let (meter, payer) = (meter(0, 0, 0, 2), burner("a", "b"));
        burn(&meter, &payer, 1);
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), None);
        burn(&meter, &payer, 1);
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(Bound::Reverts));
        advance(WINDOW + WINDOW / 12).await;
        meter.forget_quiet();
        assert!(meter.state().payers.is_empty() && meter.state().builders.is_empty());
        assert_eq!(bound(meter.hold(payer, KEY)), None);
    }
}
