//! Limits per owner.

use super::*;

/// Returns as many calls of `owner` as are admitted at once, all parked.
async fn asleep<'a>(scheduler: &'a Scheduler, owner: &'a str, calls: usize) -> Vec<Permit<'a>> {
    let mut asleep = vec![];
    for _ in 0..calls {
        let Some(Ok(mut permit)) = scheduler.acquire(AdmissionRequest { concurrency: 1_000, ..admission(owner, owner) }).now_or_never()
        else {
            break;
        };
        permit.park();
        asleep.push(permit);
    }
    asleep
}

#[tokio::test(start_paused = true)]
async fn lone_owner_can_use_seven_eighths_of_the_processes() {
    for (processes, has) in [(1, 1), (2, 2), (3, 3), (4, 3), (8, 7), (9, 7), (16, 14), (188, 164)] {
        let scheduler = Scheduler::new(Rules { processes, ..rules(8) });
        assert_eq!(asleep(&scheduler, "a", 400).await.len(), has, "of {processes}");
    }
}

#[tokio::test(start_paused = true)]
async fn sleeping_calls_of_one_owner_do_not_delay_another() {
    let scheduler = Scheduler::new(Rules { processes: 188, ..rules(8) });
    let flood = asleep(&scheduler, "a", 400).await;
    let mut more: Vec<_> = (0..99).map(|_| Box::pin(scheduler.acquire(admission("a", "x")))).collect();
    assert!(more.iter_mut().all(|more| more.now_or_never().is_none()));
    for _ in 0..1_000 {
        scheduler.acquire(admission("b", "y")).now_or_never().expect("it runs at once").unwrap();
    }
    // Another flood gets 7/8 of the rest, and even then something is left for the next owner.
    let second = asleep(&scheduler, "b", 400).await;
    assert_eq!((flood.len(), second.len()), (164, 21));
    assert!(scheduler.acquire(admission("c", "z")).now_or_never().is_some());
    assert!(more.iter_mut().all(|more| more.now_or_never().is_none()), "the reserved processes stay for others");
}

#[tokio::test(start_paused = true)]
async fn greedy_owners_get_equal_numbers_of_processes() {
    let scheduler = Scheduler::new(Rules { processes: 30, timeout: Duration::from_secs(1_000), ..rules(8) });
    let sleeper = |owner: &'static str| {
        let scheduler = &scheduler;
        async move {
            loop {
                let mut permit = scheduler.acquire(AdmissionRequest { concurrency: 1_000, ..admission(owner, owner) }).await.unwrap();
                permit.park();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    };
    let of = |owner: &str| scheduler.0.queue.lock().admitted_of(owner);
    let watched = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!((of("a"), of("b")), (26, 0));
        let is_even = || of("a").abs_diff(of("b")) <= 2 && of("a") + of("b") >= 26;
        let mut waited = 0;
        while !is_even() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            waited += 1;
            assert!(waited < 600, "{} and {}", of("a"), of("b"));
        }
    };
    let late = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        join_all((0..50).map(|_| sleeper("b"))).await;
    };
    tokio::select! {
        () = watched => {}
        _ = join_all((0..50).map(|_| sleeper("a"))) => {}
        () = late => {}
    }
}

#[tokio::test(start_paused = true)]
async fn owners_take_slots_in_turn_regardless_of_arrival() {
    let scheduler = scheduler(1);
    let running = scheduler.acquire(admission("a", "x")).await.unwrap();
    let order = std::cell::RefCell::new(vec![]);
    let call = |owner: &'static str| {
        let (scheduler, order) = (&scheduler, &order);
        async move {
            let _permit = scheduler.acquire(admission(owner, owner)).await.unwrap();
            order.borrow_mut().push(owner);
        }
    };
    let calls = ["a", "a", "a", "a", "b", "b", "c"].map(call);
    let release = async { drop(running) };
    tokio::join!(join_all(calls), release);
    assert_eq!(order.into_inner(), ["b", "c", "a", "b", "a", "a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_computes_queues_behind_one_that_does_not() {
    let scheduler = scheduler(2);
    let _computes = scheduler.acquire(admission("a", "x")).await.unwrap();
    let had_its_turn = scheduler.acquire(admission("b", "y")).await.unwrap();
    let (mut of_a, mut of_b) = (Box::pin(scheduler.acquire(admission("a", "x"))), Box::pin(scheduler.acquire(admission("b", "y"))));
    assert!((&mut of_a).now_or_never().is_none() && (&mut of_b).now_or_never().is_none());
    drop(had_its_turn);
    assert!((&mut of_a).now_or_never().is_none(), "its owner has a slot");
    assert!(matches!((&mut of_b).now_or_never(), Some(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn resuming_calls_do_not_delay_other_owners() {
    let scheduler = scheduler(1);
    let mut parked = [scheduler.acquire(admission("a", "x")).await.unwrap()];
    parked[0].park();
    let computing = scheduler.acquire(admission("a", "x")).await.unwrap();
    parked[0].request_resume();
    let mut newcomer = Box::pin(scheduler.acquire(admission("b", "y")));
    assert!((&mut newcomer).now_or_never().is_none());
    drop(computing);
    let newcomer = (&mut newcomer).now_or_never().expect("its owner has had no slot yet").unwrap();
    assert!(parked[0].resumed().now_or_never().is_none());
    drop(newcomer);
    assert!(parked[0].resumed().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn owner_that_fills_the_queue_yields_its_last_place_to_a_smaller_one() {
    let scheduler = Scheduler::new(Rules { queue: 4, caller_queue: 4, ..rules(1) });
    let running = scheduler.acquire(admission("a", "x")).await.unwrap();
    let mut flood: Vec<_> = (0..4).map(|_| Box::pin(scheduler.acquire(admission("a", "x")))).collect();
    assert!(flood.iter_mut().all(|call| call.now_or_never().is_none()), "a single owner gets every place");
    assert!(matches!(scheduler.acquire(admission("a", "x")).now_or_never(), Some(Err(PoolError::Busy { .. }))));
    let mut others: Vec<_> = (0..3).map(|_| Box::pin(scheduler.acquire(admission("b", "y")))).collect();
    assert!((&mut others[0]).now_or_never().is_none() && (&mut others[1]).now_or_never().is_none());
    assert!(matches!((&mut others[2]).now_or_never(), Some(Err(PoolError::Busy { .. }))), "both owners have equally many");
    for (call, stays) in flood.iter_mut().zip([true, true, false, false]) {
        assert_eq!(call.now_or_never().is_none(), stays, "the latest arrivals are removed");
    }
    drop(running);
    assert!(matches!((&mut others[0]).now_or_never(), Some(Ok(_))));
    drop((flood, others));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

#[tokio::test(start_paused = true)]
async fn owner_yields_no_place_to_an_owner_that_would_then_have_more() {
    let scheduler = Scheduler::new(Rules { queue: 3, caller_queue: 3, ..rules(1) });
    let _running = scheduler.acquire(admission("c", "z")).await.unwrap();
    let mut flood: Vec<_> = (0..3).map(|_| Box::pin(scheduler.acquire(admission("a", "x")))).collect();
    assert!(flood.iter_mut().all(|call| call.now_or_never().is_none()));
    let mut others: Vec<_> = (0..2).map(|_| Box::pin(scheduler.acquire(admission("b", "y")))).collect();
    assert!((&mut others[0]).now_or_never().is_none());
    assert!(matches!((&mut others[1]).now_or_never(), Some(Err(PoolError::Busy { .. }))), "its owner would have two of three");
    assert_eq!(flood.iter_mut().map(|call| call.now_or_never().is_none()).collect::<Vec<_>>(), [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn many_long_calls_of_one_owner_yield_to_another_owner() {
    let scheduler = Scheduler::new(Rules { background: 1, ..rules(2) });
    let mut long = vec![];
    for _ in 0..3 {
        long.push(scheduler.acquire(admission("a", "x")).await.unwrap());
        _ = long[0].end_slice(true);
    }
    assert!(!long[1].end_slice(true), "nobody wants its slot");
    let mut of_a = Box::pin(scheduler.acquire(admission("a", "x")));
    assert!((&mut of_a).now_or_never().is_none() && !long[1].end_slice(true), "its owner has reached its share");
    let mut other = Box::pin(scheduler.acquire(admission("b", "y")));
    assert!((&mut other).now_or_never().is_none());
    assert!(long[1].end_slice(true) && long[1].computes());
    let other = (&mut other).now_or_never().expect("it has the released slot").unwrap();
    let mut next = Box::pin(scheduler.acquire(admission("b", "y")));
    assert!((&mut next).now_or_never().is_none() && long[2].end_slice(true));
    let next = (&mut next).now_or_never().expect("and the other one").unwrap();
    drop((other, next));
    assert!((&mut of_a).now_or_never().is_none(), "its owner has too many calls in the background");
    assert!(long[2].regain_slot() && (&mut of_a).now_or_never().is_none());
    assert!(long[1].regain_slot() && (&mut of_a).now_or_never().is_none(), "a process is free, but no slot");
    drop(long.pop());
    assert!((&mut of_a).now_or_never().is_some());
    drop((of_a, long));
    assert!(scheduler.0.queue.lock().counts_no_owner());
}

/// Random histories of many owners: nothing is lost or granted twice, and every call that can run
/// does.
#[tokio::test(start_paused = true)]
async fn owner_counts_are_correct_however_calls_end() {
    let scheduler = Scheduler::new(Rules { processes: 9, queue: 20, caller_queue: 20, background: 2, ..rules(3) });
    let visit = |number: u64| {
        let scheduler = &scheduler;
        async move {
            let owner = ["a", "a", "a", "b", "c"][number as usize % 5];
            let step = Duration::from_millis(number * 7919 % 23);
            let admission =
                AdmissionRequest { concurrency: 6, caller: Some([127, 0, 0, (number % 11) as u8].into()), ..admission(owner, owner) };
            let visit = async {
                tokio::time::sleep(step * (number % 40) as u32).await;
                let Ok(mut permit) = scheduler.acquire(admission).await else { return };
                let Occupancy { admitted, running, queued } = scheduler.occupancy();
                assert!(running <= 3 && admitted <= 9 && queued <= 20);
                tokio::time::sleep(step).await;
                if number.is_multiple_of(3) && permit.end_slice(true) {
                    tokio::time::sleep(step).await;
                    _ = permit.regain_slot();
                }
                permit.park();
                tokio::time::sleep(step).await;
                permit.request_resume();
                permit.resumed().await;
                if number.is_multiple_of(4) {
                    permit.hand_over();
                    drop(scheduler.take_over(admission));
                }
            };
            // Every seventh call is abandoned midway.
            let limit = if number.is_multiple_of(7) { step * 9 } else { Duration::from_secs(60) };
            let _ = timeout(limit, visit).await;
            assert!(scheduler.0.queue.lock().is_work_conserving(&scheduler.0.rules), "a waiter that may run is waiting");
        }
    };
    join_all((0..1_000).map(visit)).await;
    assert_eq!(scheduler.occupancy(), Occupancy { admitted: 0, running: 0, queued: 0 });
    assert!(scheduler.0.queue.lock().counts_no_owner());
}
