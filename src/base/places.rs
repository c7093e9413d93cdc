//! Places for work that cannot be asked to let go, such as a request that is under way, and owners who share them.
//!
//! An owner may have seven times as many as it leaves free: alone it has all but an eighth, two that want all of them have 7/15
//! each, and whoever has none yet finds one. That eighth is the price of it: nobody has to be interrupted. Who waits gets
//! the next place by what its owner has: first whoever has fewest, then whoever had none for longest.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// How many times as many places one owner may have as it leaves free.
const TIMES_FREE: usize = 7;

/// In whose name the host does what it does for itself.
pub const HOST: &str = "";

/// Places of one kind.
pub struct Places(Mutex<State>);

struct State {
    free: usize,
    /// How often an owner came, or was given a place.
    turns: u64,
    /// Of those alone that have a place, or wait for one.
    owners: HashMap<Box<str>, Owner>,
}

struct Owner {
    has: usize,
    /// Its last turn; at first, when it came.
    served: u64,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

/// A place, until it is dropped.
pub struct Place {
    places: Arc<Places>,
    owner: Box<str>,
}

impl Places {
    /// So many places.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: most, turns: 0, owners: HashMap::new() })))
    }

    /// Waits for a place. One that is dropped meanwhile has lost nobody a place.
    pub async fn wait(self: &Arc<Self>, owner: &str) -> Place {
        let coming = {
            let mut state = self.state();
            if state.take(owner) {
                return self.place(owner);
            }
            let (place, coming) = oneshot::channel();
            state.owner(owner).waiting.push_back(place);
            coming
        };
        coming.await.expect("who waits is told, because every place comes back and is given to whoever may have it")
    }

    /// A place, if the owner may have one now.
    #[must_use]
    pub fn take(self: &Arc<Self>, owner: &str) -> Option<Place> {
        self.state().take(owner).then(|| self.place(owner))
    }

    fn place(self: &Arc<Self>, owner: &str) -> Place {
        Place { places: Arc::clone(self), owner: owner.into() }
    }

    /// Gives places to those who wait and may have one.
    fn give(self: &Arc<Self>) {
        loop {
            let Some((waiter, owner)) = self.state().next() else { return };
            // The lock is free again: where nobody waits for it any more, the place comes back and is dropped, which takes the lock.
            drop(waiter.send(Place { places: Arc::clone(self), owner }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn owner(&mut self, name: &str) -> &mut Owner {
        if !self.owners.contains_key(name) {
            // Behind those who wait already.
            self.turns += 1;
            self.owners.insert(name.into(), Owner { has: 0, served: self.turns, waiting: VecDeque::new() });
        }
        self.owners.get_mut(name).expect("it was put in, if it was not there")
    }

    /// Counts a place as an owner's, if it may have one. Nobody who waits may have one: they were given what they may have.
    fn take(&mut self, name: &str) -> bool {
        let has = self.owners.get(name).map_or(0, |owner| owner.has);
        if !may_have_one(has, self.free) {
            return false;
        }
        self.turns += 1;
        self.free -= 1;
        let turn = self.turns;
        let owner = self.owner(name);
        (owner.has, owner.served) = (has + 1, turn);
        true
    }

    /// Who gets the next place.
    fn next(&mut self) -> Option<(oneshot::Sender<Place>, Box<str>)> {
        let free = self.free;
        self.owners.values_mut().for_each(|owner| owner.waiting.retain(|waiter| !waiter.is_closed()));
        self.owners.retain(|_, owner| owner.has > 0 || !owner.waiting.is_empty());
        let may = self.owners.iter().filter(|(_, owner)| !owner.waiting.is_empty() && may_have_one(owner.has, free));
        let name = may.min_by_key(|(_, owner)| (owner.has, owner.served))?.0.clone();
        let waiter = self.owner(&name).waiting.pop_front()?;
        self.take(&name);
        Some((waiter, name))
    }
}

/// Whether an owner that has so many may have one more of so many that are free.
fn may_have_one(has: usize, free: usize) -> bool {
    free > 0 && (has == 0 || has < TIMES_FREE * (free - 1))
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut state = self.places.state();
            state.free += 1;
            state.owner(&self.owner).has -= 1;
        }
        self.places.give();
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("free", &self.state().free).finish_non_exhaustive()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("owner", &self.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
