//! The limit on scheduled runs at once, shared by owners.

use std::sync::Arc;

use tollhouse_fair::{FairPermit, FairSemaphore, Share};
use tollhouse_tool::Owner;

/// Maximum number of scheduled runs at once on a host.
const MAX_RUNS: usize = 8;

/// The scheduled runs of a host.
pub(super) struct ScheduledRuns(Arc<FairSemaphore<String>>);

impl ScheduledRuns {
    pub(super) fn new() -> Self {
        Self(FairSemaphore::new(MAX_RUNS, Share::HalfOfFree))
    }

    /// Returns a permit for a run, unless the owner has its share of them.
    pub(super) fn take(&self, owner: &Owner) -> Option<FairPermit<String>> {
        self.0.take(owner.share().to_owned())
    }

    /// Returns whether no owner can have a run now.
    pub(super) fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_base::id::BuilderId;

    use super::*;

    #[test]
    fn runs_of_one_owner_leave_room_for_others() {
        let runs = ScheduledRuns::new();
        let of_one: Vec<_> = std::iter::from_fn(|| runs.take(&Owner::Platform)).collect();
        assert_eq!(of_one.len(), MAX_RUNS / 2);
        assert!(runs.take(&Owner::Builder(BuilderId::generate())).is_some());
    }

    #[test]
    fn runs_are_full_once_there_are_eight() {
        let runs = ScheduledRuns::new();
        let mut all: Vec<_> = (1..MAX_RUNS).map(|_| runs.take(&Owner::Builder(BuilderId::generate())).unwrap()).collect();
        assert!(!runs.is_full());
        all.push(runs.take(&Owner::Platform).unwrap());
        assert!(runs.is_full());
        all.clear();
        assert!(!runs.is_full());
    }
}
