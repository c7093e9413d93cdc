//! The limit on scheduled runs at once, shared by owners, and the order in which owners have them.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tollhouse_base::lock::Lock;
use tollhouse_catalog::DueSchedule;
use tollhouse_fair::{FairPermit, FairSemaphore, Share};
use tollhouse_tool::Owner;

/// Maximum number of scheduled runs at once on a host.
const MAX_RUNS: usize = 8;

/// Maximum number of owners whose last run is remembered. The others count as waiting longest.
const MAX_REMEMBERED: usize = 1_024;

/// The scheduled runs of a host.
pub(super) struct ScheduledRuns {
    runs: Arc<FairSemaphore<String>>,
    /// The owners whose runs have begun, the latest at the end.
    begun: Lock<VecDeque<String>>,
}

impl ScheduledRuns {
    pub(super) fn new() -> Self {
        Self { runs: FairSemaphore::new(MAX_RUNS, Share::HalfOfFree), begun: Lock::default() }
    }

    /// Returns a permit for a run, unless the owner has its share of them.
    pub(super) fn take(&self, owner: &Owner) -> Option<FairPermit<String>> {
        self.runs.take(owner.share().to_owned())
    }

    /// Returns whether no owner can have a run now.
    pub(super) fn is_full(&self) -> bool {
        self.runs.is_full()
    }

    /// Records that a run of this owner has begun.
    pub(super) fn record_begun(&self, owner: &Owner) {
        let mut begun = self.begun.lock();
        begun.retain(|earlier| earlier != owner.share());
        begun.push_back(owner.share().to_owned());
        if begun.len() > MAX_REMEMBERED {
            begun.pop_front();
        }
    }

    /// Returns due schedules, which are in order of time, such that owners take turns: first the one whose last run began
    /// longest ago. Those of one owner stay in order.
    pub(super) fn in_turns(&self, due: Vec<DueSchedule>) -> Vec<DueSchedule> {
        let begun = self.begun.lock();
        let ranks: HashMap<&str, usize> = begun.iter().enumerate().map(|(at, owner)| (owner.as_str(), at + 1)).collect();
        let mut rounds: HashMap<String, usize> = HashMap::new();
        let mut keyed: Vec<_> = due
            .into_iter()
            .map(|schedule| {
                let owner = schedule.owner.share();
                let round = rounds.entry(owner.to_owned()).or_default();
                *round += 1;
                ((*round, ranks.get(owner).copied().unwrap_or(0)), schedule)
            })
            .collect();
        keyed.sort_by_key(|(key, _)| *key);
        keyed.into_iter().map(|(_, schedule)| schedule).collect()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_base::id::{BuilderId, EndpointId};

    use super::*;

    fn owner() -> Owner {
        Owner::Builder(BuilderId::generate())
    }

    #[test]
    fn runs_of_one_owner_leave_room_for_others() {
        let runs = ScheduledRuns::new();
        let of_one: Vec<_> = std::iter::from_fn(|| runs.take(&Owner::Platform)).collect();
        assert_eq!(of_one.len(), MAX_RUNS / 2);
        assert!(runs.take(&owner()).is_some());
    }

    #[test]
    fn runs_are_full_once_there_are_eight() {
        let runs = ScheduledRuns::new();
        let mut all: Vec<_> = (1..MAX_RUNS).map(|_| runs.take(&owner()).unwrap()).collect();
        assert!(!runs.is_full());
        all.push(runs.take(&Owner::Platform).unwrap());
        assert!(runs.is_full());
        all.clear();
        assert!(!runs.is_full());
    }

    #[test]
    fn owners_take_turns_beginning_with_the_one_that_waits_longest() {
        let (runs, [a, b, c]) = (ScheduledRuns::new(), [(); 3].map(|()| owner()));
        let due = |owners: &[&Owner]| -> Vec<_> {
            owners.iter().map(|owner| DueSchedule { owner: (*owner).clone(), endpoint: EndpointId::generate() }).collect()
        };
        let order = |due: Vec<DueSchedule>| -> Vec<Owner> { runs.in_turns(due).into_iter().map(|schedule| schedule.owner).collect() };
        // Many tools of one owner were due first.
        let many = due(&[&a, &a, &a, &b, &c, &b]);
        let first = many[0].endpoint.clone();
        assert_eq!(order(many.clone()), [&a, &b, &c, &a, &b, &a].map(Clone::clone));
        assert_eq!(runs.in_turns(many.clone())[0].endpoint, first, "those of one owner stay in order");
        runs.record_begun(&a);
        runs.record_begun(&b);
        assert_eq!(order(many.clone()), [&c, &a, &b, &a, &b, &a].map(Clone::clone));
        runs.record_begun(&a);
        assert_eq!(order(many)[..3], [c, b, a]);
        for _ in 0..=MAX_REMEMBERED {
            runs.record_begun(&owner());
        }
        assert_eq!(runs.begun.lock().len(), MAX_REMEMBERED);
    }
}
