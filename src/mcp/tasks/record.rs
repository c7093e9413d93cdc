//! A task as it is stored, and as it is told.

use std::time::Duration;

use rmcp::model::{DetailedTask, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::{
    base::{
        clock::Timestamp,
        id::{CallId, ReplicaId},
    },
    money::PaymentId,
    store::{StoreError, Table, schema},
};

/// How long a task is kept from its start: as long as the answer of its payment.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a client should look.
const POLL: Duration = Duration::from_secs(2);
/// A task as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The id of the replica that runs it. Older versions have put another one here: theirs are gone.
    pub(super) holder: String,
    pub(super) payment: Option<PaymentId>,
    pub(super) state: State,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}
crate::store::json_values!(Record);

pub(super) const TASKS: Table<String, Record> = schema::TASKS.holding();

/// How it stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    Working,
    /// A result of `tools/call`, an error of the tool included, as it is sent.
    Completed(Box<RawValue>),
    /// An error of JSON-RPC.
    Failed(JsonObject),
    Cancelled,
}

impl Record {
    /// Who runs it.
    pub(super) fn holder(&self) -> Option<ReplicaId> {
        self.holder.parse().ok()
    }

    pub(super) fn is_held_by(&self, replica: &ReplicaId) -> bool {
        self.holder == replica.as_str()
    }

    /// Whether it is past its time.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        now.0.saturating_sub(self.created_at.0) > kept_ms()
    }

    /// As it is told, its end left out; `said` is of one that runs.
    pub(super) fn told(&self, id: &str, said: String) -> Task {
        let status = match self.state {
            State::Working => TaskStatus::Working,
            State::Completed(_) => TaskStatus::Completed,
            State::Failed(_) => TaskStatus::Failed,
            State::Cancelled => TaskStatus::Cancelled,
        };
        let task = Task::new(id, status, self.created_at.to_string(), self.updated_at.to_string())
            .with_ttl_ms(kept_ms())
            .with_poll_interval_ms(u64::try_from(POLL.as_millis()).unwrap_or(u64::MAX));
        if self.state.is_working() { task.with_status_message(said) } else { task }
    }
}

impl State {
    pub(super) fn is_working(&self) -> bool {
        matches!(self, Self::Working)
    }
}

/// A task as it is told.
pub(in crate::mcp) struct Looked {
    pub(in crate::mcp) task: GetTaskResult,
    /// The call's result, which the task itself has empty then.
    result: Option<Box<RawValue>>,
}

/// The same as it is sent.
#[derive(Serialize)]
struct WithResult {
    result: Box<RawValue>,
    /// All else.
    #[serde(flatten)]
    task: JsonObject,
}

impl Looked {
    pub(super) fn of(id: &str, record: Record, said: String) -> Self {
        let task = record.told(id, said);
        let (payload, result) = match record.state {
            State::Working => (TaskPayload::Working, None),
            State::Completed(result) => (TaskPayload::Completed { result: JsonObject::new() }, Some(result)),
            State::Failed(error) => (TaskPayload::Failed { error }, None),
            State::Cancelled => (TaskPayload::Cancelled, None),
        };
        Self { task: GetTaskResult::new(DetailedTask::new(task, payload)), result }
    }

    /// The whole of a task that has a result; `None` where rmcp's form has all there is.
    pub(in crate::mcp) fn written(&mut self) -> Option<Box<RawValue>> {
        let result = self.result.take()?;
        let mut task = as_object(&self.task);
        task.remove("result");
        to_raw_value(&WithResult { result, task }).ok()
    }
}

/// What every id starts with.
const PREFIX: &str = "task_";
/// Longest id, in bytes.
const MAX_ID: usize = 64;

/// Whether a text has the form of an id.
pub(super) fn is_id(id: &str) -> bool {
    id.starts_with(PREFIX) && id.len() <= MAX_ID
}

/// A time to sort by, and 128 bits that nobody guesses.
pub(super) fn new_id() -> Result<String, StoreError> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| StoreError::Away(format!("the system gave no randomness: {error}")))?;
    Ok(format!("{PREFIX}{}{}", CallId::generate().as_str().trim_start_matches(CallId::PREFIX), hex::encode(secret)))
}

/// What is an object in JSON.
pub(super) fn as_object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

fn kept_ms() -> u64 {
    u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX)
}
