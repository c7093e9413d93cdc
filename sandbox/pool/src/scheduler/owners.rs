//! Usage by owner, and the share that each owner leaves to others.

use std::collections::HashMap;

use tollhouse_fair::Share;

/// With fewer processes, or fewer places at an endpoint, none is reserved for others.
pub(super) const FEW: usize = 4;

/// Owners by name.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: HashMap<Box<str>, Owner>,
    turns: u64,
}

/// The usage of one owner.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Owner {
    /// Calls that have a process.
    pub(super) admitted: usize,
    /// Calls with a running slot.
    pub(super) running: usize,
    /// Calls that compute without a slot.
    pub(super) background: usize,
    /// The turn in which it last took a slot, counted over all owners.
    served: u64,
}

/// Rank of an owner for the next slot: fewest computing calls first, then the longest wait since
/// the last slot.
pub(super) type Rank = (usize, u64);

impl Owner {
    pub(super) fn computing(&self) -> usize {
        self.running + self.background
    }

    pub(super) fn rank(&self) -> Rank {
        (self.computing(), self.served)
    }

    /// Returns whether it can have one more of `all` processes, `free` of which are unused.
    pub(super) fn may_have_process(&self, all: usize, free: usize) -> bool {
        let share = if all < FEW { Share::All } else { Share::OfFree };
        share.allows(all, self.admitted, free)
    }
}

impl Owners {
    pub(super) fn get(&self, name: &str) -> Owner {
        self.all.get(name).copied().unwrap_or_default()
    }

    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut Owner)) {
        match self.all.get_mut(name) {
            Some(owner) => change(owner),
            None => change(self.all.entry(name.into()).or_default()),
        }
    }

    /// Counts a running slot that an owner takes in its turn.
    pub(super) fn serve(&mut self, name: &str) {
        self.turns += 1;
        let turn = self.turns;
        self.change(name, |owner| {
            owner.running += 1;
            owner.served = turn;
        });
    }

    /// Forgets owners without calls.
    pub(super) fn prune_idle(&mut self) {
        self.all.retain(|_, owner| owner.admitted > 0);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.all.values().all(|owner| owner.admitted + owner.computing() == 0)
    }
}
