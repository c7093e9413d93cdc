use tokio::{io::AsyncWriteExt, net::UnixStream};
use tollhouse_protocol::Limits;

use super::*;
use crate::budget::Budget;

fn worker() -> (Arc<Process>, UnixStream) {
    Process::standin()
}

fn is(process: Option<&Arc<Process>>, expected: &Arc<Process>) -> bool {
    process.is_some_and(|process| Arc::ptr_eq(process, expected))
}

#[tokio::test]
async fn worker_put_back_after_the_close_is_returned() {
    let ([first, second], mut idle) = ([worker().0, worker().0], Idle::default());
    assert!(idle.put(Warm::just_now(&first)).is_none());
    idle.closed = true;
    assert!(is(idle.put(Warm::just_now(&second)).as_ref().map(|warm| &warm.process), &second));
    assert_eq!(idle.warm.len(), 1);
}

#[tokio::test]
async fn starting_spares_count_as_spares() {
    let (spare, mut idle) = (worker().0, Idle::default());
    idle.spares.push(spare);
    idle.booting[Tier::Jit] = 2;
    idle.booting[Tier::Jitless] = 3;
    assert_eq!((idle.pending_spares(), idle.spares_of(Tier::Jit), idle.spares_of(Tier::Jitless)), (6, 3, 3));
}

#[tokio::test]
async fn no_call_is_sent_ahead_to_a_returned_worker() {
    let ([first, second], mut idle) = ([worker().0, worker().0], Idle::default());
    idle.pipelined = vec![Arc::clone(&first), Arc::clone(&second)];
    idle.put(Warm::just_now(&second));
    assert!(idle.pipelined.len() == 1 && is(idle.pipelined.first(), &first));
    idle.forget_pipelined(&second);
    assert_eq!(idle.pipelined.len(), 1, "it was removed before");
}

#[tokio::test]
async fn warm_worker_is_taken_once() {
    let ([first, second], mut idle) = ([worker().0, worker().0], Idle::default());
    idle.put(Warm::just_now(&first));
    idle.put(Warm::just_now(&second));
    assert!(idle.remove(&second) && !idle.remove(&second));
    assert!(is(idle.warm.oldest(), &first));
}

#[tokio::test]
async fn oldest_warm_worker_is_evicted_first_and_spares_next() {
    let ([first, second, spare], mut idle) = ([worker().0, worker().0, worker().0], Idle::default());
    idle.put(Warm::just_now(&first));
    idle.put(Warm::just_now(&second));
    idle.spares.push(Arc::clone(&spare));
    for next in [&first, &second, &spare] {
        assert!(is(idle.evict(Shortage::Places).as_ref(), next));
    }
    assert!(idle.evict(Shortage::Places).is_none());
}

#[tokio::test]
async fn largest_warm_worker_is_evicted_when_memory_is_short() {
    let ([small, large, spare], mut idle) = ([worker().0, worker().0, worker().0], Idle::default());
    for (process, bytes) in [(&small, 3 << 20), (&large, 90 << 20), (&spare, 200 << 20)] {
        process.record_own_bytes(bytes);
    }
    idle.put(Warm::just_now(&small));
    idle.put(Warm::just_now(&large));
    idle.spares.push(Arc::clone(&spare));
    for next in [&large, &small, &spare] {
        assert!(is(idle.evict(Shortage::Memory).as_ref(), next));
    }
    assert!(idle.evict(Shortage::Memory).is_none());
}

#[tokio::test]
async fn dead_or_misbehaving_workers_are_faults_but_stale_ones_are_not() {
    let mut idle = Idle::default();
    let (quiet, _quiet) = worker();
    let (stale, _stale) = worker();
    let (spare, _spare) = worker();
    let (unused, _unused) = worker();
    let (talking, mut talks) = worker();
    let (dead, ends) = worker();
    talks.write_all(b"x").await.unwrap();
    drop(ends);
    for process in [&talking, &dead] {
        process.link.stream.readable().await.unwrap();
    }
    assert!([&quiet, &stale, &talking].iter().all(|process| idle.put(Warm::just_now(process)).is_none()));
    idle.spares = vec![spare, Arc::clone(&dead), Arc::clone(&unused)];
    let (swept, faults) = idle.sweep(|warm| Arc::ptr_eq(&warm.process, &stale), |spare| spare.pid == unused.pid);
    assert_eq!(faults, 2);
    assert_eq!(swept.iter().map(|process| process.pid).collect::<Vec<_>>(), [stale.pid, talking.pid, dead.pid, unused.pid]);
    assert!(idle.warm.len() == 1 && is(idle.warm.oldest(), &quiet));
    assert_eq!(idle.spares.len(), 1);
    idle.clear();
    assert!(idle.warm.len() == 0 && idle.spares.is_empty());
}

#[tokio::test]
async fn calls_that_were_sent_ahead_are_counted_over_all_workers() {
    let mut idle = Idle::default();
    let workers = [worker(), worker()];
    for ((process, _), calls) in workers.iter().zip([1, 2]) {
        process.link.stream.writable().await.unwrap();
        process.link.pipeline.open();
        for _ in 0..calls {
            let budget = Budget::of_call(&Limits::default());
            assert!(process.link.pipeline.send(&process.link.stream, b"frame", budget).is_some());
        }
        idle.pipelined.push(Arc::clone(process));
    }
    assert_eq!(idle.sent_ahead(), 3);
}
