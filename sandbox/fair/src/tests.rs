use std::{iter, pin::pin};

use futures_util::{FutureExt, future::join_all};
use tokio::sync::Mutex as AsyncMutex;

use super::*;

/// One share of each kind.
const SHARES: [Share; 4] = [Share::All, Share::AllBut(2), Share::OfFree, Share::HalfOfFree];

fn take_all(fair: &Arc<FairSemaphore<&'static str>>, owner: &'static str) -> Vec<FairPermit<&'static str>> {
    iter::from_fn(|| fair.take(owner)).collect()
}

#[test]
fn lone_owner_gets_its_share() {
    let alone = |max, share| take_all(&FairSemaphore::new(max, share), "one").len();
    assert_eq!([0, 1, 8].map(|max| alone(max, Share::All)), [1, 1, 8]);
    assert_eq!([1, 2, 3, 8].map(|max| alone(max, Share::AllBut(2))), [1, 1, 1, 6]);
}

#[test]
fn lone_owner_gets_seven_eighths_of_the_permits() {
    for (max, has) in [(1, 1), (2, 1), (8, 7), (64, 56), (512, 448)] {
        assert_eq!(take_all(&FairSemaphore::new(max, Share::OfFree), "one").len(), has, "{max}");
    }
}

#[test]
fn owner_can_have_seven_times_as_many_as_it_leaves_free() {
    let allows = |has, free| Share::OfFree.allows(64, has, free);
    assert_eq!([allows(6, 2), allows(7, 2), allows(13, 3), allows(14, 3)], [true, false, true, false]);
    assert_eq!([allows(0, 0), allows(0, 1), allows(1, 1)], [false, true, false]);
}

#[test]
fn owners_that_come_one_after_the_other_each_get_half_of_what_is_free() {
    let fair = FairSemaphore::new(64, Share::HalfOfFree);
    let permits = ["a", "b", "c", "d"].map(|owner| take_all(&fair, owner));
    assert_eq!(permits.each_ref().map(Vec::len), [32, 16, 8, 4]);
    drop(permits);
    let permits: Vec<_> = (0..64).flat_map(|_| [fair.take("a"), fair.take("b")]).flatten().collect();
    let of = |name: &str| permits.iter().filter(|permit| permit.owner == name).count();
    assert_eq!((of("a"), of("b")), (21, 21), "a third each");
}

#[test]
fn newcomer_finds_a_permit_next_to_an_owner_that_takes_all() {
    for (share, max) in [(Share::AllBut(4), 64), (Share::OfFree, 64)] {
        let fair = FairSemaphore::new(max, share);
        let (_greedy, others) = (take_all(&fair, "greedy"), ["a", "b", "c", "d"].map(|owner| fair.take(owner)));
        assert!(others.iter().all(Option::is_some), "{fair:?}");
    }
}

#[tokio::test]
async fn two_greedy_owners_get_equal_shares() {
    let fair = FairSemaphore::new(60, Share::OfFree);
    let mut has = take_all(&fair, "first");
    let mut waiting: Vec<_> = (0..120).map(|number| Box::pin(fair.turn(if number % 2 == 0 { "first" } else { "second" }))).collect();
    for _ in 0..200 {
        waiting.retain_mut(|waiter| waiter.as_mut().now_or_never().map(|permit| has.push(permit)).is_none());
        if waiting.len() < 60 {
            break;
        }
        has.remove(0);
    }
    let of = |name: &str| has.iter().filter(|permit| permit.owner == name).count();
    assert!(of("first").abs_diff(of("second")) <= 1 && of("first") >= 27, "{} and {}", of("first"), of("second"));
}

#[tokio::test]
async fn lone_owner_gets_every_turn_and_a_newcomer_the_next() {
    let fair = FairSemaphore::new(2, Share::All);
    let mut flood: Vec<_> = (0..5).map(|_| Box::pin(fair.turn("a"))).collect();
    let in_flight: Vec<_> = flood.iter_mut().filter_map(|turn| turn.now_or_never()).collect();
    assert_eq!(in_flight.len(), 2);
    let mut other = Box::pin(fair.turn("b"));
    assert!((&mut other).now_or_never().is_none());
    drop(in_flight);
    assert!((&mut other).now_or_never().is_some(), "earlier calls of the flood wait");
    assert!((&mut flood[2]).now_or_never().is_some() && (&mut flood[3]).now_or_never().is_some());
}

#[tokio::test]
async fn permits_beyond_the_share_are_free_for_others_at_once() {
    let fair = FairSemaphore::new(4, Share::AllBut(2));
    let mut flood: Vec<_> = (0..5).map(|_| Box::pin(fair.turn("a"))).collect();
    let in_flight: Vec<_> = flood.iter_mut().filter_map(|turn| turn.now_or_never()).collect();
    assert_eq!(in_flight.len(), 2);
    let others = [fair.turn("b").now_or_never(), fair.turn("c").now_or_never()];
    assert!(others.iter().all(Option::is_some));
    drop(others);
    assert!((&mut flood[2]).now_or_never().is_none());
    drop(in_flight);
    assert!((&mut flood[2]).now_or_never().is_some() && (&mut flood[3]).now_or_never().is_some());
}

#[tokio::test]
async fn owner_with_fewest_slots_is_next_then_the_one_waiting_longest() {
    let fair = FairSemaphore::new(4, Share::OfFree);
    let mut held = take_all(&fair, "greedy");
    held.push(fair.take("other").unwrap());
    let (mut again, mut third, mut fourth) = (pin!(fair.turn("greedy")), pin!(fair.turn("third")), pin!(fair.turn("fourth")));
    assert!(again.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
    assert!(fourth.as_mut().now_or_never().is_none());
    held.remove(0);
    let mut had = third.as_mut().now_or_never();
    assert!(had.is_some() && again.as_mut().now_or_never().is_none() && fourth.as_mut().now_or_never().is_none());
    held.remove(0);
    assert!(fourth.as_mut().now_or_never().is_some() && again.as_mut().now_or_never().is_none());
    had.take();
}

#[tokio::test]
async fn owners_with_equal_permits_take_turns() {
    let fair = FairSemaphore::new(1, Share::All);
    let first = fair.turn("a").await;
    let order = AsyncMutex::new(vec![]);
    let calls = ["a", "a", "a", "b", "b", "c"].map(async |owner| {
        let _permit = fair.turn(owner).await;
        order.lock().await.push(owner);
    });
    tokio::join!(join_all(calls), async { drop(first) });
    assert_eq!(order.into_inner(), ["b", "c", "a", "b", "a", "a"]);
}

#[tokio::test]
async fn owners_without_permits_are_served_in_arrival_order() {
    let (fair, order) = (FairSemaphore::new(1, Share::All), AsyncMutex::new(vec![]));
    let held = fair.turn(u8::MAX).await;
    let calls = (0..12).map(async |owner| {
        let _permit = fair.turn(owner).await;
        order.lock().await.push(owner);
    });
    tokio::join!(join_all(calls), async { drop(held) });
    assert!(order.into_inner().is_sorted());
}

#[tokio::test]
async fn waiting_owner_goes_before_later_arrivals() {
    let fair = FairSemaphore::new(1, Share::All);
    let first = fair.turn("first").await;
    let mut waits = [Box::pin(fair.turn("waits")), Box::pin(fair.turn("waits"))];
    assert!(waits.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
    drop(first);
    let had = waits[0].as_mut().now_or_never();
    let mut newcomers = [Box::pin(fair.turn("one")), Box::pin(fair.turn("two"))];
    assert!(newcomers.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
    drop(had);
    let had = newcomers[0].as_mut().now_or_never();
    assert!(had.is_some(), "the other had its turn while this one waited");
    let mut newest = Box::pin(fair.turn("newest"));
    assert!(newest.as_mut().now_or_never().is_none());
    drop(had);
    drop(newcomers[1].as_mut().now_or_never().unwrap());
    drop(waits[1].as_mut().now_or_never().unwrap());
    assert!(newest.as_mut().now_or_never().is_some());
}

#[tokio::test]
async fn unused_permit_passes_to_the_next_waiter() {
    let fair = FairSemaphore::new(1, Share::All);
    let held = fair.turn("one").await;
    let mut abandoned = Box::pin(fair.turn("two"));
    assert!(abandoned.as_mut().now_or_never().is_none());
    let mut granted = Box::pin(fair.turn("three"));
    assert!(granted.as_mut().now_or_never().is_none());
    drop(abandoned);
    drop(held);
    // The permit goes to a waiter that is dropped before it looks.
    let mut last = Box::pin(fair.turn("four"));
    assert!(last.as_mut().now_or_never().is_none());
    drop(granted);
    assert!(last.as_mut().now_or_never().is_some());
    drop(last);
    assert_eq!(fair.state.lock().in_flight, 0);
}

#[tokio::test]
async fn abandoned_requests_free_their_place_in_the_queue() {
    let fair = FairSemaphore::new(1, Share::All);
    let _held = fair.turn("a").await;
    let mut stay: Vec<_> = (0..3).map(|_| Box::pin(fair.turn("a"))).collect();
    assert!(stay.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
    for _ in 0..1_000 {
        assert!(fair.turn("a").now_or_never().is_none());
    }
    assert!(fair.state.lock().owners["a"].waiting.capacity() < 20);
}

/// Owners arrive, wait, abandon their wait and return permits in any order.
#[test]
fn slots_are_not_lost_or_doubled_and_nobody_waits_needlessly() {
    for seed in 0..120 {
        let mut random = fastrand::Rng::with_seed(seed);
        let fair = FairSemaphore::new(random.usize(1..=20), SHARES[random.usize(..SHARES.len())]);
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for step in 0..400 {
            let owner = ["a", "b", "c", "d"][random.usize(..4)];
            match random.u8(..5) {
                0 | 1 => waiting.push((owner, Box::pin(fair.turn(owner)))),
                2 => held.extend(fair.take(owner)),
                3 if !held.is_empty() => drop(held.swap_remove(random.usize(..held.len()))),
                4 if !waiting.is_empty() => drop(waiting.swap_remove(random.usize(..waiting.len()))),
                _ => {}
            }
            waiting.retain_mut(|(_, waiter)| waiter.as_mut().now_or_never().map(|permit| held.push(permit)).is_none());
            let in_flight = fair.state.lock().in_flight;
            assert!(in_flight == held.len() && in_flight <= fair.max, "seed {seed}, step {step}");
            let has = |owner: &str| held.iter().filter(|permit| permit.owner == owner).count();
            for (owner, _) in &waiting {
                assert!(!fair.allows(has(owner), in_flight), "seed {seed}, step {step}: {owner} waits");
            }
        }
        drop((held, waiting));
        let state = fair.state.lock();
        assert!(state.in_flight == 0 && state.owners.is_empty(), "seed {seed}: no owner is remembered");
    }
}
