//! Warm idle workers, by endpoint and by idle time.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::time::Instant;

use crate::{process::Process, wire::Buffers};

/// A worker that waits for its handler's next call.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) process: Arc<Process>,
    pub(crate) buffers: Buffers,
    pub(crate) since: Instant,
}

/// The set of warm workers. Bounded by the number of processes. No operation on the path of a call
/// scans all of them.
#[derive(Debug, Default)]
pub(crate) struct WarmSet {
    /// Workers by sequence number: the latest arrival has the highest.
    waiting: BTreeMap<u64, Warm>,
    /// Sequence numbers by endpoint, ascending. An endpoint without workers stays until the next
    /// [`retain`](Self::retain), because it will probably come back, which then costs no
    /// allocation.
    by_endpoint: HashMap<Box<str>, Vec<u64>>,
    sequence: u64,
}

impl WarmSet {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a worker that holds a handler.
    pub(crate) fn push(&mut self, warm: Warm) {
        self.sequence += 1;
        match self.by_endpoint.get_mut(endpoint_of(&warm.process)) {
            Some(sequence) => sequence.push(self.sequence),
            None => _ = self.by_endpoint.insert(endpoint_of(&warm.process).into(), vec![self.sequence]),
        }
        self.waiting.insert(self.sequence, warm);
    }

    /// Removes the latest worker of `endpoint` that `fits`.
    pub(crate) fn take(&mut self, endpoint: &str, fits: impl Fn(&Process) -> bool) -> Option<Warm> {
        let sequence = self.by_endpoint.get_mut(endpoint)?;
        let at = sequence.iter().rposition(|number| self.waiting.get(number).is_some_and(|warm| fits(&warm.process)))?;
        self.waiting.remove(&sequence.remove(at))
    }

    /// Removes the given worker.
    pub(crate) fn remove(&mut self, process: &Arc<Process>) -> Option<Warm> {
        self.take(endpoint_of(process), |waiting| std::ptr::eq(waiting, &**process))
    }

    /// Returns the worker that has waited longest.
    pub(crate) fn oldest(&self) -> Option<&Arc<Process>> {
        self.waiting.first_key_value().map(|(_, warm)| &warm.process)
    }

    /// Returns the worker that holds the most memory.
    pub(crate) fn largest(&self) -> Option<&Arc<Process>> {
        self.waiting.values().map(|warm| &warm.process).max_by_key(|process| process.own_bytes())
    }

    /// Removes workers for which `stays` is false.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&Warm) -> bool) {
        self.waiting.retain(|_, warm| stays(warm));
        let waiting = &self.waiting;
        self.by_endpoint.retain(|_, sequence| {
            sequence.retain(|number| waiting.contains_key(number));
            !sequence.is_empty()
        });
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn endpoint_of(process: &Process) -> &str {
    process.loaded.get().map_or("", |holding| &holding.endpoint)
}

#[cfg(test)]
impl Warm {
    /// Returns a worker that becomes idle now.
    pub(crate) fn just_now(process: &Arc<Process>) -> Self {
        Self { process: Arc::clone(process), buffers: Buffers::default(), since: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::LoadedCode;

    /// Compares the set with plain lists after each step.
    #[tokio::test]
    async fn workers_are_found_by_endpoint_age_and_size_after_any_changes() {
        let mut set = WarmSet::default();
        let endpoints = ["a", "b", "c"];
        let workers: Vec<_> = (0..12_u64).map(|number| worker(endpoints[number as usize % 3], number)).collect();
        let mut model: Vec<&Arc<Process>> = Vec::new();
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..2_000 {
            let number = random.usize(..workers.len());
            let (one, endpoint) = (&workers[number], endpoints[number % 3]);
            let at = model.iter().position(|waiting| Arc::ptr_eq(waiting, one));
            match (random.u8(..4), at) {
                (0, Some(at)) => assert!(set.remove(model.remove(at)).is_some()),
                (1, _) => {
                    let is_of = |waiting: &&Arc<Process>| waiting.loaded.get().is_some_and(|holding| *holding.endpoint == *endpoint);
                    let last = model.iter().rposition(is_of).map(|at| model.remove(at));
                    let taken = set.take(endpoint, |_| true).map(|warm| warm.process.pid);
                    assert_eq!(taken, last.map(|process| process.pid), "round {round}");
                }
                (_, None) => {
                    model.push(one);
                    set.push(Warm::just_now(one));
                }
                (_, Some(_)) if round % 7 == 0 => {
                    model.retain(|waiting| waiting.pid != one.pid);
                    set.retain(|warm| warm.process.pid != one.pid);
                }
                _ => {}
            }
            assert_eq!(set.len(), model.len());
            assert_eq!(set.oldest().map(|process| process.pid), model.first().map(|process| process.pid));
            let largest = model.iter().map(|process| process.own_bytes()).max();
            assert_eq!(set.largest().map(|process| process.own_bytes()), largest);
        }
        assert!(set.take("d", |_| true).is_none() && set.take("a", |_| false).is_none());
        set.retain(|_| false);
        assert!(set.len() == 0 && set.by_endpoint.is_empty(), "removed workers leave nothing behind");
    }

    fn worker(endpoint: &str, bytes: u64) -> Arc<Process> {
        let (process, _) = Process::standin();
        process.loaded.set(LoadedCode::standin(endpoint)).unwrap();
        process.record_own_bytes(bytes);
        process
    }
}
