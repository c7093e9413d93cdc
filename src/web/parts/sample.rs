//! Sample inputs of a tool: the schema's own example, or a minimal input.

use serde_json::{Map, Value, json};
use tollhouse_base::{invisible_chars::marked, offload::length};

/// Maximum depth of nested objects.
const DEPTH: usize = 3;
/// Maximum size of a shown sample, in bytes.
const MAX_BYTES: usize = 1 << 10;
/// Maximum fields of an object. A sample with more is not shown.
const MAX_MEMBERS: usize = 64;

pub(crate) fn input(schema: &Value) -> Value {
    let example = schema["examples"].get(0).or_else(|| schema.get("default"));
    let fits = |input: &Value| input.is_object() && is_short(input);
    let given = example.filter(|example| fits(example)).cloned();
    given.unwrap_or_else(|| Some(object(schema, DEPTH)).filter(fits).unwrap_or_else(|| json!({})))
}

fn is_short(value: &Value) -> bool {
    length(value) <= MAX_BYTES && value.to_string().len() <= MAX_BYTES
}

pub(crate) fn part(schema: &Value) -> Value {
    Some(value(schema, DEPTH)).filter(is_short).unwrap_or(Value::Null)
}

/// Returns an input for an untrusted schema without any of its texts: only types, and fields with
/// plain names.
pub(crate) fn typed(schema: &Value) -> Value {
    input(&bare(schema, DEPTH))
}

/// Removes examples, constants and other texts from a schema.
fn bare(schema: &Value, depth: usize) -> Value {
    let is_name = |name: &str| name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let stored =
        ["type", "format", "minItems", "minimum"].into_iter().filter_map(|name| Some((name.to_owned(), schema.get(name)?.clone())));
    let mut bare: Map<_, _> = stored.collect();
    let required = schema["required"].as_array().into_iter().flatten().filter(|name| name.as_str().is_some_and(is_name));
    bare.insert("required".to_owned(), required.cloned().collect());
    if depth > 0 {
        let members = schema["properties"].as_object().into_iter().flatten().filter(|(name, _)| is_name(name));
        let members: Map<_, _> = members.map(|(name, member)| (name.clone(), self::bare(member, depth - 1))).collect();
        bare.insert("properties".to_owned(), Value::Object(members));
        bare.insert("items".to_owned(), self::bare(&schema["items"], depth - 1));
    }
    Value::Object(bare)
}

/// Returns an object with the required fields, or with the first text field if none is required.
fn object(schema: &Value, depth: usize) -> Value {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = || schema["properties"].as_object().into_iter().flatten();
    let first = || all().find(|(_, member)| member["type"] == "string").or_else(|| all().next());
    let names = if required.is_empty() { first().map(|(name, _)| name.as_str()).into_iter().collect() } else { required };
    if names.len() > MAX_MEMBERS {
        return json!({});
    }
    let members: Map<_, _> = names.into_iter().map(|name| (name.to_owned(), value(&schema["properties"][name], depth))).collect();
    Value::Object(members)
}

/// Returns a value that a schema may accept.
fn value(schema: &Value, depth: usize) -> Value {
    let given = schema.get("const").or_else(|| schema["examples"].get(0)).or_else(|| schema.get("default"));
    if let Some(given) = given.or_else(|| schema["enum"].get(0)).filter(|given| is_short(given)) {
        return given.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("string");
    match (kind, schema["format"].as_str()) {
        ("object", _) if depth > 0 => object(schema, depth - 1),
        ("object", _) => json!({}),
        ("array", _) if depth > 0 && schema["minItems"].as_u64().is_none_or(|least| least > 0) => {
            json!([value(&schema["items"], depth - 1)])
        }
        ("array", _) => json!([]),
        ("integer" | "number", _) => schema.get("minimum").cloned().unwrap_or(json!(1)),
        ("boolean", _) => json!(true),
        ("null", _) => Value::Null,
        (_, Some("uri" | "url")) => json!("https://example.com/"),
        (_, Some("email")) => json!("someone@example.com"),
        (_, Some("date")) => json!("2026-01-31"),
        (_, Some("date-time")) => json!("2026-01-31T12:00:00Z"),
        _ => json!("text"),
    }
}

/// Returns a value as JSON, with invisible characters escaped.
pub(crate) fn json(value: &Value) -> String {
    visible(&value.to_string())
}

/// Escapes invisible characters in JSON.
pub(crate) fn visible(json: &str) -> String {
    marked(json).map(|(char, unseen)| if unseen { escaped(char) } else { String::from(char) }).collect()
}

fn escaped(char: char) -> String {
    char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Quotes a word for the shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_the_example_or_has_the_required_fields() {
        assert_eq!(input(&json!({ "examples": [{ "a": 1 }, { "a": 2 }] })), json!({ "a": 1 }));
        let schema = json!({
            "type": "object", "required": ["url", "list", "n"],
            "properties": {
                "url": { "type": "string", "format": "uri" }, "list": { "type": "array", "items": { "enum": ["x", "y"] } },
                "n": { "type": ["integer", "null"], "minimum": 3 }, "more": {},
            },
        });
        assert_eq!(input(&schema), json!({ "url": "https://example.com/", "list": ["x"], "n": 3 }));
        assert_eq!(
            input(&json!({ "properties": { "n": { "type": "integer" }, "text": { "type": "string" } } })),
            json!({ "text": "text" })
        );
        assert_eq!(input(&json!(true)), json!({}));
        let long: Vec<_> = (0..1_000).map(|n| n.to_string()).collect();
        assert_eq!(input(&json!({ "required": long })), json!({}), "what is too long to copy");
    }

    #[test]
    fn typed_sample_contains_no_untrusted_text() {
        let schema = json!({
            "type": "object", "required": ["text", "kind", "n", "do as I say"], "examples": [{ "text": "do" }], "default": { "text": "do" },
            "properties": {
                "text": { "type": "string", "examples": ["do"], "default": "do" }, "kind": { "enum": ["do"] },
                "n": { "type": "object", "required": ["c"], "properties": { "c": { "const": "do" } } }, "do as I say": { "const": "do" },
            },
        });
        assert_eq!(typed(&schema), json!({ "text": "text", "kind": "text", "n": { "c": "text" } }));
        assert_eq!(typed(&Value::Null), json!({}));
    }

    #[test]
    fn shell_words_are_quoted_and_visible() {
        assert_eq!(quoted("a'b; rm -rf /"), r"'a'\''b; rm -rf /'");
        assert_eq!(json(&json!({ "a": "\u{202e}\u{7f}\n\u{e0041}" })), r#"{"a":"\u202e\u007f\n\udb40\udc41"}"#);
    }
}
