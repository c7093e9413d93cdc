//! A key type that counts operations on it, so that tests can measure how many keys an algorithm visits.

use std::{
    cell::Cell,
    cmp::Ordering,
    hash::{Hash, Hasher},
};

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

fn step() {
    STEPS.set(STEPS.get() + 1);
}

/// A key whose clones, hashes and comparisons are counted per thread.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) u32);

impl Counted {
    /// Returns the number of operations that `work` performs on such keys.
    pub(crate) fn steps(work: impl FnOnce()) -> u64 {
        let before = STEPS.get();
        work();
        STEPS.get() - before
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        step();
        Self(self.0)
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        step();
        self.0 == other.0
    }
}

impl Eq for Counted {}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Counted {
    fn cmp(&self, other: &Self) -> Ordering {
        step();
        self.0.cmp(&other.0)
    }
}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        step();
        self.0.hash(state);
    }
}
