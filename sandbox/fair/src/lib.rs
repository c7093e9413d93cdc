//! So many at once of something that takes long or cannot be asked to let go, for owners who share them.
//!
//! One that wants much of it holds up its own, and another's by those that are under way: the next one is of the owner with
//! fewest of them, and then of the one that had none for longest. How many one owner may have is the [`Share`].

#![warn(missing_docs)]

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// In whose name the host does what it does for itself.
pub const HOST: &str = "";

/// How many times as many one owner may have as it leaves free, where it has what is free.
const TIMES_FREE: usize = 7;

/// How many one owner may have under way.
#[derive(Debug, Clone, Copy)]
pub enum Share {
    /// As many as there are: for what is soon over.
    All,
    /// All but so many, even alone, and one at least: for what takes so long that nobody should wait for it.
    AllBut(usize),
    /// Seven times as many as it leaves free. Alone it has all but an eighth, two that want all of them have 7/15 each, and whoever
    /// has none yet finds one. That eighth is the price of it: nobody has to be interrupted.
    OfFree,
}

impl Share {
    /// Whether an owner that has so many of `most` may have one more of those that are `free`.
    #[must_use]
    pub fn allows(self, most: usize, has: usize, free: usize) -> bool {
        free > 0
            && match self {
                Self::All => true,
                Self::AllBut(room) => has < most.saturating_sub(room).max(1),
                Self::OfFree => has == 0 || has < TIMES_FREE * (free - 1),
            }
    }
}

/// So many of one kind.
pub struct Fair<K: Owner> {
    share: Share,
    /// How many are under way at once, at least 1.
    most: usize,
    state: Mutex<State<K>>,
}

/// By what owners are told apart.
pub trait Owner: Clone + Eq + Hash {}

impl<K: Clone + Eq + Hash> Owner for K {}

struct State<K: Owner> {
    under_way: usize,
    /// How often an owner came, or one of its ended.
    turns: u64,
    /// Of those alone that have some under way, or wait for one.
    owners: HashMap<K, Line<K>>,
}

/// What an owner has, and those that wait in its name.
struct Line<K: Owner> {
    under_way: usize,
    /// When it came, or its last one ended.
    turn: u64,
    waiting: VecDeque<oneshot::Sender<Leave<K>>>,
}

/// Leave to do one. Dropping it gives the leave to the next.
pub struct Leave<K: Owner> {
    fair: Arc<Fair<K>>,
    owner: K,
}

impl<K: Owner> Fair<K> {
    /// `most` at once, of all owners.
    #[must_use]
    pub fn new(most: usize, share: Share) -> Arc<Self> {
        Arc::new(Self { share, most: most.max(1), state: Mutex::new(State { under_way: 0, turns: 0, owners: HashMap::new() }) })
    }

    /// Leave, if the owner may have one now.
    #[must_use]
    pub fn take(self: &Arc<Self>, owner: K) -> Option<Leave<K>> {
        self.state().take(self, &owner).then(|| self.leave(owner))
    }

    /// Waits for the turn of `owner`. One that is dropped meanwhile gives its turn to the next.
    ///
    /// # Panics
    ///
    /// Never: whoever waits is told of its turn, because each leave ends.
    pub async fn turn(self: &Arc<Self>, owner: K) -> Leave<K> {
        let coming = {
            let mut state = self.state();
            if state.take(self, &owner) {
                return self.leave(owner);
            }
            state.line(&owner).wait()
        };
        coming.await.expect("who waits is told of its turn, because leaves end")
    }

    fn leave(self: &Arc<Self>, owner: K) -> Leave<K> {
        Leave { fair: Arc::clone(self), owner }
    }

    /// Whether an owner that has so many may have one more, where so many are under way.
    fn allows(&self, has: usize, under_way: usize) -> bool {
        self.share.allows(self.most, has, self.most - under_way)
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Owner> State<K> {
    fn line(&mut self, owner: &K) -> &mut Line<K> {
        if !self.owners.contains_key(owner) {
            // Behind those who wait already.
            self.turns += 1;
            self.owners.insert(owner.clone(), Line { under_way: 0, turn: self.turns, waiting: VecDeque::new() });
        }
        self.owners.get_mut(owner).expect("it was put in, if it was not there")
    }

    /// Counts one as an owner's, if it may have one. Nobody who waits may: they were told of what they may have.
    fn take(&mut self, fair: &Fair<K>, owner: &K) -> bool {
        let has = self.owners.get(owner).map_or(0, |line| line.under_way);
        let may = fair.allows(has, self.under_way);
        if may {
            self.under_way += 1;
            self.line(owner).under_way += 1;
        }
        may
    }

    /// Takes one back from an owner.
    fn end(&mut self, owner: &K) {
        self.turns += 1;
        self.under_way -= 1;
        let turn = self.turns;
        let line = self.line(owner);
        (line.under_way, line.turn) = (line.under_way - 1, turn);
        // Who went away holds up nobody, and an owner that has none and wants none is forgotten.
        for line in self.owners.values_mut() {
            while line.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                line.waiting.pop_front();
            }
        }
        self.owners.retain(|_, line| line.under_way > 0 || !line.waiting.is_empty());
    }

    /// Who is next, of those that wait.
    fn next(&mut self, fair: &Fair<K>) -> Option<(oneshot::Sender<Leave<K>>, K)> {
        let may = self.owners.iter().filter(|(_, line)| !line.waiting.is_empty() && fair.allows(line.under_way, self.under_way));
        let owner = may.min_by_key(|(_, line)| (line.under_way, line.turn))?.0.clone();
        let turn = self.line(&owner).waiting.pop_front()?;
        self.take(fair, &owner);
        Some((turn, owner))
    }
}

impl<K: Owner> Line<K> {
    fn wait(&mut self) -> oneshot::Receiver<Leave<K>> {
        if self.waiting.len() == self.waiting.capacity() {
            // Those who went away go before the room for them grows, at most each time that as many came as are here.
            self.waiting.retain(|turn| !turn.is_closed());
            self.waiting.reserve(self.waiting.len().max(4));
        }
        let (turn, coming) = oneshot::channel();
        self.waiting.push_back(turn);
        coming
    }
}

impl<K: Owner> Drop for Leave<K> {
    fn drop(&mut self) {
        let next: Vec<_> = {
            let mut state = self.fair.state();
            state.end(&self.owner);
            iter::from_fn(|| state.next(&self.fair)).collect()
        };
        for (turn, owner) in next {
            // The lock is free again: where nobody waits for it any more, leave comes back and is dropped, which takes the lock.
            drop(turn.send(self.fair.leave(owner)));
        }
    }
}

impl<K: Owner> fmt::Debug for Fair<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = self.state().under_way;
        f.debug_struct("Fair").field("share", &self.share).field("most", &self.most).field("under_way", &under_way).finish_non_exhaustive()
    }
}

impl<K: Owner + fmt::Debug> fmt::Debug for Leave<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leave").field("owner", &self.owner).finish_non_exhaustive()
    }
}
