//! The limits on burned gas, and the parties that they apply to.

mod underpaid;

use std::num::NonZeroU64;

use tokio::time::advance;

use super::*;
use crate::{
    Admission, PrepareError,
    payments::{Payments, run_limits::RunLimit},
    x402::offer::TriedGas,
};

const CONTRACT: TriedGas = TriedGas { limit: 300, by_contract: true };
const KEY: TriedGas = TriedGas { limit: 300, by_contract: false };
/// A transfer on a real chain. Its run holds 65,000.
const TRANSFER: TriedGas = TriedGas { limit: 100_000, by_contract: false };

impl GasMeter {
    /// Returns the number of reverted settlements that count against a payer.
    pub(in crate::payments) fn reverts_of(&self, payer: &str) -> u64 {
        self.state.lock().payers.get(payer).map_or(0, |burned| burned.reverts.total(self.now()))
    }

    /// Returns the gas burned in the last hour by a payer, from an address, and for the tools of a builder.
    pub(in crate::payments) fn burned_by(&self, burner: &Burner) -> [u64; 3] {
        let (state, now) = (self.state.lock(), self.now());
        let address = burner.from.and_then(|from| state.addresses.get(&from.to_string()));
        let of_builder = |pool: &Pool| burner.builder.as_ref().and_then(|id| pool.builders.get(id)).copied();
        let builder = [of_builder(&state.newcomers), of_builder(&state.customers)];
        let gas = |of: Option<Burned>| of.map_or(0, |of| of.gas.total(now));
        let payer = state.payers.get(&burner.payer).copied();
        [gas(payer), gas(address.copied()), builder.into_iter().map(gas).sum()]
    }
}

impl Payments {
    pub(crate) fn held_balances(&self) -> usize {
        self.balance_holds.len()
    }

    /// Returns the number of reverted settlements that count against a payer.
    pub(crate) fn reverts_of(&self, payer: &str) -> u64 {
        self.gas.reverts_of(payer)
    }

    /// Returns the gas burned in the last hour by a payer, from an address, and for the tools of a builder.
    pub(crate) fn gas_burned_by(&self, payer: &str, from: IpAddr, builder: &str) -> [u64; 3] {
        let builder = Some(builder.to_owned());
        self.gas.burned_by(&Burner { from: Some(from), builder, ..Burner::of_payer(payer.to_owned()) })
    }

    /// Counts gas as used by an underpaid settlement of an unspecified payer.
    pub(crate) fn use_underpaid_gas(&self, gas: u64) {
        let (ordinary, excess) = (BurnedGas { gas, wei: 0 }, BurnedGas { gas: 0, wei: 0 });
        self.gas.settled(&Burner::of_payer("somebody".to_owned()), SettlementGas { ordinary, excess }, true);
    }

    pub(crate) fn burn_gas(&self, gas: u64) {
        _ = self.gas.burned(&Burner::of_payer("somebody".to_owned()), BurnedGas { gas, wei: 0 });
    }
}

impl Admission {
    /// Ends the call without telling the store, as if its task had died.
    pub(crate) fn vanish(mut self) {
        self.reserved = false;
    }
}

fn meter(of_payer: u64, of_builder: u64, of_all: u64, reverts: u32) -> Arc<GasMeter> {
    let some = NonZeroU64::new;
    let reverts = NonZeroU32::new(reverts);
    let of_address = None;
    GasMeter::new(GasLimits { of_payer: some(of_payer), of_address, of_builder: some(of_builder), of_all: some(of_all), reverts })
}

/// A payer who has not paid yet.
fn burner(payer: &str, builder: &str) -> GasCaller {
    let burner = Burner { builder: Some(builder.to_owned()), ..Burner::of_payer(payer.to_owned()) };
    GasCaller { burner, cover: GasCover::Full }
}

/// The same, with a caller's address.
fn burner_at(payer: &str, address: u8) -> GasCaller {
    let caller = burner(payer, payer);
    GasCaller { burner: Burner { from: Some([192, 0, 2, address].into()), ..caller.burner }, ..caller }
}

fn standing(caller: GasCaller, standing: Standing) -> GasCaller {
    GasCaller { burner: Burner { standing, ..caller.burner }, ..caller }
}

/// A payer who paid more than an hour ago.
fn customer(payer: &str, builder: &str) -> GasCaller {
    standing(burner(payer, builder), Standing::Regular)
}

fn counted(meter: &Arc<GasMeter>, who: &GasCaller, gas: u64) -> CountedGas {
    meter.burned(&who.burner, BurnedGas { gas, wei: u128::from(gas) * 2 })
}

fn burn(meter: &Arc<GasMeter>, who: &GasCaller, gas: u64) {
    _ = counted(meter, who, gas);
}

/// Burns gas that is excused at once.
fn burn_and_excuse(meter: &Arc<GasMeter>, who: &GasCaller, gas: u64) {
    meter.forgive(counted(meter, who, gas));
}

/// Settles a payment that does not cover its gas.
fn underpay(meter: &Arc<GasMeter>, who: &GasCaller, gas: u64) {
    let (ordinary, excess) = (BurnedGas { gas, wei: u128::from(gas) * 2 }, BurnedGas { gas: 0, wei: 0 });
    meter.settled(&who.burner, SettlementGas { ordinary, excess }, true);
}

fn bound(refused: Result<GasHold, GasRefusal>) -> Option<RunLimit> {
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
    assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(RunLimit::PayerGas));
    assert_eq!(bound(meter.hold(burner("c", "b"), CONTRACT)), None);
    advance(WINDOW + WINDOW / 12).await;
    assert_eq!(bound(meter.hold(payer, KEY)), None);
}

#[tokio::test(start_paused = true)]
async fn gas_of_a_contracts_runs_in_flight_counts() {
    let (meter, payer) = (meter(1_000, 0, 0, 0), burner("a", "b"));
    let holds: Vec<_> = (0..3).map(|_| meter.hold(payer.clone(), CONTRACT).unwrap()).collect();
    assert_eq!(bound(meter.hold(payer.clone(), CONTRACT)), Some(RunLimit::PayerGas));
    assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(RunLimit::PayerGas), "a key's run may burn gas too");
    assert_eq!(bound(meter.hold(customer("a", "b"), KEY)), None, "it has paid for as many runs");
    drop(holds);
    assert_eq!(bound(meter.hold(payer.clone(), CONTRACT)), None);
    let large = TriedGas { limit: 5_000, by_contract: true };
    assert_eq!(bound(meter.hold(payer, large)), None, "one alone may always run");
}

#[tokio::test(start_paused = true)]
async fn gas_limit_of_a_builder_applies_to_all_payers_together() {
    let meter = meter(0, 1_000, 0, 0);
    for payer in ["a", "c", "d"] {
        burn(&meter, &customer(payer, "b"), 400);
    }
    assert_eq!(bound(meter.hold(burner("e", "b"), KEY)), Some(RunLimit::OwnerGas));
    assert_eq!(bound(meter.hold(customer("e", "b"), KEY)), Some(RunLimit::OwnerGas));
    assert_eq!(bound(meter.hold(burner("e", "other"), KEY)), None);
}

/// Begins the settlements of these runs, and returns the runs whose settlements are not sent within a second.
async fn waiting(holds: &mut [GasHold]) -> Vec<usize> {
    let mut waiting = vec![];
    for (n, hold) in holds.iter_mut().enumerate() {
        if tokio::time::timeout(Duration::from_secs(1), hold.begin_settlement()).await.is_err() {
            waiting.push(n);
        }
    }
    waiting
}

/// Regression test: 30 runs of one payer at once ended in 30 reverts, though 5 are allowed.
#[tokio::test(start_paused = true)]
async fn settlements_of_a_payer_wait_so_that_no_more_are_reverted_than_may_be() {
    let (meter, payer) = (GasMeter::new(GasLimits::default()), burner("a", "b"));
    let mut holds: Vec<_> = (0..30).map(|_| meter.hold(payer.clone(), TRANSFER).unwrap()).collect();
    assert_eq!(waiting(&mut holds).await, (5..30).collect::<Vec<_>>());
    // Another payer does not wait.
    assert!(meter.hold(burner("c", "b"), TRANSFER).unwrap().begin_settlement().await.is_ok());
    // Two are paid, so two more are sent.
    drop(holds.drain(..2));
    assert_eq!(waiting(&mut holds).await, (5..28).collect::<Vec<_>>());
    for hold in holds.drain(..5) {
        burn(&meter, &payer, 60_000);
        drop(hold);
    }
    for hold in &mut holds {
        assert!(matches!(hold.begin_settlement().await, Err(PrepareError::Refused { .. })));
    }
    assert_eq!((meter.reverts_of("a"), bound(meter.hold(payer, TRANSFER))), (5, Some(RunLimit::Reverts)));
}

#[tokio::test(start_paused = true)]
async fn settlement_that_waits_is_sent_when_another_ends() {
    let (meter, payer) = (meter(0, 0, 0, 1), burner("a", "b"));
    let mut first = meter.hold(payer.clone(), TRANSFER).unwrap();
    first.begin_settlement().await.unwrap();
    let mut second = meter.hold(payer.clone(), TRANSFER).unwrap();
    let sent = tokio::spawn(async move { second.begin_settlement().await });
    advance(Duration::from_secs(10)).await;
    assert!(!sent.is_finished());
    drop(first);
    sent.await.unwrap().unwrap();
    // If none ends in time, it is refused.
    let mut first = meter.hold(payer.clone(), TRANSFER).unwrap();
    first.begin_settlement().await.unwrap();
    assert!(meter.hold(payer, TRANSFER).unwrap().begin_settlement().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn lone_payer_with_concurrent_runs_is_served() {
    let meter = GasMeter::new(GasLimits::default());
    let first: Vec<_> = (0..30).map(|_| meter.hold(burner_at("a", 1), TRANSFER).unwrap()).collect();
    let mut more: Vec<_> = (0..170).map(|_| meter.hold(standing(burner_at("a", 1), Standing::Customer), TRANSFER).unwrap()).collect();
    assert_eq!(waiting(&mut more).await, [0; 0], "earlier paid runs cover them");
    drop((first, more));
    meter.prune_idle();
    let state = meter.state.lock();
    assert!(state.payers.is_empty() && state.addresses.is_empty());
    assert!(state.newcomers.builders.is_empty() && state.customers.builders.is_empty());
}

/// Regression test: 307 settlements of new payers waited for one block. They burned more than the builder's limit, and
/// closed its tools to customers.
#[tokio::test(start_paused = true)]
async fn burst_of_new_payers_stays_in_their_part_and_customers_are_served() {
    let meter = GasMeter::new(GasLimits::default());
    let fresh = (0..500).map(|n| burner(&format!("payer-{n}"), "b"));
    let started: Vec<_> = fresh.filter_map(|payer| Some((meter.hold(payer.clone(), TRANSFER).ok()?, payer))).collect();
    assert_eq!(started.len(), 7_500_000 / 65_000);
    assert_eq!(bound(meter.hold(burner("new", "b"), TRANSFER)), Some(RunLimit::NewPayers));
    assert!(meter.depends_on_standing(&burner("new", "b").burner), "it must be known who is a customer");
    let of_customers = || (0..100).map(|_| meter.hold(customer("known", "b"), TRANSFER).unwrap()).collect::<Vec<_>>();
    drop(of_customers());
    for (hold, payer) in started {
        burn(&meter, &payer, 65_000);
        drop(hold);
    }
    assert!(meter.last_hour() <= 7_500_000);
    drop(of_customers());
    // Not even more gas than that counts against customers.
    burn(&meter, &burner("contract", "b"), 100_000_000);
    drop(of_customers());
    assert_eq!(bound(meter.hold(burner("new", "b"), TRANSFER)), Some(RunLimit::NewPayers));
}

fn is_spent(refused: Result<GasHold, GasRefusal>) -> bool {
    matches!(refused, Err(GasRefusal::Spent { .. }))
}

#[tokio::test(start_paused = true)]
async fn contracts_leave_gas_to_keys_and_new_payers_leave_half_to_customers() {
    let meter = meter(0, 0, 1_000, 0);
    burn(&meter, &burner("a", "b"), 250);
    assert!(is_spent(meter.hold(burner("c", "d"), CONTRACT)));
    assert_eq!(bound(meter.hold(customer("c", "d"), CONTRACT)), None);
    assert_eq!(bound(meter.hold(burner("c", "d"), KEY)), None);
    burn(&meter, &burner("a", "b"), 250);
    assert_eq!(bound(meter.hold(burner("c", "d"), KEY)), Some(RunLimit::NewPayers), "429, since others are served");
    for caller in [CONTRACT, KEY] {
        assert_eq!(bound(meter.hold(customer("c", "d"), caller)), None);
    }
    assert!(!meter.is_high());
    burn(&meter, &customer("c", "d"), 250);
    assert!(is_spent(meter.hold(customer("c", "d"), CONTRACT)) && meter.is_high());
    assert_eq!(bound(meter.hold(customer("c", "d"), KEY)), None);
    burn(&meter, &customer("c", "d"), 250);
    assert!(is_spent(meter.hold(customer("c", "d"), KEY)) && is_spent(meter.hold(burner("c", "d"), CONTRACT)));
    underpay(&meter, &burner("a", "b"), 25);
    underpay(&meter, &customer("a", "b"), 25);
    let counts = json!({ "burnedLastHour": 1_000, "underpaidLastHour": 50, "revertedLastHour": 4 });
    let status = meter.status();
    counts.as_object().unwrap().iter().for_each(|(name, count)| assert_eq!(&status[name], count, "{name}"));
    assert_eq!((&status["limitPerHour"], &status["burnedWei"]), (&json!(1_000), &json!("2100")));
}

#[tokio::test(start_paused = true)]
async fn new_payers_close_no_builders_tools_to_customers() {
    let meter = meter(0, 1_000, 0, 0);
    let fresh = (0..).map(|n| burner(&format!("payer-{n}"), "b"));
    let mut burned = 0;
    for payer in fresh.take(100) {
        match meter.hold(payer.clone(), KEY) {
            Ok(_) => burn(&meter, &payer, 50),
            Err(_) => break,
        }
        burned += 50;
    }
    assert_eq!(burned, 500);
    assert_eq!(bound(meter.hold(burner("new", "b"), KEY)), Some(RunLimit::NewPayers));
    assert_eq!(bound(meter.hold(customer("known", "b"), KEY)), None);
    assert_eq!(bound(meter.hold(burner("new", "other"), KEY)), None);
    burn(&meter, &customer("known", "b"), 500);
    assert_eq!(bound(meter.hold(customer("known", "b"), KEY)), Some(RunLimit::OwnerGas));
}

#[tokio::test(start_paused = true)]
async fn gas_that_payers_burn_from_one_address_is_limited() {
    let limits = GasLimits { of_address: NonZeroU64::new(1_000), ..GasLimits::default() };
    let meter = GasMeter::new(limits);
    let burns: Vec<_> = (0..10).map(|n| counted(&meter, &burner_at(&format!("payer-{n}"), 1), 100)).collect();
    assert_eq!(bound(meter.hold(burner_at("new", 1), KEY)), Some(RunLimit::AddressGas));
    assert_eq!(bound(meter.hold(burner_at("new", 2), KEY)), None);
    assert_eq!(bound(meter.hold(burner("new", "b"), KEY)), None, "an unknown address has no limit");
    assert_eq!(bound(meter.hold(standing(burner_at("known", 1), Standing::Customer), KEY)), None);
    burns.into_iter().take(1).for_each(|counted| meter.forgive(counted));
    assert_eq!(bound(meter.hold(burner_at("new", 1), KEY)), None);
}

/// Regression test: excused gas was removed from the address of the payer's last call, and stayed counted for the address
/// of the settlement.
#[tokio::test(start_paused = true)]
async fn excused_gas_is_removed_from_the_address_that_it_was_counted_for() {
    let meter = meter(1_000, 1_000, 10_000, 2);
    let (first, other) = (burner_at("a", 1), burner_at("a", 2));
    let burned = counted(&meter, &first, 400);
    burn(&meter, &other, 300);
    meter.forgive(burned);
    assert_eq!(meter.burned_by(&first.burner), [300, 0, 300]);
    assert_eq!(meter.burned_by(&other.burner), [300, 300, 300]);
    assert_eq!(meter.last_hour(), 700, "the gas was spent, so it counts in total");
}

#[tokio::test(start_paused = true)]
async fn excusing_gas_of_an_hour_ago_leaves_later_gas_counted() {
    let (meter, payer) = (meter(1_000, 1_000, 10_000, 2), burner_at("a", 1));
    let burned = counted(&meter, &payer, 400);
    advance(WINDOW + WINDOW / 12).await;
    burn(&meter, &payer, 300);
    meter.forgive(burned);
    assert_eq!((meter.burned_by(&payer.burner), meter.reverts_of("a")), ([300; 3], 1));
}

#[tokio::test(start_paused = true)]
async fn payer_is_excused_if_another_transaction_settled_first() {
    let (meter, payer) = (meter(1_000, 1_000, 10_000, 2), burner("a", "b"));
    burn(&meter, &payer, 400);
    let burned = counted(&meter, &payer, 600);
    assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(RunLimit::Reverts));
    meter.forgive(burned);
    assert_eq!(bound(meter.hold(payer.clone(), KEY)), None, "neither the payer nor the builder is slowed");
    assert_eq!(meter.last_hour(), 1_000, "the gas was spent, so it counts in total");
    burn(&meter, &payer, 1);
    assert_eq!(bound(meter.hold(payer, KEY)), Some(RunLimit::Reverts), "the first one still counts");
}

#[tokio::test(start_paused = true)]
async fn gas_beyond_an_ordinary_settlement_counts_though_it_paid() {
    let (meter, payer) = (meter(1_000, 0, 0, 1), burner("a", "b"));
    let (ordinary, excess) = (BurnedGas { gas: 200_000, wei: 400_000 }, BurnedGas { gas: 1_000, wei: 2_000 });
    meter.settled(&payer.burner, SettlementGas { ordinary, excess }, false);
    assert_eq!(bound(meter.hold(payer, KEY)), Some(RunLimit::PayerGas));
    assert_eq!((meter.last_hour(), meter.reverts_of("a")), (1_000, 0));
    assert!(meter.is_clean("a"));
}

/// Regression test: a payer moved its money itself before each of its settlements. 36 reverted ones closed a host to
/// all, and counted against nobody.
#[tokio::test(start_paused = true)]
async fn no_more_settlements_of_a_payer_are_excused_than_may_be_reverted() {
    let (meter, payer) = (meter(0, 1_000, 0, 2), burner("a", "b"));
    for _ in 0..2 {
        burn_and_excuse(&meter, &payer, 400);
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), None);
    }
    for _ in 0..2 {
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), None);
        burn_and_excuse(&meter, &payer, 400);
    }
    assert_eq!(meter.reverts_of("a"), 2);
    assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(RunLimit::Reverts));
    assert_eq!(bound(meter.hold(burner("c", "b"), KEY)), Some(RunLimit::NewPayers), "it counts for the builder too");
    advance(WINDOW + WINDOW / 12).await;
    burn_and_excuse(&meter, &payer, 400);
    assert_eq!(meter.reverts_of("a"), 0, "an hour later others are excused");
    advance(WINDOW + WINDOW / 12).await;
    meter.prune_idle();
    assert!(meter.state.lock().payers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn new_payers_of_one_address_share_its_excuses() {
    let limits = GasLimits { of_address: NonZeroU64::new(1_000), reverts: NonZeroU32::new(2), ..GasLimits::default() };
    let meter = GasMeter::new(limits);
    for n in 0..5 {
        let payer = burner_at(&format!("payer-{n}"), 1);
        assert_eq!(bound(meter.hold(payer.clone(), KEY)), None, "{n}");
        burn_and_excuse(&meter, &payer, 1_000);
        assert_eq!(meter.reverts_of(&payer.burner.payer), 0, "{n}");
    }
    assert_eq!(bound(meter.hold(burner_at("new", 1), KEY)), Some(RunLimit::AddressGas), "the fifth counts for the address");
}

#[tokio::test(start_paused = true)]
async fn payer_whose_settlements_are_reverted_waits() {
    let (meter, payer) = (meter(0, 0, 0, 2), burner("a", "b"));
    burn(&meter, &payer, 1);
    assert_eq!(bound(meter.hold(payer.clone(), KEY)), None);
    burn(&meter, &payer, 1);
    assert_eq!(bound(meter.hold(payer.clone(), KEY)), Some(RunLimit::Reverts));
    advance(WINDOW + WINDOW / 12).await;
    meter.prune_idle();
    assert!(meter.state.lock().payers.is_empty() && meter.state.lock().newcomers.builders.is_empty());
    assert_eq!(bound(meter.hold(payer, KEY)), None);
}
