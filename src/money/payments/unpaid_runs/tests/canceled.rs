//! Runs that their callers cancel.

use super::*;

fn credit(id: &str) -> RunParties {
    RunParties { funds: KnownFunds::Credit, ..running(id, "one") }
}

/// Cancels as many of the runs as it can. Returns how many.
fn cancel_all(throttle: &UnpaidRunLimiter, runs: Vec<RunPermit>) -> usize {
    let before = throttle.unpaid();
    let (canceled, others): (Vec<_>, Vec<_>) = runs.into_iter().partition(RunPermit::cancel);
    let count = canceled.len();
    canceled.into_iter().for_each(|permit| permit.failed("failed"));
    assert_eq!(throttle.unpaid() - before, count as u64, "each counts once");
    others.into_iter().for_each(RunPermit::paid);
    count
}

/// Regression test: 192 runs of one credit were canceled over MCP in a minute.
#[tokio::test(start_paused = true)]
async fn no_more_runs_of_a_credit_are_canceled_than_may_be_unpaid() {
    let throttle = throttle(3, 0, 0);
    let runs = begin_all(&throttle, &credit("crd_a"));
    assert_eq!(runs.len(), 3 + 30);
    assert_eq!(cancel_all(&throttle, runs), 3);
    advance(WINDOW + WINDOW / 12).await;
    let runs = begin_all(&throttle, &credit("crd_a"));
    assert_eq!(cancel_all(&throttle, runs), 3);
}

#[tokio::test(start_paused = true)]
async fn runs_that_were_earned_by_paying_are_canceled_no_more_often() {
    let throttle = throttle(3, 0, 0);
    (0..400).for_each(|_| pay(&throttle, running("a", "one")));
    let runs = begin_all(&throttle, &running("a", "one"));
    assert_eq!(runs.len(), 3 + 30);
    assert_eq!(cancel_all(&throttle, runs), 3);
}

#[tokio::test(start_paused = true)]
async fn failed_runs_leave_fewer_to_cancel() {
    let throttle = throttle(3, 0, 0);
    let mut runs = begin_all(&throttle, &credit("crd_a"));
    (0..2).for_each(|_| runs.pop().unwrap().failed("failed"));
    assert_eq!(cancel_all(&throttle, runs), 1);
}

#[tokio::test(start_paused = true)]
async fn credits_cancel_no_more_runs_of_a_tool_together_than_may_be_unpaid() {
    let throttle = throttle(30, 0, 4);
    pay(&throttle, credit("crd_customer"));
    let of_customer = throttle.begin(credit("crd_customer")).unwrap();
    let mut runs = vec![];
    for id in ["crd_a", "crd_b", "crd_c"] {
        runs.extend((0..10).map(|_| throttle.begin(credit(id)).unwrap()));
    }
    assert_eq!(cancel_all(&throttle, runs), 4);
    assert_eq!(cancel_all(&throttle, vec![of_customer]), 1, "it has paid for the tool");
}

#[tokio::test(start_paused = true)]
async fn hosts_of_one_store_share_the_limit_on_canceled_runs() {
    let canceled: Vec<_> = hosts(3, 30, 0, 0).iter().map(|host| cancel_all(host, begin_all(host, &credit("crd_a")))).collect();
    assert_eq!(canceled, [10, 10, 10]);
}

/// A canceled run whose task ends otherwise still counts once.
#[tokio::test(start_paused = true)]
async fn canceled_run_counts_however_it_ends() {
    let throttle = throttle(3, 0, 0);
    let ends: [fn(RunPermit); 2] = [drop::<RunPermit>, |permit| permit.failed("failed")];
    for end in ends {
        let permit = throttle.begin(running("a", "one")).unwrap();
        assert!(permit.cancel());
        end(permit);
    }
    assert_eq!(throttle.unpaid(), 2);
    let permit = throttle.begin(running("a", "one")).unwrap();
    assert!(permit.cancel());
    permit.paid();
    assert_eq!(throttle.unpaid(), 2, "it was paid after all");
}

#[tokio::test(start_paused = true)]
async fn without_limits_every_run_can_be_canceled() {
    let throttle = throttle(0, 0, 0);
    let runs: Vec<_> = (0..100).map(|_| throttle.begin(running("a", "one")).unwrap()).collect();
    assert_eq!(cancel_all(&throttle, runs), 100);
}
