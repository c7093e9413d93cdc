//! So many at once of something that takes long, and owners take turns.
//!
//! One that wants much of it holds up its own, and another's by those that are under way: the next turn is of who has fewest
//! of them. Alone, one has them all.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// Whose turn it is.
#[derive(Debug)]
pub struct Fair<K: Clone + Eq> {
    /// How many are under way at once, at least 1.
    most: usize,
    /// How many of one owner are, at least 1.
    each: usize,
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K: Clone + Eq> {
    under_way: usize,
    turns: u64,
    /// Of those that have some under way, or wait for one.
    owners: Vec<Owner<K>>,
}

#[derive(Debug)]
struct Owner<K: Clone + Eq> {
    name: K,
    under_way: usize,
    /// Its last turn.
    served: u64,
    waiting: VecDeque<oneshot::Sender<Leave<K>>>,
}

/// Leave to do one. Dropping it gives the leave to the next.
#[derive(Debug)]
pub struct Leave<K: Clone + Eq> {
    fair: Arc<Fair<K>>,
    owner: K,
}

impl<K: Clone + Eq> Fair<K> {
    /// `most` at once, of all owners.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Self::leaving(most, 0)
    }

    /// The same, of which one owner leaves `room` to others, even alone: for what takes so long that nobody should wait for it.
    #[must_use]
    pub fn leaving(most: usize, room: usize) -> Arc<Self> {
        let (most, each) = (most.max(1), most.saturating_sub(room).max(1));
        Arc::new(Self { most, each, state: Mutex::new(State { under_way: 0, turns: 0, owners: Vec::new() }) })
    }

    /// Waits for the turn of `owner`. One that is dropped meanwhile gives its turn to the next.
    ///
    /// # Panics
    ///
    /// Never: whoever waits is told of its turn, because each leave ends.
    pub async fn turn(self: &Arc<Self>, owner: K) -> Leave<K> {
        let (leave, turn) = oneshot::channel();
        self.state().owner(&owner).waiting.push_back(leave);
        self.dispatch();
        turn.await.expect("who waits is told of its turn, because leaves end")
    }

    /// Lets those go on whose turn it is.
    fn dispatch(self: &Arc<Self>) {
        loop {
            let next = self.state().next(self.most, self.each);
            let Some((turn, owner)) = next else { return };
            // The lock is free again: where nobody waits for it any more, leave comes back and is dropped, which takes the lock.
            drop(turn.send(Leave { fair: Arc::clone(self), owner }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq> State<K> {
    fn owner(&mut self, name: &K) -> &mut Owner<K> {
        let at = self.owners.iter().position(|owner| owner.name == *name).unwrap_or_else(|| {
            self.owners.push(Owner { name: name.clone(), under_way: 0, served: 0, waiting: VecDeque::new() });
            self.owners.len() - 1
        });
        &mut self.owners[at]
    }

    /// Who is next, if one more may be under way: of the owner with fewest of them, and then of the one that had none for longest.
    fn next(&mut self, most: usize, each: usize) -> Option<(oneshot::Sender<Leave<K>>, K)> {
        for owner in &mut self.owners {
            while owner.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                owner.waiting.pop_front();
            }
        }
        self.owners.retain(|owner| owner.under_way > 0 || !owner.waiting.is_empty());
        if self.under_way >= most {
            return None;
        }
        let wanting = self.owners.iter_mut().filter(|owner| owner.under_way < each && !owner.waiting.is_empty());
        let owner = wanting.min_by_key(|owner| (owner.under_way, owner.served))?;
        let turn = owner.waiting.pop_front()?;
        self.turns += 1;
        self.under_way += 1;
        (owner.under_way, owner.served) = (owner.under_way + 1, self.turns);
        Some((turn, owner.name.clone()))
    }
}

impl<K: Clone + Eq> Drop for Leave<K> {
    fn drop(&mut self) {
        {
            let mut state = self.fair.state();
            state.under_way -= 1;
            state.owner(&self.owner).under_way -= 1;
        }
        self.fair.dispatch();
    }
}
