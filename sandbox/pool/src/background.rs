//! Limits on calls that go on after their answer (`ctx.waitUntil`).
//!
//! Such a call keeps its worker and its places until its work ends or a limit stops it, although
//! nobody waits for it. All of them together have a quarter of the processes. An owner can have at
//! most half of these, and an endpoint a quarter, so that a newcomer always finds a place. Of an
//! endpoint's places, a caller can have as many as it leaves free, because otherwise the work of
//! other callers' calls would be lost. A call without a place ends with its answer.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use tollhouse_fair::{FairPermit, FairSemaphore, Share, lock::Lock};
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
    by_endpoint: Arc<EndpointPlaces>,
}

impl Background {
    /// Creates the places of a pool with at most `processes`.
    pub(crate) fn new(processes: usize) -> Self {
        let max = (processes / PART).max(1);
        let by_endpoint = Arc::new(EndpointPlaces { max: (max / PART).max(1), endpoints: Lock::default() });
        Self { by_owner: FairSemaphore::new(max, Share::HalfOfFree), by_endpoint }
    }

    /// Returns the work after the answer of one call, which holds no place yet. Only a call without
    /// a caller can have all places of its endpoint.
    pub(crate) fn of_call<'a>(&'a self, owner: &'a str, endpoint: &'a str, caller: Option<IpAddr>) -> BackgroundWork<'a> {
        BackgroundWork { places: self, owner, endpoint, caller, held: None, answer: None, reported_us: 0 }
    }
}

/// The places of each endpoint, which its callers share.
#[derive(Debug)]
struct EndpointPlaces {
    /// Maximum of one endpoint.
    max: usize,
    /// Endpoints without a place in use have no entry.
    endpoints: Lock<HashMap<Box<str>, EndpointUse>>,
}

/// The places in use at one endpoint.
#[derive(Debug, Default)]
struct EndpointUse {
    all: usize,
    /// Callers without a place have no entry.
    callers: HashMap<IpAddr, usize>,
}

/// A place at an endpoint. Dropping it releases the place.
#[derive(Debug)]
struct EndpointPlace {
    places: Arc<EndpointPlaces>,
    endpoint: Box<str>,
    caller: Option<IpAddr>,
}

impl EndpointPlaces {
    fn take(self: &Arc<Self>, endpoint: &str, caller: Option<IpAddr>) -> Option<EndpointPlace> {
        let mut endpoints = self.endpoints.lock();
        let share = if caller.is_some() { Share::HalfOfFree } else { Share::All };
        let (all, has) = endpoints.get(endpoint).map_or((0, 0), |used| (used.all, used.of(caller)));
        if !share.allows(self.max, has, self.max - all) {
            return None;
        }
        let used = endpoints.entry(endpoint.into()).or_default();
        used.all += 1;
        if let Some(caller) = caller {
            *used.callers.entry(caller).or_default() += 1;
        }
        Some(EndpointPlace { places: Arc::clone(self), endpoint: endpoint.into(), caller })
    }
}

impl EndpointUse {
    /// Returns the number of places of a caller.
    fn of(&self, caller: Option<IpAddr>) -> usize {
        caller.and_then(|caller| self.callers.get(&caller)).copied().unwrap_or_default()
    }
}

impl Drop for EndpointPlace {
    fn drop(&mut self) {
        let mut endpoints = self.places.endpoints.lock();
        let Some(used) = endpoints.get_mut(&self.endpoint) else { return };
        used.all -= 1;
        if let Some(caller) = self.caller
            && let Some(has) = used.callers.get_mut(&caller)
        {
            *has -= 1;
            if *has == 0 {
                used.callers.remove(&caller);
            }
        }
        if used.all == 0 {
            endpoints.remove(&self.endpoint);
        }
    }
}

/// The work after the answer of one call. Dropping it releases its place.
#[derive(Debug)]
pub(crate) struct BackgroundWork<'a> {
    places: &'a Background,
    owner: &'a str,
    endpoint: &'a str,
    caller: Option<IpAddr>,
    held: Option<(FairPermit<Box<str>>, EndpointPlace)>,
    /// The outcome that was reported before the end of the call.
    answer: Option<Outcome>,
    /// The processor time that was reported with it, in microseconds.
    reported_us: u64,
}

impl BackgroundWork<'_> {
    /// Takes a place for the work after `answer`. Returns false if there is none.
    pub(crate) fn begin(&mut self, answer: &Outcome, reported_us: u64) -> bool {
        let owner = self.places.by_owner.take(self.owner.into());
        let endpoint = self.places.by_endpoint.take(self.endpoint, self.caller);
        self.held = owner.zip(endpoint);
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
        begin_for(places, owner, endpoint, None)
    }

    fn begin_for<'a>(places: &'a Background, owner: &'a str, endpoint: &'a str, caller: Option<IpAddr>) -> Option<BackgroundWork<'a>> {
        let mut work = places.of_call(owner, endpoint, caller);
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
    fn caller_of_an_endpoint_leaves_places_to_its_other_callers() {
        let caller = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let places = Background::new(256);
        let of_one: Vec<_> = std::iter::from_fn(|| begin_for(&places, "a", "x", caller(1))).collect();
        assert_eq!(of_one.len(), 8, "half of the 16 places of the endpoint");
        let of_other: Vec<_> = std::iter::from_fn(|| begin_for(&places, "a", "x", caller(2))).collect();
        assert_eq!(of_other.len(), 4);
        assert!(begin_for(&places, "a", "x", caller(3)).is_some(), "a newcomer finds a place");
        assert!(begin_for(&places, "a", "y", caller(1)).is_some(), "the share is one of an endpoint");
        drop(of_one);
        assert!(begin_for(&places, "a", "x", caller(1)).is_some());
        drop(of_other);
        assert!(places.by_endpoint.endpoints.lock().is_empty(), "nothing is left");
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
