//! Calls that are sent ahead to a busy worker.

use super::*;

#[tokio::test(start_paused = true)]
async fn call_is_sent_ahead_if_its_endpoint_is_busy_and_nobody_waits() {
    let scheduler = scheduler(2);
    let first = wait(&scheduler, admission("a", "x"), Ahead::Now).await.unwrap();
    assert!(matches!(first, Admitted::Permit(_)), "no worker is busy with its endpoint");
    assert!(goes_ahead(wait(&scheduler, admission("a", "x"), Ahead::Now).now_or_never()), "it is sent ahead instead of taking a slot");
    assert!(matches!(wait(&scheduler, admission("b", "y"), Ahead::Now).await.unwrap(), Admitted::Permit(_)), "its endpoint is not busy");
    let entered = scheduler.acquire(admission("a", "x")).await.unwrap();
    let mut other = Box::pin(scheduler.acquire(admission("b", "y")));
    assert!((&mut other).now_or_never().is_none());
    assert!(!goes_ahead(wait(&scheduler, admission("a", "x"), Ahead::Now).now_or_never()), "somebody waits for a slot");
    drop((first, entered));
    assert!(other.now_or_never().is_some());
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 0, running: 0, queued: 0 });
    let after = wait(&scheduler, admission("a", "x"), Ahead::Now).await.unwrap();
    assert!(matches!(after, Admitted::Permit(_)), "its endpoint is not busy anymore");
}

#[tokio::test(start_paused = true)]
async fn queue_sends_ahead_in_order() {
    let scheduler = scheduler(1);
    let permit = scheduler.acquire(admission("a", "x")).await.unwrap();
    let asks = [("a", "x", Ahead::Now), ("a", "x", Ahead::Queued), ("b", "y", Ahead::Queued), ("a", "x", Ahead::Queued)];
    // The first call finds no worker to be sent ahead to, and queues.
    let mut waiting: Vec<_> = asks.map(|(owner, endpoint, ahead)| Box::pin(wait(&scheduler, admission(owner, endpoint), ahead))).into();
    assert!(goes_ahead((&mut waiting[0]).now_or_never()));
    waiting[0] = Box::pin(wait(&scheduler, admission("a", "x"), Ahead::Queued));
    assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    permit.send_ahead(1);
    assert!(goes_ahead((&mut waiting[0]).now_or_never()));
    assert!((&mut waiting[1]).now_or_never().is_none(), "there was room for one");
    permit.send_ahead(9);
    assert!(goes_ahead((&mut waiting[1]).now_or_never()));
    assert!((&mut waiting[3]).now_or_never().is_none(), "another endpoint's call is before it");
    // Permission to go ahead that was not used holds nothing.
    permit.send_ahead(9);
    drop(waiting);
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 1, running: 1, queued: 0 });
    drop(permit);
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 0, running: 0, queued: 0 });
}

#[tokio::test(start_paused = true)]
async fn no_call_is_sent_ahead_of_a_resuming_call() {
    let scheduler = scheduler(1);
    let mut parked = scheduler.acquire(admission("a", "x")).await.unwrap();
    parked.park();
    let computing = scheduler.acquire(admission("a", "x")).await.unwrap();
    parked.request_resume();
    let mut newcomer = Box::pin(wait(&scheduler, admission("a", "x"), Ahead::Now));
    assert!((&mut newcomer).now_or_never().is_none());
    computing.send_ahead(1);
    assert!((&mut newcomer).now_or_never().is_none());
    drop(computing);
    parked.resumed().await;
    parked.send_ahead(1);
    assert!(goes_ahead((&mut newcomer).now_or_never()));
}

#[tokio::test(start_paused = true)]
async fn late_permission_to_be_sent_ahead_loses_no_slot() {
    let scheduler = scheduler(1);
    let permit = scheduler.acquire(admission("a", "x")).await.unwrap();
    let mut waiting = Box::pin(wait(&scheduler, admission("a", "x"), Ahead::Queued));
    assert!((&mut waiting).now_or_never().is_none());
    permit.send_ahead(1);
    drop(waiting);
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 1, running: 1, queued: 0 });
}

#[tokio::test(start_paused = true)]
async fn handed_over_slot_is_counted_once() {
    let scheduler = scheduler(1);
    scheduler.acquire(admission("a", "x")).await.unwrap().hand_over();
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 1, running: 1, queued: 0 });
    drop(scheduler.take_over(admission("a", "x")));
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 0, running: 0, queued: 0 });
}
