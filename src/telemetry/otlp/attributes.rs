//! OTLP attributes.

use serde_json::{Value, json};

/// Builds string attributes.
pub(super) fn attributes<'a>(of: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    of.into_iter().map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect()
}
