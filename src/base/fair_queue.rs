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
mod tests;
