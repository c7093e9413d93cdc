//! Unpaid runs beyond the limits, which paid runs allow.

use super::*;

const CHEAP: MicroUsd = MicroUsd(1);

fn of_owner(owner: &str, price: MicroUsd) -> RunParties {
    RunParties { price, builder: owner.to_owned(), ..from("a", &format!("tool-of-{owner}"), 1) }
}

fn at_once(throttle: &Arc<UnpaidRunLimiter>, running: &RunParties) -> usize {
    begin_all(throttle, running).len()
}

/// Regression test: 400 paid runs of one's own tool, which bring their price back, bought 40 unpaid ones elsewhere.
#[tokio::test(start_paused = true)]
async fn paid_runs_allow_more_runs_only_at_tools_of_the_same_owner() {
    for throttle in [throttle(3, 0, 0), throttle(0, 3, 0)] {
        (0..400).for_each(|_| pay(&throttle, of_owner("eve", PRICE)));
        assert_eq!(at_once(&throttle, &of_owner("bob", PRICE)), 3);
        assert_eq!(at_once(&throttle, &of_owner("eve", PRICE)), 3 + 30);
        (0..10).for_each(|_| pay(&throttle, of_owner("bob", PRICE)));
        assert_eq!(at_once(&throttle, &of_owner("bob", PRICE)), 3 + 1);
    }
}

/// Regression test: 400 paid runs of $0.000001 allowed 40 unpaid ones of $0.01.
#[tokio::test(start_paused = true)]
async fn paid_runs_allow_no_more_runs_of_a_higher_price() {
    for throttle in [throttle(2, 0, 0), throttle(0, 2, 0)] {
        (0..1_000).for_each(|_| pay(&throttle, of_owner("bob", CHEAP)));
        assert_eq!(at_once(&throttle, &of_owner("bob", CHEAP)), 2 + 20);
        assert_eq!(at_once(&throttle, &of_owner("bob", PRICE)), 2);
        (0..20).for_each(|_| pay(&throttle, of_owner("bob", PRICE)));
        assert_eq!(at_once(&throttle, &of_owner("bob", PRICE)), 2 + 2);
        assert_eq!(at_once(&throttle, &of_owner("bob", MicroUsd(2 * PRICE.0))), 2 + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn expensive_paid_runs_allow_as_many_cheap_ones_as_of_their_own_price() {
    let throttle = throttle(2, 0, 0);
    (0..20).for_each(|_| pay(&throttle, of_owner("bob", PRICE)));
    assert_eq!(at_once(&throttle, &of_owner("bob", CHEAP)), 2 + 2);
    fail(&throttle, of_owner("bob", CHEAP));
    assert_eq!(at_once(&throttle, &of_owner("bob", CHEAP)), 2 + 1 - 1);
}

#[tokio::test(start_paused = true)]
async fn unpaid_run_uses_up_what_was_earned_at_its_owner_alone() {
    let throttle = throttle(3, 0, 0);
    (0..20).for_each(|_| pay(&throttle, of_owner("bob", PRICE)));
    fail(&throttle, of_owner("eve", PRICE));
    assert_eq!(at_once(&throttle, &of_owner("bob", PRICE)), 3 + 2 - 1, "it counts for both");
    fail(&throttle, of_owner("bob", PRICE));
    assert_eq!(at_once(&throttle, &of_owner("bob", PRICE)), 3 + 1 - 2);
    assert_eq!(at_once(&throttle, &of_owner("eve", PRICE)), 3 - 2);
}

#[tokio::test(start_paused = true)]
async fn paid_runs_raise_a_hosts_share_only_for_the_same_owner_and_price() {
    let host = hosts(3, 30, 0, 0).remove(0);
    (0..30).for_each(|_| pay(&host, of_owner("eve", PRICE)));
    assert_eq!(at_once(&host, &of_owner("bob", PRICE)), 10);
    (0..30).for_each(|_| pay(&host, of_owner("bob", CHEAP)));
    assert_eq!(at_once(&host, &of_owner("bob", PRICE)), 10);
    (0..30).for_each(|_| pay(&host, of_owner("bob", PRICE)));
    assert!(at_once(&host, &of_owner("bob", PRICE)) >= 30);
}

/// Another run of an answer that is owed needs no funds, so it says nothing about its payer's.
#[tokio::test(start_paused = true)]
async fn run_of_an_owed_answer_allows_its_payer_no_more_runs() {
    let throttle = throttle(2, 0, 0);
    drop(throttle.begin(RunParties { funds: KnownFunds::Credit, ..running("a", "one") }).unwrap());
    assert_eq!(at_once(&throttle, &running("a", "one")), 2);
}

#[tokio::test(start_paused = true)]
async fn credit_wins_back_runs_by_paying_at_tools_of_the_same_owner() {
    let throttle = throttle(2, 0, 0);
    let credit = |owner: &str| RunParties { funds: KnownFunds::Credit, from: None, ..of_owner(owner, PRICE) };
    for _ in 0..10 {
        (0..2).for_each(|_| fail(&throttle, credit("bob")));
        advance(WINDOW + WINDOW / 12).await;
    }
    assert_eq!(at_once(&throttle, &credit("bob")), 2, "its runs beyond the limit are used up");
    (0..10).for_each(|_| pay(&throttle, credit("eve")));
    assert_eq!((at_once(&throttle, &credit("bob")), at_once(&throttle, &credit("eve"))), (2, 3));
    (0..10).for_each(|_| pay(&throttle, credit("bob")));
    assert_eq!(at_once(&throttle, &credit("bob")), 3);
}

#[tokio::test(start_paused = true)]
async fn earned_runs_are_bounded_and_forgotten_after_an_hour() {
    let throttle = throttle(2, 0, 0);
    for owner in 0..=MAX_CUSTOMERS {
        pay(&throttle, RunParties { builder: format!("owner-{owner}"), ..running("a", "one") });
    }
    assert!(throttle.accounts.lock().earned.len() <= MAX_CUSTOMERS);
    advance(Duration::from_secs(2 * 60 * 60)).await;
    throttle.prune_idle();
    assert_eq!(throttle.accounts.lock().earned.len(), 0);
}
