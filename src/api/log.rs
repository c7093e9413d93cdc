//! Logs of handlers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_protocol::LogLevel;

use crate::{constant::True, time::Timestamp};

/// A line in the log of a handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// When it was written.
    pub at: Timestamp,
    /// Its severity.
    pub level: LogLevel,
    /// Its text.
    pub message: String,
    /// Its fields, as the handler wrote them.
    pub fields: Map<String, Value>,
    /// The call that wrote it.
    pub call_id: Option<String>,
    /// Whether the owner made the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<bool>,
}

/// A page of a handler's log, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPage {
    /// Always true.
    pub ok: True,
    /// The lines.
    pub logs: Vec<LogLine>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
