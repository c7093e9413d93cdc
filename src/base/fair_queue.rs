//! Fair queues: one queue per owner within one common bound. When they are full, only an owner with more than an equal
//! share loses items.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

use super::amounts::Amounts;

/// A set of queues that are served in turn.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    /// Maximum total weight of all queued items.
    max: usize,
    held: usize,
    /// Bytes held by each owner that holds any.
    held_by: Amounts<K>,
    queues: HashMap<K, VecDeque<(usize, T)>>,
    /// Every owner that has a queue, once each.
    turns: VecDeque<K>,
}

impl<K: Clone + Hash + Ord, T> FairQueue<K, T> {
    /// Creates queues that hold items with a total weight of up to `max`.
    pub fn new(max: usize) -> Self {
        Self { max, held: 0, held_by: Amounts::default(), queues: HashMap::new(), turns: VecDeque::new() }
    }

    /// Returns whether all queues are empty.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Queues `item`, whose weight is at least 1. If there is no room, items are dropped: the new one if its owner
    /// would have more than its share, otherwise the newest of an owner that does. `lost` is called with the owner of
    /// each dropped item.
    pub fn push(&mut self, owner: &K, weight: usize, item: T, mut lost: impl FnMut(&K)) {
        let own = self.held_by.of(owner);
        while self.held + weight > self.max {
            let owners = self.queues.len() + usize::from(own == 0);
            let part = self.max / owners.max(1);
            let over = if own + weight > part { None } else { self.pop_over_limit(part) };
            let Some(over) = over else { return lost(owner) };
            self.drop_newest(&over);
            lost(&over);
        }
        let queue = self.queues.entry(owner.clone()).or_insert_with(|| {
            self.turns.push_back(owner.clone());
            VecDeque::new()
        });
        queue.push_back((weight, item));
        self.held_by.add(owner, weight);
        self.held += weight;
    }

    /// Removes and returns the oldest item of the next owner in turn.
    pub fn pop(&mut self) -> Option<(K, T)> {
        loop {
            let owner = self.turns.pop_front()?;
            let queue = self.queues.get_mut(&owner)?;
            let taken = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&owner);
            } else {
                self.turns.push_back(owner.clone());
            }
            // The queue is empty if its owner has lost all of its items.
            if let Some((weight, item)) = taken {
                self.held_by.take(&owner, weight);
                self.held -= weight;
                return Some((owner, item));
            }
        }
    }

    fn pop_over_limit(&self, part: usize) -> Option<K> {
        self.held_by.largest().filter(|(_, held)| *held > part).map(|(owner, _)| owner.clone())
    }

    fn drop_newest(&mut self, owner: &K) {
        if let Some(queue) = self.queues.get_mut(owner)
            && let Some((weight, _)) = queue.pop_back()
        {
            self.held_by.take(owner, weight);
            self.held -= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::Counted;

    #[test]
    fn anyone_who_fills_the_queues_loses_and_nobody_else() {
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
    fn owners_are_taken_from_in_turn_and_each_in_its_order() {
        let mut queues = FairQueue::new(100);
        for (owner, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("b", 2)] {
            queues.push(&owner, 1, item, |_| panic!("there is room"));
        }
        let taken: Vec<_> = std::iter::from_fn(|| queues.pop()).collect();
        assert_eq!(taken, [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("a", 3)]);
        assert!(queues.is_empty() && queues.queues.is_empty() && queues.turns.is_empty());
    }

    #[test]
    fn whose_item_goes_is_found_in_few_steps_among_many_owners() {
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
    fn nothing_is_held_twice_nor_forgotten() {
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
}
