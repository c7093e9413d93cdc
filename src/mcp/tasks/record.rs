//! A task as it is stored, and as it is told.

use std::{sync::Arc, time::Duration};

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
use tollhouse_call::Done;
use tollhouse_money::{PaymentId, StoredAnswer};
use tollhouse_store::{StoreError, Table, schema};

/// How long a task that was paid for is kept from its start: as long as the answer of its payment.
const PAID: Duration = Duration::from_secs(24 * 60 * 60);
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
    /// How long it is kept from its start. Those of older hosts are all kept as long as paid ones.
    #[serde(default = "paid_ms")]
    pub(super) ttl_ms: u64,
    /// Its client reads a settlement where Vercel's does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) dotted: bool,
}
tollhouse_store::json_values!(Record);

pub(super) const TASKS: Table<String, Record> = schema::TASKS.holding();

/// How it stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    Working,
    /// A result of `tools/call`, an error of the tool included, as it is sent. Of calls that ended without an answer; older hosts have
    /// kept all results so.
    Completed(Box<RawValue>),
    /// With the answer that its payment keeps.
    Paid,
    /// With an answer that no payment keeps, and the holder has in memory.
    Held,
    /// The same, in a store that others share.
    Answered(Answer),
    /// An error of JSON-RPC.
    Failed(JsonObject),
    Cancelled,
}

/// An answer as it is stored with its task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    /// In base64.
    body: String,
    receipt_id: String,
    success: bool,
}

impl Answer {
    pub(super) fn of(done: &Done) -> Self {
        let StoredAnswer { status, headers, body, receipt_id, .. } = &*done.answer;
        let (headers, receipt_id, body) = (headers.clone(), receipt_id.clone(), STANDARD.encode(body));
        Self { status: *status, headers, body, receipt_id, success: done.success }
    }

    pub(super) fn bytes(&self) -> usize {
        self.body.len() + self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }

    /// `None` where the body is none that [`Answer::of`] wrote.
    pub(super) fn done(self) -> Option<Done> {
        let Self { status, headers, body, receipt_id, success } = self;
        let body = STANDARD.decode(body).ok()?.into();
        let answer = StoredAnswer { status, headers, body, receipt_id, settlement: None };
        Some(Done { answer: Arc::new(answer), payment: None, success, first: false })
    }
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
        now.0.saturating_sub(self.created_at.0) > self.ttl_ms
    }

    /// As it is told, its end left out; `said` is of one that runs.
    pub(super) fn told(&self, id: &str, said: String) -> Task {
        let status = match self.state {
            State::Working => TaskStatus::Working,
            State::Completed(_) | State::Paid | State::Held | State::Answered(_) => TaskStatus::Completed,
            State::Failed(_) => TaskStatus::Failed,
            State::Cancelled => TaskStatus::Cancelled,
        };
        let task = Task::new(id, status, self.created_at.to_string(), self.updated_at.to_string())
            .with_ttl_ms(self.ttl_ms)
            .with_poll_interval_ms(u64::try_from(POLL.as_millis()).unwrap_or(u64::MAX));
        if self.state.is_working() { task.with_status_message(said) } else { task }
    }
}

impl State {
    pub(super) fn is_working(&self) -> bool {
        matches!(self, Self::Working)
    }

    /// Bytes of what is stored of the end, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Working | Self::Paid | Self::Held | Self::Cancelled => 0,
            Self::Completed(result) => result.get().len(),
            Self::Answered(answer) => answer.bytes(),
            Self::Failed(error) => error.values().map(|value| value.to_string().len()).sum(),
        }
    }
}

/// A task as it is told.
pub(crate) struct Looked {
    pub(crate) task: GetTaskResult,
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

/// How a task stands, with all that is told of it.
pub(super) enum End {
    Working,
    Completed(Box<RawValue>),
    Failed(JsonObject),
    Cancelled,
}

impl Looked {
    pub(super) fn of(id: &str, record: &Record, end: End, said: String) -> Self {
        let mut task = record.told(id, said);
        let (payload, result) = match end {
            End::Working => (TaskPayload::Working, None),
            End::Completed(result) => (TaskPayload::Completed { result: JsonObject::new() }, Some(result)),
            End::Failed(error) => {
                task.status = TaskStatus::Failed;
                (TaskPayload::Failed { error }, None)
            }
            End::Cancelled => (TaskPayload::Cancelled, None),
        };
        Self { task: GetTaskResult::new(DetailedTask::new(task, payload)), result }
    }

    /// The whole of a task that has a result; `None` where rmcp's form has all there is.
    pub(crate) fn written(&mut self) -> Option<Box<RawValue>> {
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

/// How long a task that was paid for is kept from its start, in milliseconds.
pub(super) fn paid_ms() -> u64 {
    u64::try_from(PAID.as_millis()).unwrap_or(u64::MAX)
}
