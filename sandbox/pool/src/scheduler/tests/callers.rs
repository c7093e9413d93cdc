//! Limits per caller.

use super::*;

/// Returns a call of the caller with this address to an endpoint with so many places.
fn one_of(places: usize, address: u8) -> AdmissionRequest<'static> {
    AdmissionRequest { concurrency: places, ..of(address) }
}

/// Returns as many such calls as are admitted at once, all parked.
fn asleep(scheduler: &Scheduler, places: usize, address: u8) -> Vec<Permit<'_>> {
    let call = || {
        let mut permit = scheduler.acquire(one_of(places, address)).now_or_never()?.unwrap();
        permit.park();
        Some(permit)
    };
    std::iter::from_fn(call).collect()
}

#[tokio::test(start_paused = true)]
async fn one_caller_leaves_slots_to_others() {
    let scheduler = scheduler(4);
    let three = [scheduler.acquire(of(1)).await.unwrap(), scheduler.acquire(of(1)).await.unwrap(), scheduler.acquire(of(1)).await.unwrap()];
    let mut more = Box::pin(scheduler.acquire(of(1)));
    assert!((&mut more).now_or_never().is_none(), "a slot is free, but not for this caller");
    let other = scheduler.acquire(of(2)).now_or_never().expect("it passes a waiter that may not run").unwrap();
    let mut late = Box::pin(scheduler.acquire(of(2)));
    assert!((&mut late).now_or_never().is_none());
    drop(three);
    let (more, late) = ((&mut more).now_or_never().unwrap().unwrap(), (&mut late).now_or_never().unwrap().unwrap());
    drop((more, late, other));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_of_one_caller_leave_processes_to_others() {
    let scheduler = Scheduler::new(Rules { processes: 4, caller_processes: 2, ..rules(4) });
    let mut waiting = [scheduler.acquire(of(1)).await.unwrap(), scheduler.acquire(of(1)).await.unwrap()];
    waiting.iter_mut().for_each(Permit::park);
    assert!(scheduler.acquire(of(1)).now_or_never().is_none());
    scheduler.acquire(of(2)).now_or_never().unwrap().unwrap();
    drop(waiting);
    scheduler.acquire(of(1)).now_or_never().unwrap().unwrap();
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn one_caller_leaves_places_in_the_queue_to_others() {
    let scheduler = Scheduler::new(Rules { queue: 4, caller_queue: 2, ..rules(1) });
    let running = scheduler.acquire(of(3)).await.unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(scheduler.acquire(of(1)))).collect();
    assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    assert!(matches!(scheduler.acquire(of(1)).now_or_never(), Some(Err(PoolError::Busy { .. }))));
    assert!(scheduler.acquire(of(2)).now_or_never().is_none(), "it waits");
    drop(waiting);
    assert!(scheduler.acquire(of(1)).now_or_never().is_none(), "canceled calls hold no place");
    drop(running);
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn caller_that_was_sent_ahead_leaves_the_queue() {
    let scheduler = Scheduler::new(Rules { queue: 4, caller_queue: 1, ..rules(1) });
    let running = scheduler.acquire(of(3)).await.unwrap();
    let mut first = Box::pin(wait(&scheduler, of(1), Ahead::Queued));
    assert!((&mut first).now_or_never().is_none());
    assert!(matches!(scheduler.acquire(of(1)).now_or_never(), Some(Err(PoolError::Busy { .. }))));
    running.send_ahead(1);
    assert!(goes_ahead((&mut first).now_or_never()));
    assert!(scheduler.acquire(of(1)).now_or_never().is_none(), "it waits");
    drop((first, running));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn call_that_computes_for_long_gives_its_slot_to_others_and_not_to_its_caller() {
    let scheduler = Scheduler::new(Rules { background: 1, caller_running: 2, ..rules(2) });
    let mut long = [scheduler.acquire(of(1)).await.unwrap(), scheduler.acquire(of(1)).await.unwrap()];
    let mut other = Box::pin(scheduler.acquire(of(2)));
    assert!((&mut other).now_or_never().is_none());
    assert!(long[0].end_slice(true) && long[0].computes() && !long[0].is_running());
    assert!(long[0].end_slice(true) && !long[0].is_running(), "it is in the background");
    assert!(!long[1].end_slice(true), "the background is full");
    let other = (&mut other).now_or_never().expect("a slot was released").unwrap();
    drop(other);
    assert!(scheduler.acquire(of(1)).now_or_never().is_none(), "two of this caller compute");
    long[0].park();
    let third = scheduler.acquire(of(1)).now_or_never().expect("one of them waits").unwrap();
    long[0].request_resume();
    assert!(long[0].is_resuming(), "it would be the third that computes");
    drop(third);
    long[0].resumed().now_or_never().expect("only one other computes");
    assert!(long[0].is_running() && long[0].end_slice(true));
    let full = [scheduler.acquire(of(2)).await.unwrap()];
    assert!(!long[0].regain_slot(), "none is free");
    drop(full);
    assert!(long[0].regain_slot() && long[0].is_running() && long[1].regain_slot());
    assert_eq!(scheduler.occupancy().running, 2);
    drop(long);
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn short_call_keeps_its_slot_until_another_owner_waits() {
    let scheduler = scheduler(1);
    let mut short = scheduler.acquire(admission("a", "x")).await.unwrap();
    assert!(!short.end_slice(false) && short.is_running(), "nobody waits");
    let mut own = Box::pin(scheduler.acquire(admission("a", "x")));
    assert!((&mut own).now_or_never().is_none() && !short.end_slice(false) && short.is_running(), "only its owner waits");
    drop(own);
    let mut other = Box::pin(scheduler.acquire(admission("b", "y")));
    assert!((&mut other).now_or_never().is_none());
    assert!(!short.end_slice(false) && short.computes() && !short.is_running(), "it yields, and is not slowed");
    let other = (&mut other).now_or_never().expect("a slot was released").unwrap();
    assert!(!short.end_slice(false) && !short.is_running(), "it is in the background");
    drop((short, other));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_caller_with_several_are_slowed_after_one_slice_while_others_compute() {
    let scheduler = Scheduler::new(Rules { caller_running: 2, ..rules(3) });
    let mut several = [scheduler.acquire(of(1)).await.unwrap(), scheduler.acquire(of(1)).await.unwrap()];
    assert!(!several[0].end_slice(false) && several[0].is_running(), "no other caller computes");
    let mut other = scheduler.acquire(of(2)).await.unwrap();
    assert!(several[0].end_slice(false) && several[0].computes() && !several[0].is_running());
    assert!(!other.end_slice(false) && other.is_running(), "its caller has no other call");
    drop((several, other));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn taken_over_permit_counts_for_its_new_caller_only() {
    let scheduler = scheduler(4);
    scheduler.acquire(of(1)).await.unwrap().hand_over();
    let taken = scheduler.take_over(of(2));
    assert_eq!(scheduler.0.queue.lock().computing_of(Some([127, 0, 0, 1].into())), 0);
    assert_eq!(scheduler.0.queue.lock().computing_of(Some([127, 0, 0, 2].into())), 1);
    drop(taken);
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn caller_that_cancels_a_call_can_run_its_next_call() {
    let scheduler = Scheduler::new(Rules { caller_running: 1, ..rules(4) });
    let first = scheduler.acquire(of(1)).await.unwrap();
    let mut next = Box::pin(scheduler.acquire(of(1)));
    assert!((&mut next).now_or_never().is_none(), "one of this caller computes");
    first.hand_over();
    let taken = scheduler.take_over(of(2));
    let next = (&mut next).now_or_never().expect("none of this caller computes").unwrap();
    drop((taken, next));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn callers_leave_places_of_an_endpoint_to_others() {
    let scheduler = scheduler(4);
    let mut greedy = [1, 2, 3].map(|address| asleep(&scheduler, 64, address));
    assert_eq!(greedy.each_ref().map(Vec::len), [32, 16, 8]);
    assert!(matches!(scheduler.acquire(one_of(64, 1)).await, Err(PoolError::Busy { .. })));
    scheduler.acquire(one_of(64, 4)).now_or_never().expect("a newcomer runs at once").unwrap();
    let elsewhere = AdmissionRequest { endpoint: "y", ..one_of(64, 1) };
    scheduler.acquire(elsewhere).now_or_never().expect("the limit is of one endpoint").unwrap();
    let mut more = Box::pin(scheduler.acquire(one_of(64, 3)));
    assert!((&mut more).now_or_never().is_none());
    drop(greedy[2].pop());
    let more = (&mut more).now_or_never().expect("one of this caller ended").unwrap();
    drop((greedy, more));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn one_caller_gets_every_place_of_an_endpoint_with_few() {
    for (places, has) in [(1, 1), (3, 3), (4, 2), (5, 2), (6, 3)] {
        assert_eq!(asleep(&scheduler(4), places, 1).len(), has, "of {places}");
    }
}

#[tokio::test(start_paused = true)]
async fn caller_with_its_share_of_an_endpoint_is_not_sent_ahead() {
    let scheduler = scheduler(4);
    let greedy = asleep(&scheduler, 8, 1);
    assert_eq!(greedy.len(), 4);
    let running = scheduler.acquire(one_of(8, 2)).await.unwrap();
    let mut more = Box::pin(wait(&scheduler, one_of(8, 1), Ahead::Now));
    assert!((&mut more).now_or_never().is_none(), "it would take the other caller's place");
    running.send_ahead(9);
    assert!((&mut more).now_or_never().is_none());
    drop(more);
    assert!(goes_ahead(wait(&scheduler, one_of(8, 3), Ahead::Now).now_or_never()));
    drop((greedy, running));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn taken_over_place_counts_for_its_new_caller_only() {
    let scheduler = scheduler(4);
    scheduler.acquire(one_of(9, 1)).await.unwrap().hand_over();
    let taken = scheduler.take_over(one_of(9, 2));
    assert_eq!(asleep(&scheduler, 9, 2).len(), 3, "it has one already");
    assert_eq!(asleep(&scheduler, 9, 1).len(), 4, "it has none anymore");
    drop(taken);
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn caller_whose_calls_were_long_lately_makes_way_at_once_while_others_compute() {
    let scheduler = scheduler(3);
    let mut long = scheduler.acquire(of(1)).await.unwrap();
    assert!(!long.end_slice(false) && long.is_running(), "nothing is known about its caller");
    assert!(long.end_slice(true));
    drop(long);
    let mut next = scheduler.acquire(of(1)).await.unwrap();
    let usual = next.slice();
    assert!(!next.end_slice(false) && next.is_running(), "no other caller computes");
    let mut other = scheduler.acquire(of(2)).await.unwrap();
    assert!(next.slice() < usual && other.slice() == usual);
    assert!(next.end_slice(false) && !next.is_running() && !other.end_slice(false));
    drop(next);
    tokio::time::advance(Duration::from_secs(11)).await;
    let mut later = scheduler.acquire(of(1)).await.unwrap();
    assert!(later.slice() == usual && !later.end_slice(false), "it was not long lately");
    drop((later, other));
    assert!(scheduler.0.queue.lock().counts_no_owner());
    scheduler.prune_idle();
    assert!(scheduler.0.queue.lock().is_empty());
}
