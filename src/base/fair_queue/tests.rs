use super::*;
use crate::counted::Counted;

#[test]
fn only_the_owner_that_fills_the_queue_loses_items() {
    let (mut queues, mut lost) = (FairQueue::new(100), vec![]);
    for n in 0..1_000 {
        queues.push(&"flood", 1, n, |owner| lost.push(*owner));
    }
    assert_eq!((queues.held, lost.len()), (100, 900), "alone it has all there is");
    for n in 0..50 {
        queues.push(&"other", 1, n, |owner| lost.push(*owner));
        queues.push(&"flood", 1, n, |owner| lost.push(*owner));
    }
    assert_eq!((lost.len(), lost.contains(&"other")), (1_000, false));
    queues.push(&"other", 1, 50, |owner| lost.push(*owner));
    assert_eq!(lost.last(), Some(&"other"), "a half is its part");
}

#[test]
fn owners_take_turns_and_keep_their_order() {
    let mut queues = FairQueue::new(100);
    for (owner, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("b", 2)] {
        queues.push(&owner, 1, item, |_| panic!("there is room"));
    }
    let taken: Vec<_> = std::iter::from_fn(|| queues.pop()).collect();
    assert_eq!(taken, [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("a", 3)]);
    assert!(queues.is_empty() && queues.queues.is_empty() && queues.turns.is_empty());
}

#[test]
fn owner_to_drop_from_is_found_in_few_steps() {
    const OWNERS: u32 = 100_000;
    let mut queues = FairQueue::new(OWNERS as usize);
    // Owners with more than their share get their turns after the others.
    let (few, many) = (0..OWNERS * 3 / 10, OWNERS * 3 / 10..OWNERS * 65 / 100);
    for owner in few.chain(many.clone()).chain(many) {
        queues.push(&Counted(owner), 1, (), |_| panic!("there is room"));
    }
    let (mut lost, pushes) = (0, OWNERS / 5);
    let steps = Counted::steps(|| {
        for owner in OWNERS..OWNERS + pushes {
            queues.push(&Counted(owner), 1, (), |_| lost += 1);
        }
    });
    assert_eq!(lost, pushes);
    assert!(steps < u64::from(pushes) * 400, "{steps} steps for {pushes} items");
}

/// Random histories: the bound is never exceeded, and every owner that loses an item has, or would have, more than
/// its share.
#[test]
fn weights_match_the_queued_items_in_random_histories() {
    for seed in 0..200 {
        let (mut random, mut queues, mut waiting) = (fastrand::Rng::with_seed(seed), FairQueue::new(64), HashMap::<u64, usize>::new());
        for _ in 0..400 {
            let (owner, weight) = (random.u64(..5), 1 + random.usize(..9));
            if random.u64(..3) == 0 {
                if let Some((owner, weight)) = queues.pop() {
                    *waiting.get_mut(&owner).unwrap() -= weight;
                }
            } else {
                let (before, mut own_lost) = (queues.held, false);
                queues.push(&owner, weight, weight, |lost| own_lost |= *lost == owner);
                assert!(!own_lost || before + weight > 64);
            }
            waiting = queues.queues.iter().map(|(owner, queue)| (*owner, queue.iter().map(|(_, item)| item).sum())).collect();
            assert!(queues.held <= 64 && waiting.values().sum::<usize>() == queues.held);
        }
        while queues.pop().is_some() {}
        assert!(queues.is_empty() && queues.queues.is_empty() && queues.held_by.is_empty());
    }
}
