//! Looks up the state of a task, and its answer wherever it is stored.

use tollhouse_base::aside::aside;
use tollhouse_money::Ended;
use tollhouse_store::{Batch, Durability, StoreError};

use super::{
    Tasks,
    record::{End, Looked, Record, State, TASKS},
    told::{completed, lost, owed, paid, restarted},
};
use crate::{answer, offer::Dialect, revision::Era};

impl Tasks {
    /// Returns the current state of a task, or `None` if there is no task with this id.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub(crate) async fn get(&self, id: &str) -> Result<Option<Looked>, StoreError> {
        let Some(row) = self.read(id).await? else { return Ok(None) };
        let mut record = row.value.clone();
        if record.state.is_working()
            && !record.is_held_by(self.replica.id())
            && let Some(state) = self.orphan(&record).await?
        {
            record = Record { state, updated_at: self.clock.now(), ..record };
            let mut batch = Batch::new();
            batch.replace(&TASKS, &row, &record);
            match batch.commit(&*self.store, Durability::Durable).await {
                Ok(_) => {}
                // Another replica recorded its end, or it is still running.
                Err(StoreError::Conflict) => match self.read(id).await? {
                    Some(now) => record = now.value,
                    None => return Ok(None),
                },
                Err(error) => return Err(error),
            }
        }
        let Some(end) = self.end_of(id, &record).await? else { return Ok(None) };
        let said = self.running().get(id).and_then(|running| running.said.clone());
        Ok(Some(Looked::of(id, &record, end, said.unwrap_or_else(|| "running".to_owned()))))
    }

    /// Returns the state of a task with its answer, or `None` if the answer is gone.
    async fn end_of(&self, id: &str, record: &Record) -> Result<Option<End>, StoreError> {
        let done = match &record.state {
            State::Working => return Ok(Some(End::Working)),
            State::Cancelled => return Ok(Some(End::Cancelled)),
            State::Failed(error) => return Ok(Some(End::Failed(error.clone()))),
            State::Completed(result) => return Ok(Some(End::Completed(result.clone()))),
            State::Held if !record.is_held_by(self.replica.id()) => return Ok(Some(End::Failed(restarted(None)))),
            State::Held => self.unpaid.answer(id),
            State::Answered(answer) => aside(answer.bytes(), || answer.clone().done()).await,
            State::Paid => {
                let Some(payment) = &record.payment else { return Ok(None) };
                match self.gate.ended(payment).await? {
                    Ended::Answer(answer) => Some(paid(payment, answer)),
                    Ended::Lost => return Ok(Some(End::Failed(lost(payment)))),
                    // The answer expired just before the task.
                    Ended::Without | Ended::Open | Ended::NotYet | Ended::Running { .. } | Ended::Owed { .. } => None,
                }
            }
        };
        let Some(done) = done else { return Ok(None) };
        // Only the newest revision has tasks.
        let dialect = Dialect { era: Era::Modern, wire: None, dotted: record.dotted };
        let bytes = done.answer.body.len();
        Ok(Some(End::Completed(aside(bytes, || completed(answer::done(&done, &self.base_url, dialect))).await)))
    }

    /// Determines how a task of another replica ended. Returns `None` while it may still be running or settling.
    async fn orphan(&self, record: &Record) -> Result<Option<State>, StoreError> {
        let lives = self.replica.living().await?.has(record.holder().as_ref());
        let ended = match &record.payment {
            Some(payment) => self.gate.ended(payment).await?,
            None => Ended::Without,
        };
        Ok(match ended {
            Ended::Answer(_) => Some(State::Paid),
            Ended::Lost => Some(State::Failed(lost(record.payment.as_ref().expect("only payments have answers to lose")))),
            Ended::Open | Ended::NotYet | Ended::Running { .. } => None,
            Ended::Owed { .. } if !lives => record.payment.as_ref().map(|payment| State::Failed(owed(payment))),
            Ended::Owed { .. } => None,
            Ended::Without if !lives => Some(State::Failed(restarted(record.payment.as_ref()))),
            Ended::Without => None,
        })
    }
}
