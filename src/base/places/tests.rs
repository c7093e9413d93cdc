use std::pin::pin;

use futures_util::FutureExt;

use super::*;
use crate::base::random::Random;

fn take_all(places: &Arc<Places>, owner: &str) -> Vec<Place> {
    std::iter::from_fn(|| places.take(owner)).collect()
}

#[test]
fn an_owner_alone_has_all_places_but_an_eighth() {
    for (most, has) in [(1, 1), (2, 1), (8, 7), (64, 56), (512, 448)] {
        let places = Places::new(most);
        assert_eq!(take_all(&places, "one").len(), has, "{most}");
    }
}

#[test]
fn an_owner_that_has_none_finds_a_place_beside_one_that_wants_all() {
    let places = Places::new(64);
    let _greedy = take_all(&places, "greedy");
    for owner in ["a", "b", "c", "d"] {
        std::mem::forget(places.take(owner).unwrap());
    }
}

#[tokio::test]
async fn two_owners_that_want_all_places_come_to_the_same() {
    let places = Places::new(60);
    let mut has = take_all(&places, "first");
    let mut waiting: Vec<_> = (0..120).map(|number| Box::pin(places.wait(if number % 2 == 0 { "first" } else { "second" }))).collect();
    for _ in 0..200 {
        waiting.retain_mut(|waiter| waiter.as_mut().now_or_never().map(|place| has.push(place)).is_none());
        if waiting.len() < 60 {
            break;
        }
        has.remove(0);
    }
    let of = |name: &str| has.iter().filter(|place| *place.owner == *name).count();
    assert!(of("first").abs_diff(of("second")) <= 1 && of("first") >= 27, "{} and {}", of("first"), of("second"));
}

#[tokio::test]
async fn who_has_fewest_is_next_and_then_who_waits_for_longest() {
    let places = Places::new(4);
    let mut held = take_all(&places, "greedy");
    held.push(places.take("other").unwrap());
    let (mut again, mut third, mut fourth) = (pin!(places.wait("greedy")), pin!(places.wait("third")), pin!(places.wait("fourth")));
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
async fn a_place_that_nobody_waits_for_any_more_is_given_to_the_next() {
    let places = Places::new(1);
    let held = places.wait("one").await;
    let mut gone = Box::pin(places.wait("two"));
    assert!(gone.as_mut().now_or_never().is_none());
    let mut told = Box::pin(places.wait("three"));
    assert!(told.as_mut().now_or_never().is_none());
    drop(gone);
    drop(held);
    // It is on its way to one that goes away before it looks.
    let mut last = Box::pin(places.wait("four"));
    assert!(last.as_mut().now_or_never().is_none());
    drop(told);
    assert!(last.as_mut().now_or_never().is_some());
    drop(last);
    assert_eq!(places.state().free, 1);
}

/// Owners come, wait, go away in the middle and give back, in any order.
#[test]
fn places_are_neither_lost_nor_given_twice_and_nobody_waits_who_may_have_one() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let most = usize::try_from(1 + random.below(20)).unwrap();
        let places = Places::new(most);
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for step in 0..400 {
            let owner = ["a", "b", "c", "d"][usize::try_from(random.below(4)).unwrap()];
            match random.below(5) {
                0 | 1 => waiting.push((owner, Box::pin(places.wait(owner)))),
                2 => held.extend(places.take(owner)),
                3 if !held.is_empty() => drop(held.swap_remove(usize::try_from(random.below(held.len() as u64)).unwrap())),
                4 if !waiting.is_empty() => drop(waiting.swap_remove(usize::try_from(random.below(waiting.len() as u64)).unwrap())),
                _ => {}
            }
            waiting.retain_mut(|(_, waiter)| waiter.as_mut().now_or_never().map(|place| held.push(place)).is_none());
            let state = places.state();
            assert_eq!(state.free + held.len(), most, "seed {seed}, step {step}");
            let has = |owner: &str| held.iter().filter(|place| *place.owner == *owner).count();
            for (owner, _) in &waiting {
                assert!(!may_have_one(has(owner), state.free), "seed {seed}, step {step}: {owner} waits");
            }
        }
        drop((held, waiting));
        places.give();
        let state = places.state();
        assert!(state.free == most && state.owners.is_empty(), "seed {seed}");
    }
}
