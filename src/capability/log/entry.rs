//! A line of a tool's log.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_base::{clock::Timestamp, id::CallId};
use tollhouse_protocol::{LogLevel, LogLine};

use super::sanitize::{sanitize, sanitize_json};
use crate::{CallGrants, Redactor};

/// A log line, cleaned and redacted: `{at, level, message, fields, callId}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    pub at: Timestamp,
    pub level: LogLevel,
    /// The text, redacted and cut to its limit.
    pub message: String,
    /// Further fields from the handler, redacted.
    pub fields: Map<String, Value>,
    /// The call, or `None` for a line about the log itself.
    pub call_id: Option<CallId>,
    /// Whether the tool's owner made the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
}

impl LogEntry {
    /// Creates a line of the host. Line breaks in `message` are removed. `fields` that are not an object become the
    /// field `value`.
    pub fn new(at: Timestamp, level: LogLevel, message: &str, fields: Value, call: &CallId, redactor: &Redactor) -> Self {
        let message = redactor.redact(&sanitize(message)).into_owned();
        Self { at, level, message, fields: tidy(fields, redactor), call_id: Some(call.clone()), owner: false }
    }

    /// Creates a line from a handler's output.
    pub(crate) fn of_handler(at: Timestamp, line: &LogLine, call: &CallGrants, redactor: &Redactor) -> Self {
        let message = redactor.redact_limited(&line.message, &sanitize(&line.message), call.limits.log_line_bytes);
        let fields = match line.fields.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text)
                .or_else(|_| serde_json::from_str(&with_halves_replaced(text)))
                .unwrap_or_else(|_| json!({ "unreadable": true })),
        };
        let (call_id, owner) = (Some(call.call_id.clone()), call.by_owner);
        Self { at, level: line.level, message, fields: tidy(fields, redactor), call_id, owner }
    }
}

/// Replaces escaped lone surrogates in JSON from JavaScript with U+FFFD. JavaScript escapes nothing else that way.
fn with_halves_replaced(json: &str) -> String {
    let (mut readable, mut rest) = (String::with_capacity(json.len()), json);
    while let Some((plain, escape)) = rest.find('\\').map(|at| rest.split_at(at)) {
        readable.push_str(plain);
        let is_half = matches!(escape.as_bytes(), [_, b'u', b'd', b'8'..=b'9' | b'a'..=b'f', _, _, ..]);
        let length = if is_half { 6 } else { 2 };
        let Some((taken, after)) = escape.split_at_checked(length) else { break };
        readable.push_str(if is_half { "\\ufffd" } else { taken });
        rest = after;
    }
    readable.push_str(rest);
    readable
}

fn tidy(fields: Value, redactor: &Redactor) -> Map<String, Value> {
    let mut fields = redactor.redact_json(sanitize_json(fields));
    // The worker reports the beginning of long fields under this name, possibly cut within a secret.
    if let Some(Value::String(beginning)) = fields.get_mut("cut") {
        *beginning = redactor.redact_cut(beginning).into_owned();
    }
    match fields {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => Map::from_iter([("value".to_owned(), other)]),
    }
}
