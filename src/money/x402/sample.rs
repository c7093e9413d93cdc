//! Samples of valid inputs, for directories that validate a sample against its schema before they list a tool.
//!
//! No schema is evaluated. A sample is made from a schema's own examples and from the few keywords for which it is sure
//! to be valid. If it is not sure, the published schema is relaxed so that it accepts `{}` and all valid inputs.

use serde_json::{Map, Value, json};

const MOST_DEPTH: usize = 8;

/// Maximum length of a list or text that a schema's minimum requires.
const MAX_LENGTH: u64 = 64;

pub(super) struct SampleInput {
    pub(super) sample: Value,
    pub(super) schema: Value,
}

impl SampleInput {
    /// Returns an object that `schema` accepts, and the schema. If no valid object is sure, returns `{}` and a relaxed
    /// schema that accepts it.
    pub(super) fn object(schema: &Value) -> Self {
        match sample(schema, MOST_DEPTH).filter(Value::is_object) {
            Some(sample) => Self { sample, schema: schema.clone() },
            None => Self { sample: json!({}), schema: relaxed(schema) },
        }
    }
}

/// Returns a schema with the same member schemas, all optional.
fn relaxed(schema: &Value) -> Value {
    let reported = ["$schema", "$defs", "definitions", "title", "description", "properties", "additionalProperties"];
    let stored = reported.iter().filter_map(|name| Some(((*name).to_owned(), schema.get(name)?.clone())));
    Value::Object(stored.collect())
}

/// Returns a value that `schema` accepts, if that is sure.
pub(super) fn sample(schema: &Value, depth: usize) -> Option<Value> {
    let members = match schema {
        Value::Bool(true) => return Some(json!({})),
        Value::Object(members) if depth > 0 => members,
        _ => return None,
    };
    let own = schema["examples"].get(0).or_else(|| members.get("const")).or_else(|| members.get("default"));
    if let Some(own) = own.or_else(|| schema["enum"].get(0)) {
        return Some(own.clone());
    }
    if ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "enum"].iter().any(|unsure| members.contains_key(*unsure)) {
        return None;
    }
    match members.get("type") {
        None => object(members, depth),
        Some(Value::String(kind)) => of_kind(kind, members, depth),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find_map(|kind| of_kind(kind, members, depth)),
        Some(_) => None,
    }
}

fn of_kind(kind: &str, members: &Map<String, Value>, depth: usize) -> Option<Value> {
    match kind {
        "object" => object(members, depth),
        "array" => list(members, depth),
        "string" => text(members),
        "integer" | "number" => number(members),
        "boolean" => Some(json!(true)),
        "null" => Some(Value::Null),
        _ => None,
    }
}

/// Builds an object with the required fields and those that have examples.
fn object(members: &Map<String, Value>, depth: usize) -> Option<Value> {
    let unsure =
        ["minProperties", "maxProperties", "propertyNames", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"];
    if unsure.iter().any(|unsure| members.contains_key(*unsure)) {
        return None;
    }
    let none = Map::new();
    let properties = members.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut made = Map::new();
    for name in members.get("required").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str()?;
        made.insert(name.to_owned(), sample(properties.get(name)?, depth - 1)?);
    }
    for (name, property) in properties {
        if let Some(own) = property.get("default").or_else(|| property["examples"].get(0)).or_else(|| property["enum"].get(0)) {
            made.insert(name.clone(), own.clone());
        }
    }
    Some(Value::Object(made))
}

fn list(members: &Map<String, Value>, depth: usize) -> Option<Value> {
    let least = members.get("minItems").map_or(Some(0), Value::as_u64)?;
    let unsure = ["contains", "prefixItems", "unevaluatedItems"].iter().any(|unsure| members.contains_key(*unsure));
    if unsure || least > MAX_LENGTH || (least > 1 && members.contains_key("uniqueItems")) {
        return None;
    }
    if least == 0 {
        return Some(json!([]));
    }
    let item = members.get("items").map_or(Some(json!("text")), |items| sample(items, depth - 1))?;
    Some(Value::Array(vec![item; usize::try_from(least).ok()?]))
}

fn text(members: &Map<String, Value>) -> Option<Value> {
    if members.contains_key("pattern") {
        return None;
    }
    let text = match members.get("format").map(Value::as_str) {
        None => "text",
        Some(Some("uri" | "url" | "iri")) => "https://example.com",
        Some(Some("email")) => "someone@example.com",
        Some(Some("date")) => "2026-01-31",
        Some(Some("date-time")) => "2026-01-31T12:00:00Z",
        Some(_) => return None,
    };
    let least = members.get("minLength").map_or(Some(0), Value::as_u64).filter(|least| *least <= MAX_LENGTH)?;
    let max = members.get("maxLength").map_or(Some(u64::MAX), Value::as_u64)?;
    let length = text.len() as u64;
    match members.contains_key("format") {
        true => (least..=max).contains(&length).then(|| json!(text)),
        false => {
            let requested = usize::try_from(length.min(max).max(least)).ok()?;
            Some(json!(text.chars().cycle().take(requested).collect::<String>()))
        }
    }
}

fn number(members: &Map<String, Value>) -> Option<Value> {
    if ["multipleOf", "exclusiveMinimum", "exclusiveMaximum"].iter().any(|unsure| members.contains_key(*unsure)) {
        return None;
    }
    let bound = |name: &str| members.get(name).map(|bound| bound.as_i64());
    match (bound("minimum"), bound("maximum")) {
        (None, None) => Some(json!(1)),
        (Some(Some(least)), None) => Some(json!(least)),
        (None, Some(Some(max))) => Some(json!(max)),
        (Some(Some(least)), Some(Some(max))) => (least <= max).then(|| json!(least)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
