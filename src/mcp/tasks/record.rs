//! The stored form of a task, and the form that clients get.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{DetailedTask, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, ReplicaId},
};
use tollhouse_call::CompletedCall;
use tollhouse_money::{PaymentId, StoredAnswer};
use tollhouse_store::{StoreError, Table, schema};

use crate::{answer::ToolAnswer, revision::Era};

/// How long a paid task is kept after its start, in milliseconds: as long as the answer of its payment.
pub(super) const PAID_MS: u64 = 24 * 60 * 60 * 1_000;
/// Suggested polling interval for clients, in milliseconds.
const POLL_MS: u64 = 2_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskRecord {
    pub(super) holder: ReplicaId,
    pub(super) payment: Option<PaymentId>,
    pub(super) state: TaskState,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// How long it is kept after its start.
    pub(super) ttl_ms: u64,
    /// The client reads settlements under Vercel's key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) dotted: bool,
}
tollhouse_store::json_values!(TaskRecord);

pub(super) const TASKS: Table<String, TaskRecord> = schema::TASKS.holding();

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TaskState {
    Working,
    /// The result of `tools/call`, of a call that ended without an answer.
    Completed(Box<RawValue>),
    /// The answer is stored with the payment.
    Paid,
    /// The answer is not stored with a payment, but in memory of the holder.
    Held,
    /// Like `Held`, but the answer is in a shared store.
    Answered(TaskAnswer),
    /// A JSON-RPC error.
    Failed(JsonObject),
    Cancelled,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    /// In base64.
    body: String,
    receipt_id: String,
    success: bool,
}

impl TaskAnswer {
    pub(super) fn of(done: &CompletedCall) -> Self {
        let StoredAnswer { status, headers, body, receipt_id, .. } = &*done.answer;
        let (headers, receipt_id, body) = (headers.clone(), receipt_id.clone(), STANDARD.encode(body));
        Self { status: *status, headers, body, receipt_id, success: done.success }
    }

    pub(super) fn bytes(&self) -> usize {
        self.body.len() + self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }

    /// Restores the answer. Returns `None` if [`TaskAnswer::of`] did not write the body.
    pub(super) fn done(self) -> Option<CompletedCall> {
        let Self { status, headers, body, receipt_id, success } = self;
        let body = STANDARD.decode(body).ok()?.into();
        let answer = StoredAnswer { status, headers, body, receipt_id, settlement: None };
        Some(CompletedCall { answer: Arc::new(answer), payment: None, success, first: false })
    }
}

impl TaskRecord {
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        now.0.saturating_sub(self.created_at.0) > self.ttl_ms
    }

    /// Returns the form for clients, without the result. `message` is that of a running task.
    pub(super) fn task_view(&self, id: &str, message: String) -> Task {
        let status = match self.state {
            TaskState::Working => TaskStatus::Working,
            TaskState::Completed(_) | TaskState::Paid | TaskState::Held | TaskState::Answered(_) => TaskStatus::Completed,
            TaskState::Failed(_) => TaskStatus::Failed,
            TaskState::Cancelled => TaskStatus::Cancelled,
        };
        let task = Task::new(id, status, self.created_at.to_string(), self.updated_at.to_string())
            .with_ttl_ms(self.ttl_ms)
            .with_poll_interval_ms(POLL_MS);
        if self.state.is_working() { task.with_status_message(message) } else { task }
    }
}

impl TaskState {
    pub(super) fn is_working(&self) -> bool {
        matches!(self, Self::Working)
    }

    /// Returns the approximate bytes of the stored end.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Working | Self::Paid | Self::Held | Self::Cancelled => 0,
            Self::Completed(result) => result.get().len(),
            Self::Answered(answer) => answer.bytes(),
            Self::Failed(error) => error.values().map(|value| value.to_string().len()).sum(),
        }
    }
}

/// A task as clients get it.
pub(crate) struct TaskView {
    pub(crate) task: GetTaskResult,
    /// The result of the call. `task` then has an empty one.
    result: Option<Box<RawValue>>,
}

/// A task with its result, as sent.
#[derive(Serialize)]
struct WithResult {
    result: Box<RawValue>,
    /// All other fields.
    #[serde(flatten)]
    task: JsonObject,
}

/// The state of a task with its result.
pub(super) enum TaskEnd {
    Working,
    Completed(Box<RawValue>),
    Failed(JsonObject),
    Cancelled,
}

impl TaskView {
    pub(super) fn of(id: &str, record: &TaskRecord, end: TaskEnd, message: String) -> Self {
        let (payload, result) = match end {
            TaskEnd::Working => (TaskPayload::Working, None),
            TaskEnd::Completed(result) => (TaskPayload::Completed { result: JsonObject::new() }, Some(result)),
            TaskEnd::Failed(error) => (TaskPayload::Failed { error }, None),
            TaskEnd::Cancelled => (TaskPayload::Cancelled, None),
        };
        Self { task: GetTaskResult::new(DetailedTask::new(record.task_view(id, message), payload)), result }
    }

    /// Returns a task that has a result as JSON, or `None` if rmcp's form is complete.
    pub(crate) fn written(&mut self) -> Option<Box<RawValue>> {
        let result = self.result.take()?;
        let mut task = as_object(&self.task);
        task.remove("result");
        to_raw_value(&WithResult { result, task }).ok()
    }
}

const PREFIX: &str = "task_";
const MAX_ID: usize = 64;

/// Returns whether a text has the form of an id.
pub(super) fn is_id(id: &str) -> bool {
    id.starts_with(PREFIX) && id.len() <= MAX_ID
}

/// Generates an id: a sortable time, and 128 random bits.
pub(super) fn new_id() -> Result<String, StoreError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| StoreError::Away(format!("no random bytes are available: {error}")))?;
    Ok(format!("{PREFIX}{}{}", CallId::generate().as_str().trim_start_matches(CallId::PREFIX), hex::encode(bits)))
}

/// Converts a value that is an object in JSON.
pub(super) fn as_object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

/// Serializes the result of a task. Only the newest revision has tasks, and challenges come before the task.
pub(super) fn completed(reported: ToolAnswer) -> Box<RawValue> {
    to_raw_value(&reported.written(Era::Modern, false)).expect("results have text keys")
}
