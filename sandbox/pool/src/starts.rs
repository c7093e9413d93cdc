//! Starts of processes: a few at once, and owners take turns.
//!
//! A start takes more of the machine than most calls do. Whoever has process after process started, because each of its calls
//! wants one of its own or loses it, holds up its own starts, and another owner's by those that are under way.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// In whose name the host starts what no call waits for.
pub(crate) const HOST: &str = "";

/// Whose turn it is to start a process.
#[derive(Debug)]
pub(crate) struct Starts {
    /// How many are under way at once, at least 1.
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    turns: u64,
    /// Of those that have starts under way, or wait for one.
    owners: Vec<Owner>,
}

#[derive(Debug)]
struct Owner {
    name: Box<str>,
    under_way: usize,
    /// Its last turn.
    served: u64,
    waiting: VecDeque<oneshot::Sender<Start>>,
}

/// Leave to start a process, until it is ready. Dropping it gives the leave to the next.
#[derive(Debug)]
pub(crate) struct Start {
    starts: Arc<Starts>,
    owner: Box<str>,
}

impl Starts {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), state: Mutex::default() })
    }

    /// Waits for the turn of `owner`. One that is dropped meanwhile gives its turn to the next.
    pub(crate) async fn turn(self: &Arc<Self>, owner: &str) -> Start {
        let (start, turn) = oneshot::channel();
        self.state().owner(owner).waiting.push_back(start);
        self.dispatch();
        turn.await.expect("who waits is told of its turn, because starts end")
    }

    /// Lets those start whose turn it is.
    fn dispatch(self: &Arc<Self>) {
        loop {
            let next = self.state().next(self.most);
            let Some((turn, owner)) = next else { return };
            // The lock is free again: where nobody waits for it any more, leave comes back and is dropped, which takes the lock.
            drop(turn.send(Start { starts: Arc::clone(self), owner }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn owner(&mut self, name: &str) -> &mut Owner {
        let at = self.owners.iter().position(|owner| *owner.name == *name).unwrap_or_else(|| {
            self.owners.push(Owner { name: name.into(), under_way: 0, served: 0, waiting: VecDeque::new() });
            self.owners.len() - 1
        });
        &mut self.owners[at]
    }

    /// Who starts next, if one more may be under way: of the owner with fewest of them, and then of the one that had none for longest.
    fn next(&mut self, most: usize) -> Option<(oneshot::Sender<Start>, Box<str>)> {
        self.owners.iter_mut().for_each(|owner| owner.waiting.retain(|turn| !turn.is_closed()));
        self.owners.retain(|owner| owner.under_way > 0 || !owner.waiting.is_empty());
        if self.under_way >= most {
            return None;
        }
        let wanting = self.owners.iter_mut().filter(|owner| !owner.waiting.is_empty());
        let owner = wanting.min_by_key(|owner| (owner.under_way, owner.served))?;
        let turn = owner.waiting.pop_front()?;
        self.turns += 1;
        self.under_way += 1;
        (owner.under_way, owner.served) = (owner.under_way + 1, self.turns);
        Some((turn, owner.name.clone()))
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        {
            let mut state = self.starts.state();
            state.under_way -= 1;
            state.owner(&self.owner).under_way -= 1;
        }
        self.starts.dispatch();
    }
}
