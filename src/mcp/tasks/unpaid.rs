//! Results of tasks whose answers are not stored with payments: of free calls and of failed calls.
//!
//! Their total size is limited. Beyond the limit, the oldest results of the largest user are dropped: the tools of one
//! owner or the calls of one address, and within that group the address or owner with the most. So a user with endless
//! calls or tools displaces only their own results.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use tollhouse_base::{clock::Timestamp, lock::Lock, piles::Piles};
use tollhouse_call::CompletedCall;
use tollhouse_tool::Owner;

/// Bytes that a task counts beyond its answer: its row and its entry here. This also limits the number of tasks.
pub(super) const EACH_BYTES: usize = 2 << 10;

/// The tool owner and caller of a task.
#[derive(Debug, Clone)]
pub(super) struct TaskOwner {
    pub(super) owner: Owner,
    /// The network of the caller.
    pub(super) address: IpAddr,
}

/// The end of a task.
pub(super) struct UnpaidEnd {
    pub(super) owner: TaskOwner,
    /// The size of the answer, wherever it is.
    pub(super) bytes: usize,
    /// When it expires.
    pub(super) until: Timestamp,
    /// The answer, if it is in memory.
    pub(super) done: Option<CompletedCall>,
}

/// The unpaid tasks that this process ran.
pub(super) struct UnpaidTasks {
    max: usize,
    state: Lock<UnpaidState>,
}

#[derive(Default)]
struct UnpaidState {
    bytes: usize,
    tasks: HashMap<String, UnpaidEnd>,
    /// The tasks by owner and address. Ids sort by time.
    piles: Piles<Owner, IpAddr, String>,
    ends: BTreeSet<(Timestamp, String)>,
}

impl UnpaidTasks {
    pub(super) fn new(max: usize) -> Self {
        Self { max, state: Lock::default() }
    }

    /// Adds the end of a task. Returns the ids of tasks dropped to make room.
    pub(super) fn put(&self, id: &str, task: UnpaidEnd) -> Vec<String> {
        let mut state = self.state.lock();
        state.add(id, task);
        let mut removed = vec![];
        while state.bytes > self.max
            && let Some(oldest) = state.piles.oldest_of_most().cloned()
        {
            state.remove(&oldest);
            removed.push(oldest);
        }
        removed
    }

    /// Returns the answer of a task, if it is in memory.
    pub(super) fn answer(&self, id: &str) -> Option<CompletedCall> {
        self.state.lock().tasks.get(id)?.done.clone()
    }

    /// Removes expired tasks and returns their ids.
    pub(super) fn expire(&self, now: Timestamp) -> Vec<String> {
        let mut state = self.state.lock();
        let mut removed = vec![];
        while let Some((_, id)) = state.ends.first().filter(|(until, _)| *until < now) {
            let id = id.clone();
            state.remove(&id);
            removed.push(id);
        }
        removed
    }
}

impl UnpaidState {
    fn add(&mut self, id: &str, task: UnpaidEnd) {
        self.remove(id);
        let bytes = task.weight();
        self.bytes += bytes;
        self.piles.add(&task.owner.owner, &task.owner.address, id.to_owned(), bytes);
        self.ends.insert((task.until, id.to_owned()));
        self.tasks.insert(id.to_owned(), task);
    }

    fn remove(&mut self, id: &str) {
        let Some((id, task)) = self.tasks.remove_entry(id) else { return };
        let bytes = task.weight();
        self.bytes -= bytes;
        self.piles.remove(&task.owner.owner, &task.owner.address, &id, bytes);
        self.ends.remove(&(task.until, id));
    }
}

impl UnpaidEnd {
    fn weight(&self) -> usize {
        self.bytes + EACH_BYTES
    }
}

/// Returns the size of an answer, in bytes.
pub(super) fn bytes_of(done: &CompletedCall) -> usize {
    let headers: usize = done.answer.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    done.answer.body.len() + headers
}

/// Returns the end of a call in the form kept in memory: the answer without intermediate data.
pub(super) fn in_memory(done: &CompletedCall) -> CompletedCall {
    CompletedCall { answer: Arc::clone(&done.answer), payment: None, success: done.success, first: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_base::id::BuilderId;

    const ANSWER: usize = 10_000;
    const MAX: usize = 20 * (ANSWER + EACH_BYTES);

    fn owner(number: usize) -> Owner {
        Owner::Builder(format!("bld_{number:026}").parse::<BuilderId>().unwrap())
    }

    fn put(tasks: &UnpaidTasks, number: usize, of: usize, address: u8) -> Vec<String> {
        let subject = TaskOwner { owner: owner(of), address: [192, 0, 2, address].into() };
        tasks.put(&format!("task_{number:06}"), UnpaidEnd { owner: subject, bytes: ANSWER, until: Timestamp(number as u64), done: None })
    }

    fn has(tasks: &UnpaidTasks, number: usize) -> bool {
        tasks.state.lock().tasks.contains_key(&format!("task_{number:06}"))
    }

    #[test]
    fn bytes_are_bounded_and_the_oldest_are_dropped_first() {
        let tasks = UnpaidTasks::new(MAX);
        for number in 0..1_000 {
            let removed = put(&tasks, number, 1, 1);
            assert_eq!(removed, if number < 20 { vec![] } else { vec![format!("task_{:06}", number - 20)] });
            assert!(tasks.state.lock().bytes <= MAX);
        }
        assert_eq!(tasks.expire(Timestamp(990)).len(), 10);
        assert_eq!(tasks.expire(Timestamp(2_000)).len(), 10);
        let stored = tasks.state.lock();
        assert!(stored.bytes == 0 && stored.tasks.is_empty() && stored.piles.is_empty() && stored.ends.is_empty());
    }

    #[test]
    fn an_address_that_calls_many_owners_displaces_only_its_own() {
        let tasks = UnpaidTasks::new(MAX);
        put(&tasks, 0, 7, 2);
        (1..500).for_each(|number| _ = put(&tasks, number, number, 1));
        assert!(has(&tasks, 0) && has(&tasks, 499) && !has(&tasks, 1));
    }

    #[test]
    fn an_owner_called_from_many_addresses_displaces_only_its_own() {
        let tasks = UnpaidTasks::new(MAX);
        put(&tasks, 0, 1, 0);
        (1..250).for_each(|number| _ = put(&tasks, number, 2, u8::try_from(number).unwrap()));
        assert!(has(&tasks, 0) && has(&tasks, 249) && !has(&tasks, 1));
    }

    #[test]
    fn the_largest_caller_of_a_tool_loses_its_own() {
        let tasks = UnpaidTasks::new(MAX);
        put(&tasks, 0, 1, 2);
        (1..500).for_each(|number| _ = put(&tasks, number, 1, 1));
        assert!(has(&tasks, 0) && has(&tasks, 499) && !has(&tasks, 1));
    }
}
