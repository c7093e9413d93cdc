//! Fair limit on concurrent work, shared by owners. For work that takes long or cannot be
//! interrupted.
//!
//! The next permit goes to the owner with the fewest permits, and among those to the one that has
//! waited longest since its last permit. The [`Share`] limits the permits of one owner.

#![warn(missing_docs)]

pub mod lock;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    iter,
    sync::Arc,
};

use tokio::sync::oneshot;

use self::lock::Lock;

/// The owner name for the host's own work.
pub const HOST: &str = "";

/// Maximum ratio between the permits of an owner and those that it leaves free.
const TIMES_FREE: usize = 7;

/// Maximum permits of one owner.
#[derive(Debug, Clone, Copy)]
pub enum Share {
    /// All of them. For short work.
    All,
    /// All except this many, but at least one, even if nobody else wants one. For work so long that
    /// nobody should wait for it.
    AllBut(usize),
    /// Seven times as many as it leaves free. A single owner gets 7/8, two owners get 7/15 each, and
    /// a newcomer always finds one free. Some permits stay unused, because work is never interrupted.
    OfFree,
    /// As many as it leaves free. A single owner gets half, two owners get a third each. For owners
    /// that one person can have several of: of 64 permits, three owners leave 8 even if they come one
    /// after the other.
    HalfOfFree,
}

impl Share {
    /// Returns whether an owner that has `has` of `max` permits can have one of the `free` ones.
    #[must_use]
    pub fn allows(self, max: usize, has: usize, free: usize) -> bool {
        free > 0
            && match self {
                Self::All => true,
                Self::AllBut(room) => has < max.saturating_sub(room).max(1),
                Self::OfFree => has == 0 || has < TIMES_FREE * (free - 1),
                Self::HalfOfFree => has == 0 || has < free - 1,
            }
    }
}

/// A limit on the concurrent work of one kind.
pub struct FairSemaphore<K: Owner> {
    share: Share,
    /// Maximum number of permits, at least 1.
    max: usize,
    state: Lock<State<K>>,
}

/// The key that identifies an owner.
pub trait Owner: Clone + Eq + Hash {}

impl<K: Clone + Eq + Hash> Owner for K {}

struct State<K: Owner> {
    in_flight: usize,
    /// Counts arrivals of owners and ends of permits.
    turns: u64,
    /// Only owners that have a permit or wait for one.
    owners: HashMap<K, OwnerQueue<K>>,
}

/// The permits and waiters of an owner.
struct OwnerQueue<K: Owner> {
    in_flight: usize,
    /// The turn in which it arrived, or its last permit ended.
    turn: u64,
    waiting: VecDeque<oneshot::Sender<FairPermit<K>>>,
}

/// A permit for one piece of work. Dropping it passes the permit on.
pub struct FairPermit<K: Owner> {
    fair: Arc<FairSemaphore<K>>,
    owner: K,
}

impl<K: Owner> FairSemaphore<K> {
    /// Creates a limit of `max` permits for all owners together.
    #[must_use]
    pub fn new(max: usize, share: Share) -> Arc<Self> {
        Arc::new(Self { share, max: max.max(1), state: Lock::new(State { in_flight: 0, turns: 0, owners: HashMap::new() }) })
    }

    /// Takes a permit if the owner can have one now.
    #[must_use]
    pub fn take(self: &Arc<Self>, owner: K) -> Option<FairPermit<K>> {
        self.state.lock().take(self, &owner).then(|| self.permit(owner))
    }

    /// Returns whether all permits are taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.state.lock().in_flight >= self.max
    }

    /// Waits for a permit for `owner`. If the future is dropped, its permit passes to the next
    /// waiter.
    ///
    /// # Panics
    ///
    /// Never: every waiter gets a permit, because each permit ends.
    pub async fn turn(self: &Arc<Self>, owner: K) -> FairPermit<K> {
        let granted = {
            let mut state = self.state.lock();
            if state.take(self, &owner) {
                return self.permit(owner);
            }
            state.queue_of(&owner).wait()
        };
        granted.await.expect("every waiter is notified, because permits end")
    }

    fn permit(self: &Arc<Self>, owner: K) -> FairPermit<K> {
        FairPermit { fair: Arc::clone(self), owner }
    }

    /// Returns whether an owner that has `has` permits can have one more while `in_flight` are in
    /// use.
    fn allows(&self, has: usize, in_flight: usize) -> bool {
        self.share.allows(self.max, has, self.max - in_flight)
    }
}

impl<K: Owner> State<K> {
    fn queue_of(&mut self, owner: &K) -> &mut OwnerQueue<K> {
        if !self.owners.contains_key(owner) {
            // A new owner goes behind those that already wait.
            self.turns += 1;
            self.owners.insert(owner.clone(), OwnerQueue { in_flight: 0, turn: self.turns, waiting: VecDeque::new() });
        }
        self.owners.get_mut(owner).expect("the owner exists or was just inserted")
    }

    /// Takes a permit for an owner, if it can have one. No waiter is overtaken: waiters have
    /// already received what they can have.
    fn take(&mut self, fair: &FairSemaphore<K>, owner: &K) -> bool {
        let has = self.owners.get(owner).map_or(0, |queue| queue.in_flight);
        let may = fair.allows(has, self.in_flight);
        if may {
            self.in_flight += 1;
            self.queue_of(owner).in_flight += 1;
        }
        may
    }

    /// Returns a permit of an owner.
    fn end(&mut self, owner: &K) {
        self.turns += 1;
        self.in_flight -= 1;
        let turn = self.turns;
        let queue = self.queue_of(owner);
        (queue.in_flight, queue.turn) = (queue.in_flight - 1, turn);
        // Abandoned waiters are removed, and so is an owner without permits and waiters.
        for queue in self.owners.values_mut() {
            while queue.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                queue.waiting.pop_front();
            }
        }
        self.owners.retain(|_, queue| queue.in_flight > 0 || !queue.waiting.is_empty());
    }

    /// Returns the next waiter that can have a permit.
    fn next(&mut self, fair: &FairSemaphore<K>) -> Option<(oneshot::Sender<FairPermit<K>>, K)> {
        let may = self.owners.iter().filter(|(_, queue)| !queue.waiting.is_empty() && fair.allows(queue.in_flight, self.in_flight));
        let owner = may.min_by_key(|(_, queue)| (queue.in_flight, queue.turn))?.0.clone();
        let turn = self.queue_of(&owner).waiting.pop_front()?;
        self.take(fair, &owner);
        Some((turn, owner))
    }
}

impl<K: Owner> OwnerQueue<K> {
    fn wait(&mut self) -> oneshot::Receiver<FairPermit<K>> {
        if self.waiting.len() == self.waiting.capacity() {
            // Removes abandoned waiters before the queue grows, so at most once for each doubling.
            self.waiting.retain(|turn| !turn.is_closed());
            self.waiting.reserve(self.waiting.len().max(4));
        }
        let (turn, granted) = oneshot::channel();
        self.waiting.push_back(turn);
        granted
    }
}

impl<K: Owner> Drop for FairPermit<K> {
    fn drop(&mut self) {
        let next: Vec<_> = {
            let mut state = self.fair.state.lock();
            state.end(&self.owner);
            iter::from_fn(|| state.next(&self.fair)).collect()
        };
        for (turn, owner) in next {
            // The lock is free again here: if the waiter is gone, the permit comes back and is
            // dropped, which takes the lock.
            drop(turn.send(self.fair.permit(owner)));
        }
    }
}

impl<K: Owner> fmt::Debug for FairSemaphore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = self.state.lock().in_flight;
        f.debug_struct("FairSemaphore")
            .field("share", &self.share)
            .field("max", &self.max)
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

impl<K: Owner + fmt::Debug> fmt::Debug for FairPermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairPermit").field("owner", &self.owner).finish_non_exhaustive()
    }
}
