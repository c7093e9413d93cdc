//! What owners have, and what each leaves to the others.

use std::collections::HashMap;

use tollhouse_fair::Share;

/// Fewer processes than this are not worth sparing one.
const FEW: usize = 4;

/// Owners by their names.
#[derive(Debug, Default)]
pub(super) struct Owners {
    all: HashMap<Box<str>, Owner>,
    turns: u64,
}

/// What one owner has.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Owner {
    /// Calls that have a process.
    pub(super) admitted: usize,
    /// Calls with a running slot.
    pub(super) running: usize,
    /// Calls that compute without.
    pub(super) background: usize,
    /// When it last took a slot, in turns of all owners.
    served: u64,
}

/// Where an owner stands among those who want a slot: first who computes least, then who had none for longest.
pub(super) type Rank = (usize, u64);

impl Owner {
    pub(super) fn computing(&self) -> usize {
        self.running + self.background
    }

    pub(super) fn rank(&self) -> Rank {
        (self.computing(), self.served)
    }

    /// Whether it may have one more of `all` processes of which so many are `free`.
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

    /// Forgets those that have nothing.
    pub(super) fn forget_absent(&mut self) {
        self.all.retain(|_, owner| owner.admitted > 0);
    }

    #[cfg(test)]
    pub(super) fn remembers_nobody(&self) -> bool {
        self.all.is_empty()
    }

    #[cfg(test)]
    pub(super) fn count_nobody(&self) -> bool {
        self.all.values().all(|owner| owner.admitted + owner.computing() == 0)
    }
}
