//! JSON Schemas of inputs and outputs, as far as the host processes them.
//!
//! The author of a schema determines what it costs to evaluate, so the host evaluates none. It recognizes two shapes
//! itself, and leaves every other schema to the tool's workers, each of which compiles it once and can be killed.
//! [`bound()`] refuses only schemas that are certain to cost too much. Its error names the limit, and where in the
//! schema it is exceeded.

mod bound;
mod components;
mod dialect;
mod error;
mod keyword;
mod pattern;
pub(super) mod pointer;
mod portable;
mod reference;
mod text;

use bytes::Bytes;
use serde_json::Value;
use tollhouse_protocol::{FAILED, STRUCTURED, Schemas, are_blocks};

pub use self::{
    bound::{bound, depth},
    components::components,
    dialect::{dropped_pattern, standard},
    error::SchemaError,
    pattern::{check_patterns, looks_around},
    portable::portable,
    reference::nests,
    text::TextReader,
};
pub use tollhouse_protocol::Problem;

/// How far the host itself can check values against a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Every value is valid, and so is a response that is not JSON.
    Anything,
    /// Every object is valid, and nothing else.
    Object,
    /// Only the tool's worker can check.
    Other,
}

/// Returns whether a schema's `type` allows objects.
pub fn takes_objects(schema: &Value) -> bool {
    match schema {
        Value::Object(schema) => match schema.get("type") {
            None => true,
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            Some(_) => false,
        },
        Value::Bool(takes) => *takes,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

/// A value that does not match its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Mismatch {
    /// The problems: at least one, at most [`MAX_PROBLEMS`](tollhouse_protocol::MAX_PROBLEMS).
    pub problems: Vec<Problem>,
}

impl Mismatch {
    /// Creates a mismatch of the whole value.
    pub fn whole(message: impl Into<String>) -> Self {
        Self::at("", message)
    }

    /// Creates a mismatch at `pointer`.
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { problems: vec![Problem { pointer: pointer.into(), message: message.into() }] }
    }

    fn summary(&self) -> String {
        let first = self.problems.first().map_or("it does not match the schema", |problem| problem.message.as_str());
        match self.problems.len() {
            0 | 1 => first.to_owned(),
            more => format!("{first} (and {} more)", more - 1),
        }
    }
}

impl Shape {
    /// Returns how far the host can check a schema without evaluating it.
    pub fn of(schema: &Value) -> Self {
        let Some(members) = schema.as_object() else {
            return if schema == &Value::Bool(true) { Self::Anything } else { Self::Other };
        };
        let of_objects = members.get("type").is_some_and(|name| name == "object");
        let plain = members.iter().all(|(name, value)| match name.as_str() {
            "type" => of_objects,
            "additionalProperties" => value == &Value::Bool(true),
            "title" | "description" => value.is_string(),
            _ => false,
        });
        match (plain, of_objects) {
            (true, true) => Self::Object,
            (true, false) => Self::Anything,
            (false, _) => Self::Other,
        }
    }

    /// Checks `value`, as far as the host can.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] if it must be an object and is not.
    pub fn check(self, value: &Value) -> Result<(), Mismatch> {
        if self == Self::Object && !value.is_object() { Err(Mismatch::whole("the value is not of type \"object\"")) } else { Ok(()) }
    }

    /// Checks a tool's response, as far as the host can. `value` is the response if it is JSON.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] if it must be an object and is not, if it is not JSON although the schema is not trivial, and if it
    /// has MCP content blocks that are invalid or lack the structured content that the schema describes.
    pub fn check_answer(self, headers: &[(String, String)], value: Option<&Value>) -> Result<(), Mismatch> {
        match value {
            Some(value) if are_blocks(headers) => self.check_blocks(value),
            Some(value) => self.check(value),
            None if self == Self::Anything => Ok(()),
            None => Err(Mismatch::whole("the handler's answer is not JSON")),
        }
    }

    /// Checks a response with MCP content blocks, in which the schema describes the structured content. Stock clients
    /// reject a result with an unknown block and, if the schema is not trivial, one without structured content.
    fn check_blocks(self, envelope: &Value) -> Result<(), Mismatch> {
        let blocks = envelope["content"].as_array().ok_or_else(|| Mismatch::at("/content", "`content` must be a list of blocks"))?;
        if let Some(position) = blocks.iter().position(|block| !is_block(block)) {
            return Err(Mismatch::at(format!("/content/{position}"), "the block is not a complete MCP content block"));
        }
        let pointer = format!("/{STRUCTURED}");
        match envelope.get(STRUCTURED) {
            // The schema does not apply to failures.
            _ if envelope[FAILED] == true => Ok(()),
            Some(value) => self.check(value).map_err(|_| Mismatch::at(pointer, "the value is not of type \"object\"")),
            None if self == Self::Anything => Ok(()),
            None => Err(Mismatch::at(pointer, format!("{STRUCTURED} is required, because the `outputSchema` describes it"))),
        }
    }
}

/// Returns whether `block` has the fields that a content block of its type requires.
fn is_block(block: &Value) -> bool {
    let texts = |holder: &Value, names: &[&str]| names.iter().all(|name| holder[*name].is_string());
    match block["type"].as_str() {
        Some("text") => texts(block, &["text"]),
        Some("image" | "audio") => texts(block, &["data", "mimeType"]),
        Some("resource_link") => texts(block, &["uri", "name"]),
        Some("resource") => {
            let resource = &block["resource"];
            texts(resource, &["uri"]) && (texts(resource, &["text"]) || texts(resource, &["blob"]))
        }
        _ => false,
    }
}

/// Returns the [standard] form of the schemas that the tool's worker must check.
pub fn worker_schemas(input: &Value, output: &Value) -> Schemas {
    let text = |schema: &Value| (Shape::of(schema) == Shape::Other).then(|| Bytes::from(standard(schema).to_string()));
    Schemas { input: text(input), output: text(output) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_shapes_are_recognized() {
        for (schema, shape) in [
            (json!(true), Shape::Anything),
            (json!({}), Shape::Anything),
            (json!({ "description": "whatever" }), Shape::Anything),
            (json!({ "additionalProperties": true }), Shape::Anything),
            (json!({ "type": "object" }), Shape::Object),
            (json!({ "type": "object", "additionalProperties": true, "title": "T" }), Shape::Object),
            (json!(false), Shape::Other),
            (json!({ "type": "array" }), Shape::Other),
            (json!({ "type": ["object", "null"] }), Shape::Other),
            (json!({ "type": "object", "additionalProperties": false }), Shape::Other),
            (json!({ "type": "object", "properties": {} }), Shape::Other),
            (json!({ "description": 1 }), Shape::Other),
            (json!({ "$schema": "https://example.com/unknown" }), Shape::Other),
            (json!("object"), Shape::Other),
        ] {
            assert_eq!(Shape::of(&schema), shape, "{schema}");
        }
        assert!(Shape::Object.check(&json!([])).is_err() && Shape::Object.check(&json!({})).is_ok());
        assert!(Shape::Anything.check(&json!(null)).is_ok() && Shape::Other.check(&json!(null)).is_ok());
    }

    #[test]
    fn worker_gets_only_schemas_the_host_cannot_check() {
        let body = worker_schemas(&json!({ "type": "object" }), &json!({ "type": "string" }));
        assert_eq!((body.input, body.output.as_deref()), (None, Some(&br#"{"type":"string"}"#[..])));
        let input = worker_schemas(&json!({ "type": "string", "nullable": true }), &json!(true)).input;
        assert_eq!(input.as_deref(), Some(&br#"{"type":["string","null"]}"#[..]));
    }

    #[test]
    fn content_blocks_are_complete_and_structured() {
        let blocks = [("Content-Type".to_owned(), "application/vnd.mcp.tool-result+json; charset=utf-8".to_owned())];
        let pointer =
            |shape: Shape, value: &Value| shape.check_answer(&blocks, Some(value)).map_err(|error| error.problems[0].pointer.clone());
        let text = json!({ "type": "text", "text": "t" });
        for (value, of_anything, of_objects) in [
            (json!({ "content": [text] }), Ok(()), Err("/structuredContent")),
            (json!({ "content": [text], "structuredContent": {} }), Ok(()), Ok(())),
            (json!({ "content": [text], "structuredContent": 1 }), Ok(()), Err("/structuredContent")),
            (json!({ "structuredContent": {} }), Err("/content"), Err("/content")),
            (json!({ "content": [text], "isError": true, "structuredContent": 1 }), Ok(()), Ok(())),
            (json!({ "content": [text], "isError": false }), Ok(()), Err("/structuredContent")),
            (json!({ "isError": true }), Err("/content"), Err("/content")),
            (json!({ "content": [text, { "type": "image" }], "structuredContent": {} }), Err("/content/1"), Err("/content/1")),
            (json!({ "content": [{ "type": "resource", "resource": { "uri": "a:b" } }] }), Err("/content/0"), Err("/content/0")),
        ] {
            assert_eq!(
                pointer(Shape::Anything, &value).as_ref().map_err(String::as_str),
                of_anything.as_ref().map_err(|position| *position)
            );
            assert_eq!(pointer(Shape::Object, &value).as_ref().map_err(String::as_str), of_objects.as_ref().map_err(|position| *position));
        }
        assert!(Shape::Object.check_answer(&[], None).is_err() && Shape::Anything.check_answer(&[], None).is_ok());
    }
}
