//! Holds of endpoints and slowed callers after stops.

use super::*;

fn at(address: u8) -> Option<IpAddr> {
    Some([127, 0, 0, address].into())
}

#[tokio::test(start_paused = true)]
async fn heavy_inputs_of_one_caller_do_not_close_a_tool_for_another() {
    let scheduler = scheduler(1);
    for _ in 0..5 {
        let call = scheduler.acquire(of(1)).await.unwrap();
        assert!(!scheduler.note_stop("x", at(1), Cause::Run));
        drop(call);
    }
    let Err(PoolError::Slowed { retry_after }) = scheduler.acquire(of(1)).await else { panic!("it is not slowed") };
    scheduler.acquire(of(2)).await.unwrap();
    scheduler.acquire(AdmissionRequest { endpoint: "y", ..of(1) }).await.unwrap();
    tokio::time::advance(retry_after).await;
    scheduler.acquire(of(1)).await.unwrap();
    scheduler.prune_idle();
    assert!(scheduler.0.queue.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn colluding_callers_close_a_tool_only_for_themselves() {
    let scheduler = scheduler(1);
    assert_eq!((0..9).filter(|n| scheduler.note_stop("x", at(*n), Cause::Run)).count(), 1);
    assert!(matches!(scheduler.acquire(of(1)).await, Err(PoolError::Held { .. })));
    let mut other = scheduler.acquire(of(9)).await.unwrap();
    other.note_answer();
    drop(other);
    scheduler.acquire(of(1)).await.expect("another caller got an answer");
    tokio::time::advance(Duration::from_secs(60)).await;
    scheduler.prune_idle();
    assert!(scheduler.0.queue.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn stopped_callers_are_forgotten_even_if_their_endpoint_is_always_busy() {
    let scheduler = scheduler(1);
    let _running = scheduler.acquire(of(0)).await.unwrap();
    (1..=9).for_each(|n| _ = scheduler.note_stop("x", at(n), Cause::Run));
    assert_eq!(scheduler.0.queue.lock().stopped_callers_of("x"), 9);
    tokio::time::advance(Duration::from_secs(60)).await;
    scheduler.prune_idle();
    assert_eq!(scheduler.0.queue.lock().stopped_callers_of("x"), 0);
}

#[tokio::test(start_paused = true)]
async fn endpoint_that_answers_one_caller_is_not_held() {
    for (hands_over, answers, holds) in [(false, true, false), (true, true, false), (false, false, true), (true, false, true)] {
        let scheduler = scheduler(1);
        let mut call = scheduler.acquire(of(9)).await.unwrap();
        if answers {
            call.note_answer();
        }
        if hands_over {
            call.hand_over()
        } else {
            drop(call)
        }
        let held = (0..9).any(|n| scheduler.note_stop("x", at(n), Cause::Run));
        assert_eq!(held, holds);
    }
}

#[tokio::test(start_paused = true)]
async fn caller_slowed_while_it_waits_is_refused_at_its_turn() {
    let scheduler = scheduler(1);
    let running = scheduler.acquire(of(2)).await.unwrap();
    let mut waiting = Box::pin(scheduler.acquire(of(1)));
    assert!((&mut waiting).now_or_never().is_none());
    (0..5).for_each(|_| _ = scheduler.note_stop("x", at(1), Cause::Run));
    drop(running);
    assert!(matches!((&mut waiting).now_or_never(), Some(Err(PoolError::Slowed { .. }))));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}
