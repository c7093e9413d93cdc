use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt, future::join_all};
use tokio::time::{Duration, sleep, timeout};

use super::*;

#[tokio::test]
async fn owner_alone_has_every_turn_and_another_has_the_next() {
    let fair = Fair::new(2);
    let mut flood: Vec<_> = (0..5).map(|_| Box::pin(fair.turn("a"))).collect();
    let under_way: Vec<_> = flood.iter_mut().filter_map(|turn| turn.now_or_never()).collect();
    assert_eq!(under_way.len(), 2);
    let mut other = Box::pin(fair.turn("b"));
    assert!((&mut other).now_or_never().is_none());
    drop(under_way);
    assert!((&mut other).now_or_never().is_some(), "those of the flood that came before it wait");
    assert!((&mut flood[2]).now_or_never().is_some() && (&mut flood[3]).now_or_never().is_some());
}

#[tokio::test]
async fn what_one_owner_leaves_is_anothers_at_once() {
    let fair = Fair::leaving(4, 2);
    let mut flood: Vec<_> = (0..5).map(|_| Box::pin(fair.turn("a"))).collect();
    let under_way: Vec<_> = flood.iter_mut().filter_map(|turn| turn.now_or_never()).collect();
    assert_eq!(under_way.len(), 2);
    let others = [fair.turn("b").now_or_never(), fair.turn("c").now_or_never()];
    assert!(others.iter().all(Option::is_some));
    drop(others);
    assert!((&mut flood[2]).now_or_never().is_none());
    drop(under_way);
    assert!((&mut flood[2]).now_or_never().is_some() && (&mut flood[3]).now_or_never().is_some());
}

#[tokio::test]
async fn owners_with_as_many_under_way_take_turns() {
    let fair = Fair::new(1);
    let first = fair.turn("a").await;
    let order = Mutex::new(vec![]);
    let calls = ["a", "a", "a", "b", "b", "c"].map(async |owner| {
        let _leave = fair.turn(owner).await;
        order.lock().unwrap().push(owner);
    });
    tokio::join!(join_all(calls), async { drop(first) });
    assert_eq!(order.into_inner().unwrap(), ["b", "c", "a", "b", "a", "a"]);
}

#[tokio::test]
async fn turn_that_nobody_takes_is_the_next_ones() {
    let fair = Fair::new(1);
    let first = fair.turn("a").await;
    let (mut gone, mut stays) = (Box::pin(fair.turn("a")), Box::pin(fair.turn("a")));
    assert!((&mut gone).now_or_never().is_none() && (&mut stays).now_or_never().is_none());
    drop(first);
    drop(gone);
    drop(stays.await);
    assert_eq!(fair.state().under_way, 0);
}

/// Random histories: no turn is lost, and never are more under way than may be.
#[tokio::test(start_paused = true)]
async fn turns_are_neither_lost_nor_too_many() {
    let (fair, under_way) = (Fair::new(3), AtomicUsize::new(0));
    let one = async |number: u64| {
        let step = Duration::from_millis(number * 7919 % 23);
        let turn = async {
            let leave = fair.turn(["a", "b", "c", "d"][number as usize % 4]).await;
            assert!(under_way.fetch_add(1, Ordering::Relaxed) < 3);
            sleep(step).await;
            under_way.fetch_sub(1, Ordering::Relaxed);
            drop(leave);
        };
        if number.is_multiple_of(7) {
            // Goes away while it waits, or not at all: what is under way is counted here to its end.
            _ = timeout(step, fair.turn("a")).await;
        } else {
            turn.await;
        }
    };
    join_all((0..400).map(one)).await;
    fair.dispatch();
    assert!(fair.state().under_way == 0 && fair.state().owners.is_empty(), "nobody is remembered");
}
