//! A line of waiters, grouped by owner.

use std::collections::VecDeque;

use super::waiter::Waiter;

/// A line of waiters by owner, each lane in order of arrival.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    /// One lane for each owner with waiters. None is empty.
    lanes: Vec<VecDeque<Waiter>>,
    len: usize,
}

/// Position of a waiter. Valid until the line changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueuePosition {
    lane: usize,
    at: usize,
}

impl WaitQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many calls of `owner` wait.
    pub(super) fn of(&self, owner: &str) -> usize {
        self.lane(owner).map_or(0, |lane| self.lanes[lane].len())
    }

    pub(super) fn push(&mut self, waiter: Waiter) {
        self.len += 1;
        match self.lane(&waiter.owner) {
            Some(lane) => self.lanes[lane].push_back(waiter),
            None => self.lanes.push(VecDeque::from([waiter])),
        }
    }

    /// Returns the key and position of the first waiter that `may` run, of the owner with the
    /// lowest `key`. Owners for which `key` returns `None` are skipped.
    pub(super) fn first<K: Ord + Copy>(
        &self,
        key: impl Fn(&str) -> Option<K>,
        may: impl Fn(&Waiter) -> bool,
    ) -> Option<(K, QueuePosition)> {
        let mut first: Option<(K, u64, QueuePosition)> = None;
        for (lane, waiters) in self.lanes.iter().enumerate() {
            let Some(key) = key(&waiters[0].owner).filter(|key| first.is_none_or(|(least, ..)| *key <= least)) else { continue };
            let Some(at) = waiters.iter().position(&may) else { continue };
            let ticket = waiters[at].ticket;
            if first.is_none_or(|(least, earliest, _)| (key, ticket) < (least, earliest)) {
                first = Some((key, ticket, QueuePosition { lane, at }));
            }
        }
        first.map(|(key, _, slot)| (key, slot))
    }

    /// Returns the waiter that came first of all.
    pub(super) fn earliest(&self) -> Option<QueuePosition> {
        self.first(|_| Some(()), |_| true).map(|(_, slot)| slot)
    }

    /// Returns the last waiter of the owner with the most waiters, and their number.
    pub(super) fn last_of_largest(&self) -> Option<(usize, QueuePosition)> {
        let (lane, waiters) = self.lanes.iter().enumerate().max_by_key(|(_, waiters)| waiters.len())?;
        Some((waiters.len(), QueuePosition { lane, at: waiters.len() - 1 }))
    }

    pub(super) fn at(&self, QueuePosition { lane, at }: QueuePosition) -> &Waiter {
        &self.lanes[lane][at]
    }

    pub(super) fn remove(&mut self, QueuePosition { lane, at }: QueuePosition) -> Option<Waiter> {
        let waiter = self.lanes[lane].remove(at)?;
        self.len -= 1;
        if self.lanes[lane].is_empty() {
            self.lanes.swap_remove(lane);
        }
        Some(waiter)
    }

    /// Removes the waiter of `owner` with `ticket`. Returns false if it is not in the line.
    pub(super) fn take(&mut self, owner: &str, ticket: u64) -> bool {
        let Some(lane) = self.lane(owner) else { return false };
        let at = self.lanes[lane].iter().position(|waiter| waiter.ticket == ticket);
        at.and_then(|at| self.remove(QueuePosition { lane, at })).is_some()
    }

    /// Dismisses all waiters.
    pub(super) fn reject(&mut self) {
        self.lanes.iter_mut().flatten().for_each(Waiter::reject);
    }

    fn lane(&self, owner: &str) -> Option<usize> {
        self.lanes.iter().position(|waiters| *waiters[0].owner == *owner)
    }
}
