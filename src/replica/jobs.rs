//! Jobs: what is done every so often for all who share a store, by one of them at a time.
//!
//! The row of a job says when it is due, who has it, and which turn it is. Whoever has it keeps it for as long as its own
//! [lease](super::lease) lasts: a replica that is gone holds up no job for longer. One that stood still may go on with a turn that another
//! has taken meanwhile; what must not happen twice goes into a commit that [wants the turn to be its own still](Turn::holds).
//!
//! Where the store is of one process it has every job all the time, and nothing is written.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tollhouse_base::id::ReplicaId;
use tollhouse_store::{Batch, Durability, Row, StoreError, Table, postcard_values, schema};

use super::Replica;

/// Between one try to give a job back and the next.
const AGAIN: Duration = Duration::from_secs(1);

const JOBS: Table<String, Job> = schema::JOBS.holding();

/// How a job stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Job {
    /// Not to be done before then: milliseconds since 1970, by the store's clock.
    due_ms: u64,
    /// Who does it.
    holder: Option<ReplicaId>,
    /// Which turn it is: no two of them leave the same row.
    epoch: u64,
}
postcard_values!(Job);

/// One time that a job is done.
#[derive(Debug, Clone)]
pub struct Turn(Option<Arc<Row<String, Job>>>);

impl Turn {
    /// Has a commit happen only if nobody else has taken the job since.
    pub fn holds(&self, batch: &mut Batch) {
        if let Some(row) = &self.0 {
            batch.holds(&JOBS, row);
        }
    }
}

impl Replica {
    /// Does `work` if the job is due and no other replica is at it, and not again for as long as `every`; at once again where it failed.
    /// `None` where it is not ours to do now.
    ///
    /// # Errors
    ///
    /// The store's, and those of the work.
    pub async fn alone<T, E, Doing>(self: &Arc<Self>, job: &str, every: Duration, work: impl FnOnce(Turn) -> Doing) -> Result<Option<T>, E>
    where
        E: From<StoreError>,
        Doing: Future<Output = Result<T, E>>,
    {
        let Some(turn) = self.take_turn(job).await? else { return Ok(None) };
        let done = work(turn.clone()).await;
        let wait = if done.is_ok() { every } else { Duration::ZERO };
        if let Err(error) = self.end_turn(turn.clone(), wait).await {
            tracing::warn!(job, %error, "when a job is due again could not be said; it is said again");
            self.end_later(job.to_owned(), turn, wait);
        }
        done.map(Some)
    }

    /// Gives a job back once the store is there again: nobody else has it as long as this replica lives.
    fn end_later(self: &Arc<Self>, job: String, turn: Turn, wait: Duration) {
        let replica = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(AGAIN).await;
                let Some(replica) = replica.upgrade() else { return };
                match replica.end_turn(turn.clone(), wait).await {
                    Ok(()) => return,
                    Err(error) => tracing::debug!(job, %error, "a job is not given back yet"),
                }
            }
        });
    }

    /// Takes a job that is due, unless another has it.
    pub(super) async fn take_turn(&self, job: &str) -> Result<Option<Turn>, StoreError> {
        if !self.shared {
            return Ok(Some(Turn(None)));
        }
        let name = job.to_owned();
        let row = JOBS.row(&*self.store, &name).await?;
        let before = row.as_ref().map(|row| row.value.clone()).unwrap_or_default();
        let anothers = before.holder.as_ref().is_some_and(|holder| *holder != self.id);
        let is_due = before.due_ms <= self.store.now().await?.0;
        if self.is_fenced() || !is_due || (anothers && self.living().await?.has(before.holder.as_ref())) {
            return Ok(None);
        }
        let taken = Job { holder: Some(self.id.clone()), epoch: before.epoch + 1, ..before };
        let mut batch = Batch::new();
        match &row {
            Some(row) => batch.replace(&JOBS, row, &taken),
            None => batch.insert(&JOBS, &name, &taken),
        };
        match batch.commit(&*self.store, Durability::Buffered).await {
            Ok(_) => Ok(Some(Turn(Some(Arc::new(JOBS.own(name, taken)))))),
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a job back, which is due after this time; whoever has taken it meanwhile says that otherwise.
    pub(super) async fn end_turn(&self, turn: Turn, wait: Duration) -> Result<(), StoreError> {
        let Some(row) = turn.0 else { return Ok(()) };
        let due = self.store.now().await?.plus_millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let mut batch = Batch::new();
        batch.replace(&JOBS, &row, &Job { due_ms: due.0, holder: None, epoch: row.value.epoch });
        // What is done once at a start is not taken again by whoever has it: a crash of the store must not bring that back.
        let durability = if wait.is_zero() { Durability::Durable } else { Durability::Buffered };
        match batch.commit(&*self.store, durability).await {
            Ok(_) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
