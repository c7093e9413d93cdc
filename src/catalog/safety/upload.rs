//! What is scanned.

use serde_json::Value;

/// What a builder uploads, as far as it is scanned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Upload<'a> {
    /// As it is to be shown.
    pub title: &'a str,
    /// As it is to be shown.
    pub description: &'a str,
    /// As they are to be shown.
    pub tags: &'a [String],
    /// The handler's source as uploaded, with its types.
    pub source: Option<&'a str>,
    /// The answer of a `static_json` endpoint.
    pub response: Option<&'a Value>,
    /// What an input must fit.
    pub input_schema: Option<&'a Value>,
    /// What an answer must fit.
    pub output_schema: Option<&'a Value>,
    /// True when another owner uploaded the identical source or response first.
    pub hash_of_another: bool,
}
