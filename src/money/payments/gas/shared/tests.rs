//! Counts at other hosts and after restarts.

use std::num::{NonZeroU32, NonZeroU64};

use tollhouse_store::memory::MemoryStore;

use super::*;
use crate::{
    payments::gas::{GasCaller, GasLimits, GasRefusal, SettlementGas, cover::GasCover},
    x402::offer::TriedGas,
};

const KEY: TriedGas = TriedGas { limit: 300, by_contract: false };

fn meter() -> Arc<GasMeter> {
    let some = NonZeroU64::new;
    let limits =
        GasLimits { of_payer: some(1_000), of_address: None, of_builder: some(10_000), of_all: some(10_000), reverts: NonZeroU32::new(3) };
    GasMeter::new(limits)
}

fn burner(payer: &str) -> Burner {
    Burner { builder: Some("b".to_owned()), ..Burner::of_payer(payer.to_owned()) }
}

fn customer(payer: &str) -> Burner {
    Burner { standing: Standing::Customer, ..burner(payer) }
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
    let caller = GasCaller { burner: customer(payer), cover: GasCover::Full };
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
        for ((_, reported), (_, received)) in one.tallies().into_iter().zip(other.tallies()) {
            reported.take_used(100).iter().for_each(|(name, used)| received.used_elsewhere(name, *used));
        }
    };
    burn(&one, "before", 1_000);
    exchange();
    assert_eq!(other.last_hour(), 0, "gas that was burned before the first exchange is in the store");
    burn(&one, "a", 1_000);
    for _ in 0..3 {
        burn(&one, "c", 100);
    }
    exchange();
    exchange();
    assert_eq!(other.last_hour(), 1_300);
    assert_eq!((admits(&other, "a"), admits(&other, "c"), admits(&other, "d")), (false, false, true));
    assert_eq!(other.status()["revertedLastHour"], 4);
    one.forgive(counted(&one, "d", 900));
    exchange();
    assert!(admits(&other, "d") && other.last_hour() == 2_200, "the gas was spent, so it counts in total");
    underpay(&one, "e", 70);
    exchange();
    assert_eq!(other.status()["underpaidLastHour"], 70);
    assert_eq!(other.last_hour(), 2_200);
}

#[tokio::test(start_paused = true)]
async fn burned_gas_outlasts_a_restart_for_an_hour() {
    let (store, started) = (MemoryStore::new(), Timestamp(1_800_000_000_000));
    let later = |minutes: u64| started.plus_millis(minutes * 60_000);
    let (one, other) = (meter(), meter());
    burn(&one, "a", 1_000);
    one.write(&store, started).await.unwrap();
    burn(&other, "a", 1);
    let late = counted(&other, "c", 500);
    underpay(&other, "a", 70);
    other.write(&store, later(1)).await.unwrap();
    // The gas is excused in a later interval than the one in which it was counted.
    other.forgive(late);
    other.write(&store, later(8)).await.unwrap();
    for (minutes, all, of_payer) in [(1, 1_501, false), (59, 1_501, false), (80, 0, true)] {
        let restarted = meter();
        restarted.read(&store, later(minutes)).await.unwrap();
        let (underpaid, of_builder) = if all > 0 { (70_u64, 1_001) } else { (0, 0) };
        assert_eq!(restarted.status()["underpaidLastHour"], underpaid, "{minutes}");
        assert_eq!(restarted.status()["burnedWei"], if all > 0 { "4" } else { "0" }, "{minutes}");
        assert_eq!(restarted.burned_by(&burner("c")), [0, 0, of_builder], "{minutes}");
        assert_eq!((restarted.last_hour(), admits(&restarted, "a"), admits(&restarted, "c")), (all, of_payer, true), "{minutes}");
    }
    one.write(&store, later(300)).await.unwrap();
    let remaining = BURNED.rows().sound(&store, &mut BURNED.rows().all(), PAGE).await.unwrap();
    assert!(remaining.is_none_or(|rows| rows.is_empty()), "expired counts are removed");
}

/// Another host and a restart must count what customers burned against customers, and the rest against new payers.
#[tokio::test(start_paused = true)]
async fn gas_of_customers_and_of_new_payers_counts_apart_everywhere() {
    let (store, started) = (MemoryStore::new(), Timestamp(1_800_000_000_000));
    let (one, reported, restarted) = (meter(), meter(), meter());
    one.tallies().into_iter().for_each(|(_, tally)| drop(tally.take_used(1)));
    burn(&one, "a", 6_000);
    let burned = one.burned(&customer("c"), BurnedGas { gas: 900, wei: 1 });
    one.forgive(one.burned(&customer("c"), BurnedGas { gas: 70, wei: 1 }));
    let regular = Burner { standing: Standing::Regular, ..burner("c") };
    let (ordinary, excess) = (BurnedGas { gas: 50, wei: 1 }, BurnedGas { gas: 0, wei: 0 });
    one.settled(&regular, SettlementGas { ordinary, excess }, true);
    for ((_, from), (_, to)) in one.tallies().into_iter().zip(reported.tallies()) {
        from.take_used(100).iter().for_each(|(name, used)| to.used_elsewhere(name, *used));
    }
    one.write(&store, started).await.unwrap();
    restarted.read(&store, started).await.unwrap();
    for (name, meter) in [("here", &one), ("told", &reported), ("restarted", &restarted)] {
        let (state, now) = (meter.state.lock(), meter.now());
        let gas = [&state.newcomers, &state.customers].map(|pool| (pool.builders["b"].gas.total(now), pool.all.gas.total(now)));
        assert_eq!(gas, [(6_000, 6_000), (900, 970)], "{name}");
        let underpaid = [&state.newcomers, &state.customers].map(|pool| pool.all.underpaid.total(now));
        assert_eq!(underpaid, [0, 50], "{name}");
        drop(state);
        assert!(admits(meter, "d"), "{name}: new payers have burned more than their part");
    }
    // The payment's parties are remembered with the pool.
    let mut again = Burner::of_payer("c".to_owned());
    names(&burned.burner, true).for_each(|name| again.add(&name));
    assert_eq!(again, burned.burner);
}

#[tokio::test(start_paused = true)]
async fn keys_that_wait_are_bounded() {
    let meter = meter();
    meter.tallies()[0].1.take_used(1);
    for n in 0..MAX_KEYS + 100 {
        burn(&meter, &format!("payer-{n}"), 1);
    }
    let pending = &mut meter.state.lock().pending;
    let gas = pending.unsent[Count::Gas as usize].take(usize::MAX);
    assert!(gas.len() <= MAX_KEYS + 1 && pending.unwritten.len() <= 2 * (MAX_KEYS + 1));
    assert!(gas.contains(&(ALL.to_owned(), MAX_KEYS as u64 + 100)));
}
