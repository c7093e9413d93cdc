//! The content that is scanned.

use serde_json::Value;

/// The scanned parts of an upload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Upload<'a> {
    /// Title.
    pub title: &'a str,
    /// Description.
    pub description: &'a str,
    /// Tags.
    pub tags: &'a [String],
    /// The handler's source as uploaded, with its types.
    pub source: Option<&'a str>,
    /// The answer of a `static_json` endpoint.
    pub response: Option<&'a Value>,
    /// Schema of inputs.
    pub input_schema: Option<&'a Value>,
    /// Schema of results.
    pub output_schema: Option<&'a Value>,
    /// Whether another owner uploaded the same source or response first.
    pub hash_of_another: bool,
}
