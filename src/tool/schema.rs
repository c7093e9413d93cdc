//! JSON Schemas of inputs and results, compiled once per endpoint version.

use std::fmt;

use jsonschema::{PatternOptions, Validator, error::ValidationErrorKind};
use serde::Serialize;
use serde_json::Value;

/// Problems reported for one value. Further ones are left out.
pub const MAX_PROBLEMS: usize = 16;

/// Deepest nesting of a schema, in levels.
pub(super) const MAX_SCHEMA_DEPTH: usize = 32;

/// Largest schema, in bytes of JSON.
pub(super) const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// Most memory that one regular expression of a schema may take, in bytes. Linear-time engine.
const PATTERN_BYTES: usize = 1 << 20;

/// A compiled JSON Schema, draft 2020-12 unless its `$schema` says otherwise. Never fetches.
pub struct Schema {
    validator: Validator,
    /// True for `{}`, `true` and `{"type":"object"}`-like schemas that say nothing of the inside.
    speaks_of_json: bool,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON Pointer to the part of the schema that is wrong.
    pub pointer: String,
    pub message: String,
}

/// One way in which a value does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// JSON Pointer into the value.
    pub pointer: String,
    pub message: String,
}

/// A value that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Mismatch {
    /// At least one, at most [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
}

impl Mismatch {
    /// A mismatch of the whole value.
    #[must_use]
    pub fn whole(message: impl Into<String>) -> Self {
        Self { problems: vec![Problem { pointer: String::new(), message: message.into() }] }
    }

    fn summary(&self) -> String {
        let first = self.problems.first().map_or("does not fit", |problem| problem.message.as_str());
        match self.problems.len() {
            0 | 1 => first.to_owned(),
            more => format!("{first} (and {} more)", more - 1),
        }
    }
}

impl Schema {
    /// Compiles `schema`. References to other documents are refused, never fetched.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] with a pointer to what is wrong.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if depth(schema) > MAX_SCHEMA_DEPTH {
            return Err(at("", format!("schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")));
        }
        if schema.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(at("", format!("schema is larger than {MAX_SCHEMA_BYTES} bytes")));
        }
        if !schema.is_object() && !schema.is_boolean() {
            return Err(at("", "a schema is an object or a boolean".to_owned()));
        }
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
            .should_validate_formats(true)
            .offline()
            .build(schema)
            .map_err(|error| at(error.instance_path().as_str(), plain(&error)))?;
        let trivial = schema == &Value::Bool(true) || schema.as_object().is_some_and(serde_json::Map::is_empty);
        Ok(Self { validator, speaks_of_json: !trivial })
    }

    /// False for the schemas that let every value through, and so also an answer that is not JSON.
    #[must_use]
    pub fn speaks_of_json(&self) -> bool {
        self.speaks_of_json
    }

    /// Checks `value`.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] with the pointers of what does not fit.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let problems = self
            .validator
            .iter_errors(value)
            .take(MAX_PROBLEMS)
            .map(|error| Problem { pointer: error.instance_path().to_string(), message: plain(&error) })
            .collect();
        Err(Mismatch { problems })
    }
}

/// The error's text without the value that was wrong: a value may be long, or private.
fn plain(error: &jsonschema::ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Required { property } => format!("{property} is required"),
        ValidationErrorKind::AdditionalProperties { unexpected } => format!("unknown properties: {}", unexpected.join(", ")),
        _ => error.masked_with("the value").to_string(),
    }
}

fn at(pointer: &str, message: String) -> SchemaError {
    SchemaError { pointer: pointer.to_owned(), message }
}

/// Levels of arrays and objects in `value`. Recursion is bounded by serde_json's own limit of 128.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_point_into_the_value() {
        let schema = Schema::compile(&json!({
            "type": "object", "required": ["url"], "additionalProperties": false,
            "properties": { "url": { "type": "string" }, "list": { "type": "array", "items": { "type": "integer" } } },
        }))
        .unwrap();
        let mismatch = schema.check(&json!({ "list": [1, "two"], "else": 1 })).unwrap_err();
        let pointers: Vec<_> = mismatch.problems.iter().map(|problem| problem.pointer.as_str()).collect();
        assert!(pointers.contains(&"/list/1"), "{mismatch:?}");
        assert!(mismatch.problems.iter().any(|problem| problem.message.contains("url")));
        assert!(!format!("{mismatch:?}").contains("two"), "the value itself is not repeated");
    }

    #[test]
    fn a_schema_that_does_not_compile_is_refused_with_its_place() {
        let error = Schema::compile(&json!({ "properties": { "a": { "type": "text" } } })).unwrap_err();
        assert_eq!(error.pointer, "/properties/a/type");
        assert!(Schema::compile(&json!({ "pattern": "(" })).is_err());
        assert!(Schema::compile(&json!("string")).is_err());
    }

    #[test]
    fn references_are_never_fetched() {
        assert!(Schema::compile(&json!({ "$ref": "http://127.0.0.1:1/schema.json" })).is_err());
        assert!(Schema::compile(&json!({ "$ref": "file:///etc/passwd" })).is_err());
    }
}
