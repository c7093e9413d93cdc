//! Settlements that bring less than their gas costs.

use super::*;

fn underpaying(caller: GasCaller) -> GasCaller {
    GasCaller { cover: GasCover::TooLittle, ..caller }
}

/// Regression test: a payer could make any number of settlements of 69,000 gas for a millionth of a dollar each.
#[tokio::test(start_paused = true)]
async fn gas_of_underpaid_settlements_limits_only_underpaid_runs() {
    let some = NonZeroU64::new;
    let only = |of_payer, of_address, of_builder, of_all| {
        let (of_payer, of_address) = (some(of_payer), some(of_address));
        GasMeter::new(GasLimits { of_payer, of_address, of_builder: some(of_builder), of_all: some(of_all), reverts: None })
    };
    let (first, known) = (burner_at("a", 1), standing(burner_at("a", 1), Standing::Regular));
    for (meter, is_for_customers) in
        [(only(1_000, 0, 0, 0), true), (only(0, 1_000, 0, 0), false), (only(0, 0, 1_000, 0), false), (only(0, 0, 0, 1_000), false)]
    {
        underpay(&meter, &first, 400);
        assert_eq!(meter.status()["underpaidLastHour"], 400);
        assert_eq!(bound(meter.hold(underpaying(first.clone()), KEY)), None);
        underpay(&meter, &first, 600);
        assert_eq!(bound(meter.hold(underpaying(first.clone()), KEY)), Some(RunLimit::Underpaid));
        assert_eq!(bound(meter.hold(underpaying(known.clone()), KEY)).is_some(), is_for_customers);
        for paid in [first.clone(), known.clone()] {
            assert_eq!(bound(meter.hold(paid.clone(), KEY)), None, "a payment that covers its gas is served");
            assert_eq!(bound(meter.hold(paid, TriedGas { limit: 30, by_contract: true })), None);
        }
        assert_eq!((meter.last_hour(), meter.reverts_of("a")), (0, 0));
        advance(WINDOW + WINDOW / 12).await;
        assert_eq!(bound(meter.hold(underpaying(first.clone()), KEY)), None);
    }
}

#[tokio::test(start_paused = true)]
async fn underpaid_runs_in_flight_count_and_leave_half_to_customers() {
    let (meter, fresh) = (meter(0, 0, 1_000, 0), underpaying(burner_at("a", 1)));
    let first = meter.hold(fresh.clone(), KEY).unwrap();
    assert_eq!(bound(meter.hold(fresh.clone(), KEY)), Some(RunLimit::Underpaid), "half is for customers");
    assert!(meter.depends_on_standing(&burner("c", "d").burner));
    let known = underpaying(customer("c", "d"));
    let holds: Vec<_> = (0..2).map(|_| meter.hold(known.clone(), KEY).unwrap()).collect();
    assert_eq!(bound(meter.hold(known.clone(), KEY)), Some(RunLimit::Underpaid));
    assert_eq!(bound(meter.hold(burner("e", "f"), KEY)), None);
    drop((first, holds));
    assert_eq!(bound(meter.hold(fresh, KEY)), None);
    meter.prune_idle();
    assert!(meter.state.lock().payers.is_empty() && meter.state.lock().addresses.is_empty());
}

#[tokio::test(start_paused = true)]
async fn burned_gas_leaves_less_to_underpaid_settlements() {
    let meter = meter(0, 0, 1_000, 0);
    burn(&meter, &customer("a", "b"), 300);
    underpay(&meter, &customer("a", "b"), 700);
    let known = customer("c", "d");
    assert_eq!(bound(meter.hold(underpaying(known.clone()), KEY)), Some(RunLimit::Underpaid));
    assert_eq!(bound(meter.hold(known, KEY)), None);
    assert!(!meter.is_high() && meter.is_underpaid_high());
}

#[tokio::test(start_paused = true)]
async fn charge_that_the_run_sets_is_limited_once_its_payer_has_underpaid() {
    let (meter, metered) = (meter(1_000, 0, 0, 0), |payer| GasCaller { cover: GasCover::Unknown, ..burner(payer, "b") });
    assert_eq!(bound(meter.hold(metered("a"), KEY)), None);
    underpay(&meter, &burner("a", "b"), 1_000);
    assert_eq!(bound(meter.hold(metered("a"), KEY)), Some(RunLimit::Underpaid));
    assert_eq!(bound(meter.hold(metered("c"), KEY)), None);
    assert_eq!(bound(meter.hold(burner("a", "b"), KEY)), None, "a price that covers the gas");
}

/// Regression test: after they had paid a twentieth of a cent, two strangers counted as customers of a cheap tool. Together
/// they used up its gas for an hour, and its regular customers were rejected.
#[tokio::test(start_paused = true)]
async fn customers_of_less_than_an_hour_leave_half_to_regular_ones() {
    for meter in [meter(0, 1_000, 0, 0), meter(0, 0, 1_000, 0)] {
        let stranger = |payer| underpaying(standing(burner(payer, "b"), Standing::Customer));
        underpay(&meter, &stranger("a"), 300);
        underpay(&meter, &stranger("c"), 300);
        assert_eq!(bound(meter.hold(stranger("a"), KEY)), Some(RunLimit::Underpaid));
        assert_eq!(bound(meter.hold(underpaying(burner("new", "b")), KEY)), Some(RunLimit::Underpaid));
        let known = underpaying(customer("known", "b"));
        assert_eq!(bound(meter.hold(known.clone(), KEY)), None);
        underpay(&meter, &known, 500);
        assert_eq!(bound(meter.hold(known, KEY)), Some(RunLimit::Underpaid));
        assert_eq!(bound(meter.hold(customer("known", "b"), KEY)), None, "a payment that covers its gas is served");
    }
}
