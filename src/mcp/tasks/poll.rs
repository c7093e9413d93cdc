//! Looks up the state of a task, and its answer wherever it is stored.

use std::sync::Arc;

use rmcp::{ErrorData, model::JsonObject};
use tollhouse_base::offload::run_blocking;
use tollhouse_call::{CallError, CompletedCall};
use tollhouse_front::ApiError;
use tollhouse_money::{HeldPaymentEnd, PaymentId, Refusal, StoredAnswer};
use tollhouse_store::{Batch, Durability, StoreError};

use super::{
    Tasks,
    record::{TASKS, TaskEnd, TaskRecord, TaskState, TaskView, as_object, completed},
};
use crate::{answer, dialect::Dialect, revision::Era};

impl Tasks {
    /// Returns the current state of a task, or `None` if there is no task with this id.
    pub(crate) async fn get(&self, id: &str) -> Result<Option<TaskView>, StoreError> {
        let Some(row) = self.read(id).await? else { return Ok(None) };
        let mut record = row.value.clone();
        if record.state.is_working()
            && record.holder != *self.services.replica.id()
            && let Some(state) = self.orphan(&record).await?
        {
            record = TaskRecord { state, updated_at: self.services.clock.now(), ..record };
            let mut batch = Batch::new();
            batch.replace(&TASKS, &row, &record);
            match batch.commit(&*self.services.store, Durability::Durable).await {
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
        let message = self.running.lock().get(id).and_then(|running| running.progress.clone());
        Ok(Some(TaskView::of(id, &record, end, message.unwrap_or_else(|| "running".to_owned()))))
    }

    /// Returns the state of a task with its answer, or `None` if the answer is gone.
    async fn end_of(&self, id: &str, record: &TaskRecord) -> Result<Option<TaskEnd>, StoreError> {
        let done = match &record.state {
            TaskState::Working => return Ok(Some(TaskEnd::Working)),
            TaskState::Cancelled => return Ok(Some(TaskEnd::Cancelled)),
            TaskState::Failed(error) => return Ok(Some(TaskEnd::Failed(error.clone()))),
            TaskState::Completed(result) => return Ok(Some(TaskEnd::Completed(result.clone()))),
            TaskState::Held if record.holder != *self.services.replica.id() => return Ok(Some(TaskEnd::Failed(restarted(None)))),
            TaskState::Held => self.unpaid.answer(id),
            TaskState::Answered(answer) => run_blocking(answer.bytes(), || answer.clone().done()).await,
            TaskState::Paid => {
                let Some(payment) = &record.payment else { return Ok(None) };
                match self.services.payments.ended(payment).await? {
                    HeldPaymentEnd::Answer(answer) => Some(paid(payment, answer)),
                    HeldPaymentEnd::Lost => return Ok(Some(TaskEnd::Failed(lost(payment)))),
                    // The answer expired just before the task.
                    _ => None,
                }
            }
        };
        let Some(done) = done else { return Ok(None) };
        // Only the newest revision has tasks.
        let dialect = Dialect { era: Era::Modern, wire: None, dotted: record.dotted };
        let bytes = done.answer.body.len();
        Ok(Some(TaskEnd::Completed(run_blocking(bytes, || completed(answer::done(&done, &self.services.base_url, dialect))).await)))
    }

    /// Determines how a task of another replica ended. Returns `None` while it may still be running or settling.
    async fn orphan(&self, record: &TaskRecord) -> Result<Option<TaskState>, StoreError> {
        let is_alive = self.services.replica.living().await?.has(Some(&record.holder));
        let ended = match &record.payment {
            Some(payment) => self.services.payments.ended(payment).await?,
            None => HeldPaymentEnd::Without,
        };
        Ok(match ended {
            HeldPaymentEnd::Answer(_) => Some(TaskState::Paid),
            HeldPaymentEnd::Lost => Some(TaskState::Failed(lost(record.payment.as_ref().expect("only payments have answers to lose")))),
            HeldPaymentEnd::Open | HeldPaymentEnd::NotYet | HeldPaymentEnd::Running { .. } => None,
            HeldPaymentEnd::Owed(_) if !is_alive => record.payment.as_ref().map(|payment| TaskState::Failed(owed(payment))),
            HeldPaymentEnd::Without if !is_alive => Some(TaskState::Failed(restarted(record.payment.as_ref()))),
            // It was charged, and its answer has expired.
            HeldPaymentEnd::NotKept if !is_alive => Some(TaskState::Failed(restarted(None))),
            HeldPaymentEnd::Owed(_) | HeldPaymentEnd::Without | HeldPaymentEnd::NotKept => None,
        })
    }
}

/// Returns the JSON-RPC error for a payment whose answer is lost.
fn lost(payment: &PaymentId) -> JsonObject {
    let fault = ApiError::from(&CallError::Refused(Refusal::AnswerLost(payment.clone())));
    as_object(&ErrorData::internal_error(fault.message().to_owned(), Some(fault.error())))
}

/// Returns the error for a task whose process died before its end, with nothing charged.
fn restarted(payment: Option<&PaymentId>) -> JsonObject {
    let message = match payment {
        Some(payment) => {
            format!("The host was restarted while the call ran. Nothing was charged, and payment `{payment}` can pay for another call")
        }
        None => "The host was restarted and no longer has the answer. Call again, with the same payment if you sent one".to_owned(),
    };
    as_object(&ErrorData::internal_error(message, None))
}

/// Returns the error for a task whose process died before its end, with a payment charged before the run.
fn owed(payment: &PaymentId) -> JsonObject {
    let message = format!(
        "The host was restarted while the call ran, and payment `{payment}` was charged before that. Call again with the same payment: the tool \
         runs, and nothing more is charged"
    );
    let fault = ApiError::from(&CallError::AnswerOwed(payment.clone()));
    as_object(&ErrorData::internal_error(message, Some(fault.error())))
}

/// Returns the answer that a payment bought.
fn paid(payment: &PaymentId, answer: StoredAnswer) -> CompletedCall {
    CompletedCall { answer: Arc::new(answer), payment: Some(payment.clone()), success: true, first: false }
}
