//! Limits on calls that go on after their answer (`ctx.waitUntil`).
//!
//! Such a call keeps its worker and its places until its work ends or a limit stops it, although
//! nobody waits for it. All of them together have a quarter of the processes. An owner can have at
//! most half of these, and an endpoint a quarter, so that a newcomer always finds a place. A call
//! without a place ends with its answer.

use std::sync::Arc;

use tollhouse_fair::{FairPermit, FairSemaphore, Share};
use tollhouse_protocol::{Outcome, StopReason};

/// One in four processes can work after an answer, and one in four of these for one endpoint.
const PART: usize = 4;

/// The end of the work after a call's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackgroundEnd {
    /// It ended.
    Done,
    /// It was not done, because too many other calls work after their answer.
    Refused,
    /// It was stopped.
    Stopped(StopReason),
}

/// The places of calls that work after their answer.
#[derive(Debug)]
pub(crate) struct Background {
    by_owner: Arc<FairSemaphore<Box<str>>>,
    by_endpoint: Arc<FairSemaphore<Box<str>>>,
}

impl Background {
    /// Creates the places of a pool with at most `processes`.
    pub(crate) fn new(processes: usize) -> Self {
        let max = (processes / PART).max(1);
        let by_endpoint = FairSemaphore::new(max, Share::AllBut(max - max / PART));
        Self { by_owner: FairSemaphore::new(max, Share::HalfOfFree), by_endpoint }
    }

    /// Returns the work after the answer of one call, which holds no place yet.
    pub(crate) fn of_call<'a>(&'a self, owner: &'a str, endpoint: &'a str) -> BackgroundWork<'a> {
        BackgroundWork { places: self, owner, endpoint, held: None, answer: None, reported_us: 0 }
    }
}

/// The work after the answer of one call. Dropping it releases its place.
#[derive(Debug)]
pub(crate) struct BackgroundWork<'a> {
    places: &'a Background,
    owner: &'a str,
    endpoint: &'a str,
    held: Option<[FairPermit<Box<str>>; 2]>,
    /// The outcome that was reported before the end of the call.
    answer: Option<Outcome>,
    /// The processor time that was reported with it, in microseconds.
    reported_us: u64,
}

impl BackgroundWork<'_> {
    /// Takes a place for the work after `answer`. Returns false if there is none.
    pub(crate) fn begin(&mut self, answer: &Outcome, reported_us: u64) -> bool {
        let owner = self.places.by_owner.take(self.owner.into());
        let endpoint = self.places.by_endpoint.take(self.endpoint.into());
        self.held = owner.zip(endpoint).map(Into::into);
        if self.held.is_some() {
            (self.answer, self.reported_us) = (Some(answer.clone()), reported_us);
        }
        self.held.is_some()
    }

    /// Returns the processor time of the call that was reported already, in microseconds.
    pub(crate) fn reported_us(&self) -> u64 {
        self.reported_us
    }

    /// Takes the answer, if the call went on after it.
    pub(crate) fn take_answer(&mut self) -> Option<Outcome> {
        self.answer.take()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_protocol::StopReason;

    use super::*;

    fn begin<'a>(places: &'a Background, owner: &'a str, endpoint: &'a str) -> Option<BackgroundWork<'a>> {
        let mut work = places.of_call(owner, endpoint);
        work.begin(&Outcome::Stopped(StopReason::Deadlock), 7).then_some(work)
    }

    #[test]
    fn endpoint_and_owner_have_a_part_and_a_newcomer_finds_a_place() {
        let places = Background::new(64);
        let of_one: Vec<_> = std::iter::from_fn(|| begin(&places, "a", "x")).collect();
        assert_eq!(of_one.len(), 4);
        let mut of_owner: Vec<_> = (0..16).filter_map(|_| begin(&places, "a", "y")).collect();
        assert!(of_owner.len() <= 4 && of_one.len() + of_owner.len() <= 8, "{}", of_owner.len());
        assert!(begin(&places, "b", "z").is_some());
        of_owner.clear();
        assert!(begin(&places, "a", "y").is_some(), "an end frees a place");
        assert!(begin(&places, "a", "x").is_none());
        drop(of_one);
        assert!(begin(&places, "a", "x").is_some());
    }

    #[test]
    fn a_small_pool_has_one_place() {
        let places = Background::new(1);
        let one = begin(&places, "a", "x");
        assert!(one.is_some() && begin(&places, "b", "y").is_none());
        drop(one);
        assert!(begin(&places, "b", "y").is_some_and(|work| work.reported_us() == 7));
    }
}
