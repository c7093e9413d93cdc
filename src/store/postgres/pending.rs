//! Commits that wait to be sent.
//!
//! Commits in the same transaction can share keys, because they are decided in order. A commit that shares a key with a
//! running one waits for its end. A commit that shares a key with a waiting one queues behind it, so that none starves.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    time::{Duration, Instant},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tollhouse_base::lock::Lock;

use crate::{Batch, Durability, Space, StoreError};

/// Maximum time that a commit waits to be sent. After that it is never sent.
pub(super) const QUEUED: Duration = Duration::from_secs(5);
/// Approximate bytes of one transaction. A longer commit is sent alone.
const FULL: usize = 4 << 20;
/// Number of queued commits examined for those that can be sent.
const LOOKED_AT: usize = 256;

pub(super) type CommitOutcome = Result<Vec<i128>, StoreError>;

type KeyId = (Space, Vec<u8>);

struct QueuedCommit {
    number: u64,
    batch: Batch,
    /// Every key that it names.
    positions: Vec<KeyId>,
    answer: oneshot::Sender<CommitOutcome>,
    since: Instant,
    _room: Option<OwnedSemaphorePermit>,
}

/// Identifies a queued commit.
#[derive(Debug)]
pub(super) struct Ticket {
    durability: Durability,
    number: u64,
}

/// Queued commits, and the keys of running ones.
pub(super) struct PendingCommits {
    /// Maximum number of commits in one transaction.
    together: usize,
    waiting: Lock<WaitingCommits>,
    came: [Notify; 2],
}

#[derive(Default)]
struct WaitingCommits {
    queues: [VecDeque<QueuedCommit>; 2],
    held: HashSet<KeyId>,
    numbers: u64,
    ended: bool,
}

impl PendingCommits {
    pub(super) fn of(together: usize) -> Self {
        Self { together, waiting: Lock::default(), came: [Notify::new(), Notify::new()] }
    }

    /// Queues a commit.
    pub(super) fn push(
        &self,
        batch: Batch,
        durability: Durability,
        room: Option<OwnedSemaphorePermit>,
    ) -> (Ticket, oneshot::Receiver<CommitOutcome>) {
        let (answer, outcome) = oneshot::channel();
        let positions = places(&batch);
        let mut waiting = self.waiting.lock();
        waiting.numbers += 1;
        let number = waiting.numbers;
        waiting.queues[durability as usize].push_back(QueuedCommit {
            number,
            batch,
            positions,
            answer,
            since: Instant::now(),
            _room: room,
        });
        drop(waiting);
        self.came[durability as usize].notify_one();
        (Ticket { durability, number }, outcome)
    }

    /// Withdraws a queued commit. Returns false if it has already been sent.
    pub(super) fn withdraw(&self, ticket: &Ticket) -> bool {
        let mut waiting = self.waiting.lock();
        let queue = &mut waiting.queues[ticket.durability as usize];
        let before = queue.len();
        queue.retain(|job| job.number != ticket.number);
        queue.len() < before
    }

    /// Waits for commits that can be sent together now. Returns `None` once the queue is empty and closed.
    pub(super) async fn take(&self, durability: Durability) -> Option<CommitGroup<'_>> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                let jobs = waiting.take(durability, self.together);
                let more = !waiting.queues[durability as usize].is_empty();
                if !jobs.is_empty() {
                    drop(waiting);
                    if more {
                        self.came[durability as usize].notify_one();
                    }
                    return Some(CommitGroup { pending: self, durability, jobs });
                }
                if waiting.ended && !more {
                    drop(waiting);
                    self.came[durability as usize].notify_one();
                    return None;
                }
            }
            self.came[durability as usize].notified().await;
        }
    }

    /// Returns whether the queue is closed.
    pub(super) fn has_ended(&self) -> bool {
        self.waiting.lock().ended
    }

    /// Closes the queue.
    pub(super) fn end(&self) {
        self.waiting.lock().ended = true;
        for received in &self.came {
            received.notify_waiters();
            received.notify_one();
        }
    }
}

impl WaitingCommits {
    /// Takes the commits that can be sent together, and marks their keys as in use.
    fn take(&mut self, durability: Durability, together: usize) -> Vec<QueuedCommit> {
        let queue = &mut self.queues[durability as usize];
        let (mut jobs, mut passed, mut bytes) = (Vec::<QueuedCommit>::new(), Vec::<QueuedCommit>::new(), 0);
        let mut barred = HashSet::new();
        while jobs.len() < together && bytes < FULL && jobs.len() + passed.len() < LOOKED_AT {
            let Some(job) = queue.pop_front() else { break };
            if job.positions.iter().any(|position| self.held.contains(position) || barred.contains(position)) {
                barred.extend(job.positions.iter().cloned());
                passed.push(job);
            } else {
                bytes += job.batch.bytes();
                jobs.push(job);
            }
        }
        for job in passed.into_iter().rev() {
            queue.push_front(job);
        }
        self.held.extend(jobs.iter().flat_map(|job| job.positions.iter().cloned()));
        jobs
    }
}

/// Commits to send together. Their keys are reserved until it is dropped.
pub(super) struct CommitGroup<'a> {
    pending: &'a PendingCommits,
    pub(super) durability: Durability,
    jobs: Vec<QueuedCommit>,
}

impl CommitGroup<'_> {
    /// Returns the batches in order.
    pub(super) fn batches(&self) -> Vec<&Batch> {
        self.jobs.iter().map(|job| &job.batch).collect()
    }

    /// Reports the outcome of each commit.
    pub(super) fn answer(mut self, outcomes: impl IntoIterator<Item = CommitOutcome>) {
        let jobs = mem::take(&mut self.jobs);
        // Release the keys first: a caller that reads its result and commits again must not find them reserved.
        self.release(&jobs);
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            // The caller may have gone. The commit stands.
            let _ = job.answer.send(outcome);
        }
    }

    /// Fails commits that have waited too long. Returns whether any are left.
    pub(super) fn expire(&mut self, away: &StoreError) -> bool {
        let (late, jobs): (Vec<_>, _) = mem::take(&mut self.jobs).into_iter().partition(|job| job.since.elapsed() > QUEUED);
        self.jobs = jobs;
        self.release(&late);
        for job in late {
            let _ = job.answer.send(Err(away.clone()));
        }
        !self.jobs.is_empty()
    }

    /// Puts the commits back at the front of the queue.
    pub(super) fn requeue(mut self) {
        let jobs = mem::take(&mut self.jobs);
        self.release(&jobs);
        let mut waiting = self.pending.waiting.lock();
        for job in jobs.into_iter().rev() {
            waiting.queues[self.durability as usize].push_front(job);
        }
        drop(waiting);
        self.pending.came[self.durability as usize].notify_one();
    }

    fn release(&self, jobs: &[QueuedCommit]) {
        if jobs.is_empty() {
            return;
        }
        let mut waiting = self.pending.waiting.lock();
        for position in jobs.iter().flat_map(|job| &job.positions) {
            waiting.held.remove(position);
        }
        drop(waiting);
        for received in &self.pending.came {
            received.notify_one();
        }
    }
}

impl Drop for CommitGroup<'_> {
    fn drop(&mut self) {
        self.release(&self.jobs);
    }
}

fn places(batch: &Batch) -> Vec<KeyId> {
    let checks = batch.checks.iter().map(|check| (check.space, check.key.clone()));
    let writes = batch.writes.iter().map(|write| (write.space, write.key.clone()));
    let adds = batch.adds.iter().map(|add| (add.space, add.key.clone()));
    checks.chain(writes).chain(adds).collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::Write;

    fn push(pending: &PendingCommits, keys: &[&str], durability: Durability) -> (Ticket, oneshot::Receiver<CommitOutcome>) {
        let writes = keys.iter().map(|key| Write::put(Space::Kv, *key, b"")).collect();
        pending.push(Batch::of(vec![], writes), durability, None)
    }

    fn take(pending: &PendingCommits) -> Option<CommitGroup<'_>> {
        pending.take(Durability::Durable).now_or_never().flatten()
    }

    fn keys(taken: &CommitGroup<'_>) -> Vec<Vec<String>> {
        let keys = |batch: &&Batch| batch.writes.iter().map(|write| String::from_utf8(write.key.clone()).unwrap()).collect();
        taken.batches().iter().map(keys).collect()
    }

    #[test]
    fn commits_of_one_key_are_sent_together_or_in_order() {
        let pending = PendingCommits::of(64);
        for keys in [&["a"][..], &["a", "b"]] {
            push(&pending, keys, Durability::Durable);
        }
        let first = take(&pending).unwrap();
        assert_eq!(keys(&first), [&["a"][..], &["a", "b"]]);
        for keys in [&["b", "c"][..], &["c"], &["d"]] {
            push(&pending, keys, Durability::Durable);
        }
        // The third shares no key with a running commit, but one with a waiting commit.
        let second = take(&pending).unwrap();
        assert_eq!(keys(&second), [["d"]]);
        assert!(take(&pending).is_none());
        drop(first);
        assert_eq!(keys(&take(&pending).unwrap()), [&["b", "c"][..], &["c"]]);
    }

    #[test]
    fn requeued_commits_go_first_and_withdrawn_ones_never() {
        let pending = PendingCommits::of(64);
        let (first, mut removed) = push(&pending, &["a"], Durability::Durable);
        push(&pending, &["b"], Durability::Buffered);
        let taken = take(&pending).unwrap();
        assert!(!pending.withdraw(&first), "it may be sent");
        push(&pending, &["c"], Durability::Durable);
        taken.requeue();
        assert_eq!(keys(&take(&pending).unwrap()), [["a"], ["c"]]);
        assert!(removed.try_recv().is_err());
        let (last, _answer) = push(&pending, &["a"], Durability::Durable);
        assert!(pending.withdraw(&last) && !pending.withdraw(&last));
        assert!(take(&pending).is_none());
    }

    #[test]
    fn groups_are_limited_and_all_commits_are_sent_before_the_end() {
        let pending = PendingCommits::of(64);
        let mut answers: Vec<_> = (0..100).map(|n| push(&pending, &[&n.to_string()], Durability::Durable).1).collect();
        pending.end();
        let first = take(&pending).unwrap();
        assert_eq!(first.batches().len(), 64);
        first.answer((0..64).map(|n| Ok(vec![n])));
        assert_eq!(answers[7].try_recv().unwrap().unwrap(), [7]);
        take(&pending).unwrap().answer(std::iter::repeat_n(Err(StoreError::Conflict), 100));
        assert!(matches!(answers[99].try_recv(), Ok(Err(StoreError::Conflict))));
        assert!(pending.take(Durability::Durable).now_or_never().unwrap().is_none(), "the end");
    }
}
