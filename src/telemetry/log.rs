//! The host's log: text lines for people, or JSON with trace ids.
//!
//! Messages and fields can contain text of strangers, for example the id of a request. In both formats, such text can
//! neither begin a new line nor control the terminal.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    invisible_chars::is_invisible,
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{DefaultFields, Writer},
    },
    registry::LookupSpan,
};

use super::call_trace::current;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

/// Formats each event as a JSON object on one line.
#[derive(Debug, Clone, Copy)]
pub struct JsonLines;

/// Formats the message and the fields of a text line, with control characters and invisible ones escaped.
#[derive(Debug, Clone, Copy)]
pub struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        for char in text.chars() {
            match char {
                '\t' | '\n' | '\r' => write!(writer, "{}", char.escape_default())?,
                _ if is_invisible(char) => write!(writer, "{}", char.escape_unicode())?,
                _ => writer.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// The fields of a line, in output order.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: Timestamp,
    level: &'static str,
    target: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<&'a str>,
    message: Value,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, N: for<'a> FormatFields<'a> + 'static> FormatEvent<S, N> for JsonLines {
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let ids = current();
        let (trace_id, span_id) = ids.as_ref().map(|(trace, span)| (trace.as_str(), span.as_str())).unzip();
        let line = Line {
            timestamp: Clock::default().now(),
            level: event.metadata().level().as_str(),
            target: event.metadata().target(),
            trace_id,
            span_id,
            message: fields.0.remove("message").unwrap_or_default(),
            fields: fields.0,
        };
        writeln!(writer, "{}", serde_json::to_string(&line).map_err(|_| fmt::Error)?)
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, json!(value));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct FieldBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for FieldBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Regression test: the id of a JSON-RPC request could forge lines and control the terminal.
    #[test]
    fn event_of_any_text_is_one_line_without_control_characters() {
        const TEXT: &str = "1\n2030-01-01T00:00:00Z ERROR forged\r\t\u{1b}[2J\u{9b}1m\u{202e}é \u{2028}";
        let stored = FieldBuffer::default();
        let written = stored.clone();
        let log = tracing_subscriber::fmt().fmt_fields(TextFields).with_ansi(false).with_writer(move || written.clone()).finish();
        tracing::subscriber::with_default(log, || {
            let span = tracing::info_span!("request", id = %TEXT);
            let _entered = span.enter();
            tracing::info!(id = %TEXT, text = TEXT, debug = ?Some(TEXT), "got {TEXT}");
            tracing::info!(target: "rmcp::service", %TEXT);
        });
        let text = String::from_utf8(stored.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let is_plain = |char: char| char == '\n' || !(char.is_control() || is_invisible(char));
        assert!(text.chars().all(is_plain), "{text:?}");
        assert!(text.contains(r"got 1\n2030-01-01T00:00:00Z ERROR forged\r\t") && text.contains(r"\u{202e}é"), "{text}");
    }

    #[test]
    fn event_is_one_line_of_json() {
        let stored = FieldBuffer::default();
        let written = stored.clone();
        let log = tracing_subscriber::fmt().event_format(JsonLines).with_writer(move || written.clone()).finish();
        tracing::subscriber::with_default(log, || {
            let error = io::Error::other("a \"quoted\"\nline");
            tracing::warn!(call.id = "c", many = 3_u64, %error, "it failed");
        });
        let text = String::from_utf8(stored.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["level"], &line["message"]), (&json!("WARN"), &json!("it failed")));
        assert_eq!(line["fields"], json!({ "call.id": "c", "many": 3, "error": "a \"quoted\"\nline" }));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z') && line.get("trace_id").is_none(), "{line}");
    }
}
