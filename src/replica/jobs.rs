//! Jobs: periodic work that one replica does at a time for all that share the store.
//!
//! A job's row records when it is due, which replica has it, and the number of its turn. A replica keeps a job as long
//! as its [lease](super::lease) lasts, so that a replica that is gone blocks no job for longer. A replica that was
//! suspended may continue a turn that another has taken meanwhile. Anything that must not happen twice belongs in a
//! commit that [requires the turn](JobRun::holds).
//!
//! If the store is not shared, the process always has every job, and nothing is written.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tollhouse_base::id::ReplicaId;
use tollhouse_store::{Batch, Durability, Row, StoreError, Table, postcard_values, schema};

use super::Replica;

/// Delay between attempts to release a job.
const AGAIN: Duration = Duration::from_secs(1);

const JOBS: Table<String, JobState> = schema::JOBS.holding();

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct JobState {
    /// When it is due: milliseconds since 1970, by the store's clock.
    due_ms: u64,
    /// The replica that runs it.
    holder: Option<ReplicaId>,
    /// The number of the turn. It makes the rows of two turns differ.
    epoch: u64,
}
postcard_values!(JobState);

/// A replica's turn to run a job.
#[derive(Debug, Clone)]
pub struct JobRun(Option<Arc<Row<String, JobState>>>);

impl JobRun {
    /// Lets a commit succeed only if no other replica has taken the job since.
    pub fn holds(&self, batch: &mut Batch) {
        if let Some(row) = &self.0 {
            batch.holds(&JOBS, row);
        }
    }
}

impl Replica {
    /// Runs `work` if the job is due and no other replica runs it. It is next due after `every`, or at once if it
    /// failed. Returns `None` if it is not this replica's turn.
    pub async fn alone<T, E, Doing>(
        self: &Arc<Self>,
        job: &str,
        every: Duration,
        work: impl FnOnce(JobRun) -> Doing,
    ) -> Result<Option<T>, E>
    where
        E: From<StoreError>,
        Doing: Future<Output = Result<T, E>>,
    {
        let Some(turn) = self.take_turn(job).await? else { return Ok(None) };
        let done = work(turn.clone()).await;
        let wait = if done.is_ok() { every } else { Duration::ZERO };
        if let Err(error) = self.end_turn(turn.clone(), wait).await {
            tracing::debug!(job, %error, "a job could not be released; the host will try again");
            self.end_later(job.to_owned(), turn, wait);
        }
        done.map(Some)
    }

    /// Releases a job once the store is available again. No other replica takes it as long as this one lives.
    fn end_later(self: &Arc<Self>, job: String, turn: JobRun, wait: Duration) {
        let replica = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(AGAIN).await;
                let Some(replica) = replica.upgrade() else { return };
                match replica.end_turn(turn.clone(), wait).await {
                    Ok(()) => return,
                    Err(error) => tracing::debug!(job, %error, "a job is not released yet"),
                }
            }
        });
    }

    /// Takes a job that is due, unless another replica has it.
    pub(super) async fn take_turn(&self, job: &str) -> Result<Option<JobRun>, StoreError> {
        if !self.shared {
            return Ok(Some(JobRun(None)));
        }
        let name = job.to_owned();
        let row = JOBS.row(&*self.store, &name).await?;
        let before = row.as_ref().map(|row| row.value.clone()).unwrap_or_default();
        let anothers = before.holder.as_ref().is_some_and(|holder| *holder != self.id);
        let is_due = before.due_ms <= self.store.now().await?.0;
        if self.is_fenced() || !is_due || (anothers && self.living().await?.has(before.holder.as_ref())) {
            return Ok(None);
        }
        let taken = JobState { holder: Some(self.id.clone()), epoch: before.epoch + 1, ..before };
        let mut batch = Batch::new();
        batch.replace_or_insert(&JOBS, row.as_ref(), &name, &taken);
        let is_taken = batch.commit_if_unchanged(&*self.store, Durability::Buffered).await?;
        Ok(is_taken.then(|| JobRun(Some(Arc::new(JOBS.own(name, taken))))))
    }

    /// Releases a job, which is next due after `wait`. Does nothing if another replica has taken it meanwhile.
    pub(super) async fn end_turn(&self, turn: JobRun, wait: Duration) -> Result<(), StoreError> {
        let Some(row) = turn.0 else { return Ok(()) };
        let due = self.store.now().await?.plus(wait);
        let mut batch = Batch::new();
        batch.replace(&JOBS, &row, &JobState { due_ms: due.0, holder: None, epoch: row.value.epoch });
        // A job that is done once at a start is not taken again by its holder, so a crash of the store must not undo
        // its release.
        let durability = if wait.is_zero() { Durability::Durable } else { Durability::Buffered };
        batch.commit_if_unchanged(&*self.store, durability).await.map(drop)
    }
}
