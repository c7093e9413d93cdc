//! Runs begin and end in every order, at times that the test sets.

mod canceled;
mod earned;
mod networks;

use std::time::Duration;

use tokio::time::advance;

use super::*;

const PRICE: MicroUsd = MicroUsd(10_000);

fn throttle(of_payer: u32, of_address: u32, of_tool: u32) -> Arc<UnpaidRunLimiter> {
    let some = NonZeroU32::new;
    let refused_of_address = None;
    UnpaidRunLimiter::new(
        FailedRuns { of_payer: some(of_payer), of_address: some(of_address), of_tool: some(of_tool), refused_of_address },
        Arc::new(AtomicU32::new(1)),
    )
}

fn running(payer: &str, tool: &str) -> RunParties {
    RunParties {
        payer: payer.to_owned(),
        tool: tool.parse().unwrap(),
        price: PRICE,
        builder: "b".to_owned(),
        from: None,
        funds: KnownFunds::Balance,
        standing: Standing::New,
    }
}

fn from(payer: &str, tool: &str, address: u8) -> RunParties {
    RunParties { from: Some([192, 0, 2, address].into()), ..running(payer, tool) }
}

fn fail(throttle: &Arc<UnpaidRunLimiter>, running: RunParties) {
    throttle.begin(running).unwrap().failed("failed");
}

fn pay(throttle: &Arc<UnpaidRunLimiter>, running: RunParties) {
    throttle.begin(running).unwrap().paid();
}

/// Begins as many runs at once as it can.
fn begin_all(throttle: &Arc<UnpaidRunLimiter>, running: &RunParties) -> Vec<RunPermit> {
    std::iter::from_fn(|| throttle.begin(running.clone()).ok()).take(1_000).collect()
}

/// Returns hosts of one store, which have not heard of each other's failures yet.
fn hosts(count: u32, of_payer: u32, of_address: u32, of_tool: u32) -> Vec<Arc<UnpaidRunLimiter>> {
    let host = || {
        let throttle = throttle(of_payer, of_address, of_tool);
        throttle.hosts.store(count, Ordering::Relaxed);
        throttle
    };
    (0..count).map(|_| host()).collect()
}

/// Returns the limit that a run has reached.
fn bound(throttle: &Arc<UnpaidRunLimiter>, running: &RunParties) -> Option<RunLimit> {
    let checked = throttle.check(running).err().map(|slowed| slowed.bound);
    assert_eq!(throttle.begin(running.clone()).err().map(|slowed| slowed.bound), checked, "both say the same");
    checked
}

#[tokio::test(start_paused = true)]
async fn unpaid_runs_of_a_payer_are_limited_across_tools_for_a_minute() {
    let throttle = throttle(3, 0, 0);
    for tool in ["one", "two", "three"] {
        fail(&throttle, running("a", tool));
    }
    let slowed = throttle.check(&running("a", "four")).unwrap_err();
    assert_eq!((slowed.bound, slowed.max.get(), slowed.window), (RunLimit::Payer, 3, WINDOW));
    assert!(slowed.wait >= WINDOW && slowed.wait <= WINDOW + WINDOW / 12, "{:?}", slowed.wait);
    assert_eq!(bound(&throttle, &running("b", "one")), None);
    advance(slowed.wait).await;
    assert_eq!(bound(&throttle, &running("a", "four")), None);
}

#[tokio::test(start_paused = true)]
async fn runs_in_flight_count_until_they_end() {
    let throttle = throttle(3, 0, 0);
    let mut positions: Vec<_> = (0..3).map(|_| throttle.begin(running("a", "one")).unwrap()).collect();
    let slowed = throttle.check(&running("a", "one")).unwrap_err();
    assert_eq!((slowed.bound, slowed.wait), (RunLimit::Payer, Duration::from_secs(1)));
    drop(positions.pop());
    assert_eq!(bound(&throttle, &running("a", "one")), None, "one of them was no run");
    positions.pop().unwrap().paid();
    positions.pop().unwrap().failed("failed");
    let positions: Vec<_> = (0..2).map(|_| throttle.begin(running("a", "one")).unwrap()).collect();
    assert_eq!(bound(&throttle, &running("a", "one")), Some(RunLimit::Payer), "two are under way, and one has failed");
    drop(positions);
}

#[tokio::test(start_paused = true)]
async fn one_paid_run_forgives_one_failed_run() {
    let throttle = throttle(30, 0, 0);
    // This would never end if every paid run forgave all failures.
    let mut unpaid = 0;
    for _ in 0..100 {
        while throttle.check(&running("a", "one")).is_ok() && unpaid < 1_000 {
            fail(&throttle, running("a", "one"));
            unpaid += 1;
        }
        throttle.settled_afterwards(&running("a", "one"));
    }
    assert_eq!(unpaid, 30 + 99);
}

fn priced(price: u64) -> RunParties {
    RunParties { price: MicroUsd(price), ..running("a", "one") }
}

/// Regression test: a paid run of $0.000001 forgave an unpaid one of $1. There were 423 unpaid runs in a minute.
#[tokio::test(start_paused = true)]
async fn paid_run_forgives_no_unpaid_run_of_a_higher_price() {
    let throttle = throttle(3, 0, 0);
    (0..3).for_each(|_| fail(&throttle, priced(1_000_000)));
    (0..1_000).for_each(|_| throttle.settled_afterwards(&priced(1)));
    assert_eq!(bound(&throttle, &priced(1)), Some(RunLimit::Payer), "$0.001 was paid of $1");
    throttle.settled_afterwards(&priced(999_000));
    assert_eq!(bound(&throttle, &priced(1)), None, "$1 was paid in all");
    fail(&throttle, priced(1_000_000));
    throttle.settled_afterwards(&priced(999_999));
    assert_eq!(bound(&throttle, &priced(1)), Some(RunLimit::Payer), "a payment counts once");
    throttle.settled_afterwards(&priced(1));
    assert_eq!(bound(&throttle, &priced(1)), None);
}

#[tokio::test(start_paused = true)]
async fn payment_before_an_unpaid_run_does_not_forgive_it() {
    let throttle = throttle(1, 0, 0);
    pay(&throttle, priced(1_000_000));
    fail(&throttle, priced(1_000_000));
    throttle.settled_afterwards(&priced(999_999));
    advance(WINDOW + WINDOW / 12).await;
    fail(&throttle, priced(1_000_000));
    throttle.settled_afterwards(&priced(1));
    assert_eq!(bound(&throttle, &priced(1)), Some(RunLimit::Payer));
}

#[tokio::test(start_paused = true)]
async fn forgiven_runs_are_still_reported_to_operators() {
    let throttle = throttle(50, 0, 0);
    for _ in 0..50 {
        fail(&throttle, running("a", "one"));
        pay(&throttle, running("a", "one"));
    }
    assert_eq!(bound(&throttle, &running("a", "one")), None);
    assert_eq!(throttle.unpaid(), 50);
    fail(&throttle, running("b", "one"));
    throttle.settled_afterwards(&running("b", "one"));
    fail(&throttle, running("c", "one"));
    throttle.excuse(&running("c", "one"));
    assert_eq!(throttle.unpaid(), 50, "one was paid late, and one was excused");
    advance(WINDOW + WINDOW / 12).await;
    assert_eq!(throttle.unpaid(), 0);
}

/// Regression test: 240 paid runs beside them forgave 130 unpaid ones in 34 seconds.
#[tokio::test(start_paused = true)]
async fn paid_runs_forgive_no_more_runs_in_a_minute_than_the_limit() {
    let (throttle, other) = (throttle(30, 60, 0), throttle(30, 60, 0));
    let (mut unpaid, mut paid) = (0, 0);
    for _ in 0..400 {
        if let Ok(permit) = throttle.begin(running("a", "one")) {
            permit.failed("failed");
            unpaid += 1;
        }
        if let Ok(permit) = throttle.begin(running("a", "one")) {
            permit.paid();
            paid += 1;
        }
    }
    assert_eq!((unpaid, paid), (60, 59));
    let slowed = throttle.check(&running("a", "one")).unwrap_err();
    assert_eq!(slowed.bound, RunLimit::Payer);
    assert!(slowed.wait >= WINDOW, "{:?}", slowed.wait);
    advance(slowed.wait).await;
    assert_eq!(bound(&throttle, &running("a", "one")), None);
    // The same is true for an address whose payers change.
    let mut unpaid = 0;
    for n in 0..400 {
        let run = from(&format!("payer-{n}"), "one", 1);
        if let Ok(permit) = other.begin(run.clone()) {
            permit.failed("failed");
            unpaid += 1;
        }
        if let Ok(permit) = other.begin(run) {
            permit.paid();
        }
    }
    assert_eq!(unpaid, 120);
}

/// Every tenth run of a flaky tool fails, 400 in a minute.
#[tokio::test(start_paused = true)]
async fn payer_who_pays_for_nine_runs_of_ten_is_served() {
    let throttle = throttle(30, 60, 100);
    for run in 0..4_000 {
        let permit = throttle.begin(from("a", "flaky", 1)).unwrap();
        if run % 10 == 9 {
            permit.failed("failed")
        } else {
            permit.paid()
        }
        advance(Duration::from_millis(150)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_minute_has_more_unpaid_runs_of_a_payer_than_the_limit() {
    let (throttle, mut failed) = (throttle(30, 0, 0), vec![]);
    for tick in 0..1_000_u64 {
        if let Ok(position) = throttle.begin(running("a", "one")) {
            position.failed("failed");
            failed.push(tick);
        }
        advance(Duration::from_millis(500)).await;
    }
    for (first, tick) in failed.iter().enumerate() {
        let within = failed[first..].iter().filter(|other| *other - tick < 120).count();
        assert!(within <= 30, "{within} from {tick} on");
    }
    assert!(failed.len() > 30 * 6, "{} in eight minutes", failed.len());
}

#[tokio::test(start_paused = true)]
async fn ten_paid_runs_allow_one_more_run_at_once_and_a_failed_one_takes_it_back() {
    let throttle = throttle(2, 0, 0);
    let at_once = || {
        let positions: Vec<_> = std::iter::from_fn(|| throttle.begin(running("a", "one")).ok()).take(100).collect();
        positions.len()
    };
    assert_eq!(at_once(), 2);
    (0..20).for_each(|_| pay(&throttle, running("a", "one")));
    assert_eq!(at_once(), 4);
    (0..1_000).for_each(|_| pay(&throttle, running("a", "one")));
    assert_eq!(at_once(), 2 + 20, "as many as there are at most");
    fail(&throttle, running("a", "one"));
    assert_eq!(at_once(), 2 + 19 - 1);
    fail(&throttle, running("a", "one"));
    assert_eq!(at_once(), 0, "failures are limited all the same");
}

#[tokio::test(start_paused = true)]
async fn credit_has_many_runs_at_once_and_fails_no_more_often_than_others() {
    let throttle = throttle(2, 0, 0);
    let credit = || RunParties { funds: KnownFunds::Credit, ..running("crd_a", "one") };
    let positions: Vec<_> = std::iter::from_fn(|| throttle.begin(credit()).ok()).take(100).collect();
    assert_eq!(positions.len(), 2 + 20);
    drop(positions);
    fail(&throttle, credit());
    assert_eq!(bound(&throttle, &credit()), None);
    fail(&throttle, credit());
    assert_eq!(bound(&throttle, &credit()), Some(RunLimit::Payer));
}

/// Regression test: runs on credit counted for no tool, so 330 of them failed at once.
#[tokio::test(start_paused = true)]
async fn runs_on_credit_share_a_limit_of_their_tool_apart_from_fresh_payers() {
    let throttle = throttle(30, 0, 4);
    let credit = |id: &str| RunParties { funds: KnownFunds::Credit, ..running(id, "one") };
    let of_tool = Some(RunLimit::Tool("one".parse().unwrap()));
    pay(&throttle, credit("crd_customer"));
    (0..4).for_each(|n| fail(&throttle, running(&format!("fresh-{n}"), "one")));
    assert_eq!(bound(&throttle, &running("fresh", "one")), of_tool);
    let in_flight = begin_all(&throttle, &credit("crd_a"));
    assert_eq!(in_flight.len(), 4 + 40, "fresh payers take none of these");
    assert_eq!(bound(&throttle, &credit("crd_b")), of_tool);
    assert_eq!(bound(&throttle, &credit("crd_customer")), None, "it has paid for the tool");
    in_flight.into_iter().for_each(|permit| permit.failed("failed"));
    assert_eq!(bound(&throttle, &credit("crd_b")), of_tool);
}

#[tokio::test(start_paused = true)]
async fn payer_without_a_known_balance_has_few_runs_at_once_before_it_has_paid() {
    let throttle = throttle(30, 0, 0);
    let unreported = || RunParties { funds: KnownFunds::Unknown, ..running("a", "one") };
    let positions: Vec<_> = (0..8).map(|_| throttle.begin(unreported()).unwrap()).collect();
    assert_eq!(bound(&throttle, &unreported()), Some(RunLimit::Unproven));
    positions.into_iter().next().unwrap().paid();
    let positions: Vec<_> = std::iter::from_fn(|| throttle.begin(unreported()).ok()).take(100).collect();
    assert_eq!(positions.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn fresh_payers_of_one_address_share_its_limit() {
    let throttle = throttle(30, 4, 0);
    for payer in ["a", "b", "c", "d"] {
        fail(&throttle, from(payer, "one", 1));
    }
    assert_eq!(bound(&throttle, &from("e", "two", 1)), Some(RunLimit::Address));
    assert_eq!(bound(&throttle, &from("e", "two", 2)), None);
    throttle.settled_afterwards(&from("a", "one", 1));
    assert_eq!(bound(&throttle, &from("e", "two", 1)), None);
}

#[tokio::test(start_paused = true)]
async fn fresh_payers_of_a_tool_share_its_limit_and_its_customers_are_served() {
    let throttle = throttle(30, 0, 4);
    pay(&throttle, running("customer", "one"));
    for payer in ["a", "b", "c"] {
        fail(&throttle, running(payer, "one"));
    }
    let in_flight = throttle.begin(running("d", "one")).unwrap();
    assert_eq!(bound(&throttle, &running("e", "one")), Some(RunLimit::Tool("one".parse().unwrap())));
    assert_eq!(bound(&throttle, &running("e", "two")), None, "another tool");
    assert_eq!(bound(&throttle, &running("customer", "one")), None);
    in_flight.paid();
    assert_eq!(bound(&throttle, &running("d", "one")), None, "it has paid meanwhile");
    // The customer's history covers one run at a time.
    let own = throttle.begin(running("customer", "one")).unwrap();
    assert_eq!(bound(&throttle, &running("customer", "one")), None, "the fourth place is free");
    let _fourth = throttle.begin(running("customer", "one")).unwrap();
    assert_eq!(bound(&throttle, &running("customer", "one")), Some(RunLimit::Tool("one".parse().unwrap())));
    own.failed("failed");
    assert_eq!(bound(&throttle, &running("customer", "one")), Some(RunLimit::Tool("one".parse().unwrap())), "and is used up");
}

#[tokio::test(start_paused = true)]
async fn half_of_a_tools_places_are_for_addresses_without_unpaid_runs() {
    let throttle = throttle(30, 60, 4);
    fail(&throttle, from("a", "one", 1));
    fail(&throttle, from("b", "one", 1));
    assert_eq!(bound(&throttle, &from("c", "one", 1)), Some(RunLimit::Tool("one".parse().unwrap())));
    fail(&throttle, from("d", "one", 2));
    let _last = throttle.begin(from("e", "one", 3)).unwrap();
    assert_eq!(bound(&throttle, &from("f", "one", 4)), Some(RunLimit::Tool("one".parse().unwrap())), "of all there are four");
}

/// Sends failures from one host to another.
fn exchange(one: &Arc<UnpaidRunLimiter>, other: &Arc<UnpaidRunLimiter>) {
    for ((_, reported), (_, received)) in one.tallies().into_iter().zip(other.tallies()) {
        reported.take_used(100).into_iter().for_each(|(name, used)| received.used_elsewhere(&name, used));
    }
}

#[tokio::test(start_paused = true)]
async fn unpaid_runs_at_one_host_count_at_the_others() {
    let (one, other) = (throttle(3, 0, 5), throttle(3, 0, 5));
    exchange(&one, &other);
    (0..3).for_each(|_| fail(&one, running("a", "one")));
    exchange(&one, &other);
    assert_eq!(bound(&other, &running("a", "two")), Some(RunLimit::Payer));
    (0..2).for_each(|_| fail(&one, running("b", "one")));
    exchange(&one, &other);
    exchange(&one, &other);
    assert_eq!(bound(&other, &running("c", "one")), Some(RunLimit::Tool("one".parse().unwrap())));
    assert_eq!(bound(&other, &running("b", "two")), None, "nothing is sent twice");
}

#[tokio::test(start_paused = true)]
async fn unpaid_runs_of_an_address_and_on_credit_count_at_all_hosts() {
    let (one, other) = (throttle(30, 3, 5), throttle(30, 3, 5));
    let credit = |id: &str| RunParties { funds: KnownFunds::Credit, ..running(id, "one") };
    exchange(&one, &other);
    ["a", "b", "c"].into_iter().for_each(|payer| fail(&one, from(payer, "two", 1)));
    (0..5).for_each(|_| fail(&one, credit("crd_a")));
    exchange(&one, &other);
    assert_eq!(bound(&other, &from("d", "three", 1)), Some(RunLimit::Address));
    assert_eq!(bound(&other, &credit("crd_b")), Some(RunLimit::Tool("one".parse().unwrap())));
    assert_eq!(bound(&other, &running("e", "one")), None, "these were on credit");
}

/// Regression test: each of three hosts admitted 30 runs of one payer in the first second.
#[tokio::test(start_paused = true)]
async fn hosts_of_one_store_share_the_limit_on_runs_in_flight() {
    let hosts_of = |of_payer, of_address, of_tool| hosts(3, of_payer, of_address, of_tool);
    for hosts in [hosts_of(30, 0, 0), hosts_of(0, 30, 0), hosts_of(0, 0, 30)] {
        let run = from("a", "one", 1);
        let in_flight: Vec<_> = hosts.iter().map(|host| begin_all(host, &run)).collect();
        assert_eq!(in_flight.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 10]);
        in_flight.into_iter().flatten().for_each(|permit| permit.failed("failed"));
        // The hosts have not heard of each other's failures yet.
        assert!(hosts.iter().all(|host| host.begin(run.clone()).is_err()));
    }
    let one_each: Vec<_> = hosts(3, 1, 0, 0).iter().flat_map(|host| begin_all(host, &running("a", "one"))).collect();
    assert_eq!(one_each.len(), 3, "a host admits one if its share is less");
}

/// Regression test: 85 runs of one credit failed at three hosts, six at once, before the hosts heard of each other.
#[tokio::test(start_paused = true)]
async fn hosts_of_one_store_share_the_limit_on_failures_of_a_credit() {
    let credit = RunParties { funds: KnownFunds::Credit, ..running("crd_a", "one") };
    let fail_all = |host: Arc<UnpaidRunLimiter>| {
        let begun = std::iter::from_fn(|| host.begin(credit.clone()).ok()).take(100);
        begun.map(|permit| permit.failed("failed")).count()
    };
    assert_eq!(hosts(3, 30, 0, 0).into_iter().map(fail_all).collect::<Vec<_>>(), [10, 10, 10]);
    assert_eq!(hosts(1, 30, 0, 0).into_iter().map(fail_all).collect::<Vec<_>>(), [30]);
}

#[tokio::test(start_paused = true)]
async fn failures_that_all_hosts_know_of_leave_a_host_the_rest_of_the_limit() {
    let host = hosts(3, 30, 0, 0).remove(0);
    (0..10).for_each(|_| fail(&host, running("a", "one")));
    assert_eq!(bound(&host, &running("a", "one")), Some(RunLimit::Payer));
    for _ in 0..9 {
        advance(Duration::from_secs(3)).await;
        drop(host.begin(running("a", "one")).unwrap());
        begin_all(&host, &running("a", "one")).into_iter().for_each(|permit| permit.failed("failed"));
    }
    assert_eq!((host.unpaid(), bound(&host, &running("a", "one"))), (30, Some(RunLimit::Payer)));
}

#[tokio::test(start_paused = true)]
async fn paid_runs_at_a_host_let_it_admit_as_many_at_once_beside_other_hosts() {
    let host = hosts(3, 30, 0, 0).remove(0);
    (0..9).for_each(|_| pay(&host, running("a", "one")));
    assert_eq!(begin_all(&host, &running("a", "one")).len(), 16, "nine, and a third of the other 21");
    (0..21).for_each(|_| pay(&host, running("a", "one")));
    assert!(begin_all(&host, &running("a", "one")).len() >= 30);
}

#[tokio::test(start_paused = true)]
async fn without_limits_nobody_waits() {
    let throttle = throttle(0, 0, 0);
    (0..1_000).for_each(|_| fail(&throttle, from("a", "one", 1)));
    assert_eq!(bound(&throttle, &from("a", "one", 1)), None);
}

#[tokio::test(start_paused = true)]
async fn remembered_payers_addresses_and_tools_are_bounded() {
    let throttle = throttle(3, 3, 3);
    // All others have two.
    ["one", "two", "three"].into_iter().for_each(|tool| fail(&throttle, from("worst", tool, 1)));
    for n in 0..MAX_KEYS + MAX_KEYS / 4 {
        let [_, b, c, d] = u32::try_from(n).unwrap().to_be_bytes();
        for address in
            [[10, b, c, d].into(), Ipv6Addr::from_bits(u128::from_be_bytes([0x20, 1, 0, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])).into()]
        {
            fail(&throttle, RunParties { from: Some(address), ..running(&format!("payer-{n}"), &format!("tool-{n}")) });
        }
    }
    {
        let accounts = throttle.accounts.lock();
        assert!(accounts.payers.len() <= MAX_KEYS && accounts.addresses.len() <= MAX_KEYS);
        assert!(accounts.networks.len() <= MAX_KEYS && accounts.tools.len() <= MAX_KEYS);
    }
    assert_eq!(bound(&throttle, &running("worst", "other")), Some(RunLimit::Payer), "the key with most failures stays");
    advance(2 * WINDOW + Duration::from_secs(60 * 60)).await;
    throttle.prune_idle();
    let accounts = throttle.accounts.lock();
    assert_eq!((accounts.payers.len(), accounts.addresses.len(), accounts.networks.len()), (0, 0, 0));
    assert_eq!((accounts.tools.len(), accounts.customers.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn customer_is_regular_an_hour_after_its_first_payment() {
    let (throttle, of_a) = (throttle(0, 0, 0), running("a", "one"));
    assert_eq!(throttle.standing(&of_a), None);
    pay(&throttle, of_a.clone());
    assert_eq!(throttle.standing(&of_a), Some(Standing::Customer));
    advance(Duration::from_secs(59 * 60)).await;
    pay(&throttle, of_a.clone());
    assert_eq!(throttle.standing(&of_a), Some(Standing::Customer), "a later payment does not matter");
    advance(Duration::from_secs(60)).await;
    assert_eq!(throttle.standing(&of_a), Some(Standing::Regular));
    fail(&throttle, of_a.clone());
    fail(&throttle, of_a.clone());
    assert_eq!(throttle.standing(&of_a), Some(Standing::New), "as many runs were unpaid as paid");
}

/// Concurrent calls learn their standing before any of them begins.
#[tokio::test(start_paused = true)]
async fn paid_run_covers_one_run_in_flight() {
    let (throttle, known) = (throttle(0, 0, 0), RunParties { standing: Standing::Customer, ..running("a", "one") });
    pay(&throttle, running("a", "one"));
    let positions = [known.clone(), known].map(|running| throttle.begin(running).unwrap());
    assert_eq!(positions.each_ref().map(|position| position.running.standing), [Standing::Customer, Standing::New]);
}
