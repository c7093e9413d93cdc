mod ahead;
mod callers;
mod owners;
mod stops;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use tokio::time::timeout;

use super::*;
use crate::breaker::BreakerRules;

const BREAKER: BreakerRules = BreakerRules { stops: 5, window: Duration::from_secs(60), hold: Duration::from_secs(60) };

fn rules(running: usize) -> Rules {
    Rules {
        running,
        processes: 100,
        caller_running: (running * 3 / 4).max(1),
        caller_processes: 50,
        background: running,
        quantum: Duration::from_millis(100),
        queue: 256,
        caller_queue: 128,
        timeout: Duration::from_secs(1),
        breaker: BREAKER,
    }
}

fn scheduler(running: usize) -> Scheduler {
    Scheduler::new(rules(running))
}

fn admission<'a>(owner: &'a str, endpoint: &'a str) -> AdmissionRequest<'a> {
    AdmissionRequest { owner, endpoint, caller: None, concurrency: 100 }
}

fn of(address: u8) -> AdmissionRequest<'static> {
    AdmissionRequest { caller: Some([127, 0, 0, address].into()), ..admission("a", "x") }
}

async fn wait<'a>(scheduler: &'a Scheduler, admission: AdmissionRequest<'a>, ahead: Ahead) -> Result<Admitted<'a>, PoolError> {
    scheduler.wait(admission, ahead, scheduler.deadline()).await
}

fn goes_ahead(leave: Option<Result<Admitted<'_>, PoolError>>) -> bool {
    matches!(leave, Some(Ok(Admitted::Ahead)))
}

#[tokio::test(start_paused = true)]
async fn call_over_the_slots_waits_and_is_refused_after_a_second() {
    let scheduler = scheduler(1);
    let first = scheduler.acquire(admission("a", "x")).await.unwrap();
    let started = Instant::now();
    let refused = scheduler.acquire(admission("a", "x")).await;
    assert!(matches!(refused, Err(PoolError::Busy { .. })));
    assert_eq!(started.elapsed(), Duration::from_secs(1));
    drop(first);
    scheduler.acquire(admission("a", "x")).await.unwrap();
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 0, running: 0, queued: 0 });
}

#[tokio::test(start_paused = true)]
async fn lone_owner_gets_every_slot_and_two_owners_half_each() {
    let scheduler = scheduler(4);
    let mut flood: Vec<_> = Vec::new();
    for _ in 0..4 {
        flood.push(scheduler.acquire(admission("a", "x")).await.unwrap());
    }
    let mut more: Vec<_> = (0..4).map(|_| Box::pin(scheduler.acquire(admission("a", "x")))).collect();
    for waiting in &mut more {
        assert!(waiting.now_or_never().is_none());
    }
    let mut late = Box::pin(scheduler.acquire(admission("b", "y")));
    assert!((&mut late).now_or_never().is_none());
    // The first free slot goes to the newcomer, not to the calls before it.
    drop(flood.pop());
    let b = (&mut late).now_or_never().expect("b is below its share").unwrap();
    assert!(more.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    // Nobody else waits, so the next slot goes to the flood again.
    drop(flood.pop());
    assert!((&mut more[0]).now_or_never().is_some());
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn endpoint_over_its_concurrency_waits_and_others_pass_it() {
    let scheduler = scheduler(4);
    let narrow = AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 1 };
    let first = scheduler.acquire(narrow).await.unwrap();
    let mut second = Box::pin(scheduler.acquire(narrow));
    assert!((&mut second).now_or_never().is_none());
    let other = scheduler.acquire(admission("a", "y")).now_or_never().expect("there is room").unwrap();
    drop(first);
    assert!((&mut second).now_or_never().is_some());
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn parked_calls_hold_no_slot_and_resume_before_newcomers() {
    let scheduler = scheduler(1);
    let mut parked = scheduler.acquire(admission("a", "x")).await.unwrap();
    parked.park();
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 1, running: 0, queued: 0 });
    let computing = scheduler.acquire(admission("b", "y")).await.unwrap();
    let mut newcomer = Box::pin(scheduler.acquire(admission("a", "z")));
    assert!((&mut newcomer).now_or_never().is_none());
    parked.request_resume();
    assert!(parked.resumed().now_or_never().is_none());
    drop(computing);
    assert!(parked.resumed().now_or_never().is_some());
    assert!(parked.is_running());
    assert!((&mut newcomer).now_or_never().is_none());
    drop(parked);
    assert!((&mut newcomer).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn parked_calls_still_count_as_processes() {
    let scheduler = Scheduler::new(Rules { processes: 2, ..rules(4) });
    let mut permits = [scheduler.acquire(admission("a", "x")).await.unwrap(), scheduler.acquire(admission("a", "x")).await.unwrap()];
    permits.iter_mut().for_each(Permit::park);
    assert!(matches!(scheduler.acquire(admission("b", "y")).await, Err(PoolError::Busy { .. })));
}

#[tokio::test(start_paused = true)]
async fn full_queue_refuses_at_once() {
    let scheduler = Scheduler::new(Rules { queue: 1, ..rules(1) });
    let _running = scheduler.acquire(admission("a", "x")).await.unwrap();
    let mut queued = Box::pin(scheduler.acquire(admission("a", "x")));
    assert!((&mut queued).now_or_never().is_none());
    assert!(matches!(scheduler.acquire(admission("a", "x")).now_or_never(), Some(Err(PoolError::Busy { .. }))));
}

#[tokio::test(start_paused = true)]
async fn waiter_that_leaves_with_a_grant_returns_it() {
    let scheduler = scheduler(1);
    let running = scheduler.acquire(admission("a", "x")).await.unwrap();
    let (mut first, mut second) = (Box::pin(scheduler.acquire(admission("a", "x"))), Box::pin(scheduler.acquire(admission("a", "x"))));
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    drop(running);
    drop(first);
    assert!(matches!((&mut second).now_or_never(), Some(Ok(_))));
    assert_eq!(scheduler.occupancy().admitted, 0);
}

#[tokio::test(start_paused = true)]
async fn waiter_that_leaves_early_affects_nobody_else() {
    let scheduler = scheduler(1);
    let running = scheduler.acquire(admission("a", "x")).await.unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(scheduler.acquire(admission("a", "x")))).collect();
    assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    drop(waiting.remove(1));
    assert_eq!(scheduler.occupancy().queued, 2);
    drop(running);
    let second = (&mut waiting[0]).now_or_never().unwrap().unwrap();
    assert!((&mut waiting[1]).now_or_never().is_none());
    drop(second);
    assert!(matches!((&mut waiting[1]).now_or_never(), Some(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn call_that_ends_while_it_resumes_leaves_the_queue_and_loses_no_slot() {
    let scheduler = scheduler(1);
    let mut permits = Vec::new();
    for endpoint in ["x", "y", "z"] {
        let mut permit = scheduler.acquire(admission("a", endpoint)).await.unwrap();
        permit.park();
        permits.push(permit);
    }
    let computing = scheduler.acquire(admission("b", "w")).await.unwrap();
    permits.iter_mut().for_each(Permit::request_resume);
    drop(permits.remove(1));
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 3, running: 1, queued: 0 });
    drop(computing);
    assert!(permits[0].resumed().now_or_never().is_some());
    assert!(permits[1].resumed().now_or_never().is_none());
    drop(permits.remove(0));
    // The turn of the other call came, and it never took the slot.
    drop(permits);
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 0, running: 0, queued: 0 });
}

#[tokio::test(start_paused = true)]
async fn owners_at_their_share_resume_after_others() {
    let scheduler = scheduler(2);
    let mut parked = [scheduler.acquire(admission("a", "x")).await.unwrap(), scheduler.acquire(admission("b", "y")).await.unwrap()];
    parked.iter_mut().for_each(Permit::park);
    let [mut of_a, mut of_b] = parked;
    let first = scheduler.acquire(admission("a", "x")).await.unwrap();
    let second = scheduler.acquire(admission("a", "x")).await.unwrap();
    of_a.request_resume();
    of_b.request_resume();
    drop(first);
    assert!(of_a.resumed().now_or_never().is_none(), "its owner has reached its share");
    assert!(of_b.resumed().now_or_never().is_some());
    drop(second);
    assert!(of_a.resumed().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn owners_with_running_or_held_calls_are_remembered() {
    let scheduler = scheduler(2);
    let narrow = AdmissionRequest { concurrency: 1, ..admission("a", "x") };
    let running = scheduler.acquire(narrow).await.unwrap();
    assert_eq!((0..5).filter(|_| scheduler.note_stop("held", None, Cause::Code)).count(), 1);
    scheduler.prune_idle();
    assert!(scheduler.acquire(narrow).now_or_never().is_none(), "its endpoint is at its concurrency");
    assert!(matches!(scheduler.acquire(admission("b", "held")).await, Err(PoolError::Held { .. })));
    let other = scheduler.acquire(admission("b", "y")).await.unwrap();
    let (mut of_a, mut of_c) = (Box::pin(scheduler.acquire(admission("a", "z"))), Box::pin(scheduler.acquire(admission("c", "z"))));
    assert!((&mut of_a).now_or_never().is_none() && (&mut of_c).now_or_never().is_none());
    drop(other);
    assert!((&mut of_a).now_or_never().is_none(), "its owner has reached its share");
    assert!(matches!((&mut of_c).now_or_never(), Some(Ok(_))));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn endpoint_with_many_kills_is_held_together_with_its_queue() {
    let scheduler = scheduler(1);
    let running = scheduler.acquire(admission("a", "x")).await.unwrap();
    let mut queued = Box::pin(scheduler.acquire(admission("a", "x")));
    assert!((&mut queued).now_or_never().is_none());
    assert_eq!((0..5).filter(|_| scheduler.note_stop("x", None, Cause::Code)).count(), 1);
    drop(running);
    assert!(matches!((&mut queued).now_or_never(), Some(Err(PoolError::Held { .. }))));
    assert!(matches!(scheduler.acquire(admission("a", "x")).await, Err(PoolError::Held { .. })));
    scheduler.acquire(admission("a", "y")).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    scheduler.acquire(admission("a", "x")).await.unwrap();
    scheduler.prune_idle();
    assert!(scheduler.0.queue.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn closed_scheduler_admits_nobody_and_drains() {
    let scheduler = Arc::new(scheduler(1));
    let mut running = scheduler.acquire(admission("a", "x")).await.unwrap();
    let mut queued = Box::pin(scheduler.acquire(admission("a", "x")));
    assert!((&mut queued).now_or_never().is_none());
    scheduler.close();
    assert!(matches!((&mut queued).now_or_never(), Some(Err(PoolError::Busy { .. }))));
    assert!(matches!(scheduler.acquire(admission("b", "y")).await, Err(PoolError::Busy { .. })));
    // A running call can still park and resume.
    running.park();
    running.request_resume();
    running.resumed().await;
    let mut drained = Box::pin(scheduler.drained());
    assert!((&mut drained).now_or_never().is_none());
    drop(running);
    assert!((&mut drained).now_or_never().is_some(), "the waiter is notified of the end");
    scheduler.drained().await;
}

/// Random histories: no slot is ever lost or granted twice.
#[tokio::test(start_paused = true)]
async fn slots_are_neither_lost_nor_granted_twice() {
    let scheduler = scheduler(3);
    let visit = |number: u64| {
        let scheduler = &scheduler;
        async move {
            let (owner, endpoint) = (["a", "b", "c"][number as usize % 3], ["x", "y"][number as usize % 2]);
            let step = Duration::from_millis(number * 7919 % 23);
            let visit = async {
                let Ok(mut permit) = scheduler.acquire(AdmissionRequest { owner, endpoint, caller: None, concurrency: 4 }).await else {
                    return;
                };
                assert!(scheduler.occupancy().running <= 3);
                tokio::time::sleep(step).await;
                permit.park();
                tokio::time::sleep(step).await;
                permit.request_resume();
                permit.resumed().await;
                assert!(scheduler.occupancy().running <= 3);
            };
            // Every seventh call is abandoned midway.
            let limit = if number.is_multiple_of(7) { step * 2 } else { Duration::from_secs(60) };
            let _ = timeout(limit, visit).await;
        }
    };
    join_all((0..400).map(visit)).await;
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 0, running: 0, queued: 0 });
    assert!(scheduler.0.queue.lock().counts_no_owner());
}
