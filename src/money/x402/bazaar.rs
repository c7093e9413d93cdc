//! The bazaar extension: describes how to call a tool, for directories of paid resources.
//!
//! Directories validate `info` against `schema` first, and list nothing that does not match. So each tool has a
//! [sample](SampleInput) of its input.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use tollhouse_tool::{nests, portable, standard};

use super::sample::SampleInput;
use crate::{CallTerms, EntryMethod, terms::short};

pub(crate) const BAZAAR: &str = "bazaar";

/// The level of detail of a tool's schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Input and output schemas, with samples.
    Full,
    Input,
    /// No schemas.
    Short,
}

impl Detail {
    /// All levels, most detailed first.
    const ALL: [Self; 3] = [Self::Full, Self::Input, Self::Short];
}

/// Returns the way of calling a tool that the `input` of an entry describes. `None` for another tool, or if it
/// describes none.
pub(super) fn entry_method_of(input: &Value, terms: &CallTerms) -> Option<EntryMethod> {
    match (input["type"].as_str()?, input["method"].as_str()) {
        ("http", Some("GET")) => input.get("queryParams").map(|_| EntryMethod::Get),
        ("http", Some("POST")) => input.get("body").map(|_| EntryMethod::Post),
        ("mcp", None) => (input["toolName"] == terms.slug.as_str()).then_some(EntryMethod::Mcp),
        _ => None,
    }
}

/// Returns the most detailed entry that fits in `bytes`, or the shortest if none does.
pub(super) fn entry_within(terms: &CallTerms, method: EntryMethod, bytes: usize) -> Value {
    let mut entries = Detail::ALL.iter().map(|detail| entry(terms, method, *detail));
    let fitting = entries.find(|entry| entry.to_string().len() <= bytes);
    fitting.unwrap_or_else(|| entry(terms, method, Detail::Short))
}

pub(super) fn entry(terms: &CallTerms, method: EntryMethod, detail: Detail) -> Value {
    let mut shared = Map::new();
    let input = match detail {
        Detail::Full | Detail::Input => SampleInput::object(&as_2020_12(&terms.input_schema)),
        Detail::Short => SampleInput { sample: json!({}), schema: json!({}) },
    };
    let (input, input_schema) = match method {
        EntryMethod::Get => http_input("GET", "queryParams", input, &mut shared),
        EntryMethod::Post => {
            let (mut reported, mut schema) = http_input("POST", "body", input, &mut shared);
            reported["bodyType"] = json!("json");
            schema["properties"]["bodyType"] = json!({ "enum": ["json"] });
            schema["required"] = json!(["type", "method", "bodyType", "body"]);
            (reported, schema)
        }
        EntryMethod::Mcp => mcp_input(terms, input),
    };
    let mut info = json!({ "input": input, "output": { "type": "json" } });
    let mut output_schema = json!({ "type": "object", "properties": { "type": { "const": "json" }, "example": {} }, "required": ["type"] });
    if detail == Detail::Full {
        let example = &terms.output_schema["examples"][0];
        if !example.is_null() {
            info["output"]["example"] = example.clone();
        }
        output_schema["properties"]["example"] = embedded(&as_2020_12(&terms.output_schema), &mut shared);
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": { "input": input_schema, "output": output_schema },
        "required": ["input"],
    });
    for (name, definitions) in shared {
        schema[name] = definitions;
    }
    json!({ "info": info, "schema": schema })
}

/// Returns a schema that draft 2020-12 can read, because the entry as a whole is in that draft.
fn as_2020_12(schema: &Value) -> Cow<'_, Value> {
    match schema["$schema"].as_str() {
        Some(dialect) if !dialect.contains("2020-12") => Cow::Owned(portable(schema, "#")),
        _ => standard(schema),
    }
}

fn http_input(method: &str, member: &str, input: SampleInput, shared: &mut Map<String, Value>) -> (Value, Value) {
    let mut info = json!({ "type": "http", "method": method });
    info[member] = input.sample;
    let mut properties = json!({ "type": { "const": "http" }, "method": { "enum": [method] } });
    properties[member] = embedded(&input.schema, shared);
    (info, json!({ "type": "object", "properties": properties, "required": ["type", "method"] }))
}

/// Describes a call as an MCP tool, whose schema is informative only.
fn mcp_input(terms: &CallTerms, input: SampleInput) -> (Value, Value) {
    let inner = match input.schema.as_object() {
        Some(members) if !members.is_empty() => input.schema,
        _ => json!({ "type": "object" }),
    };
    let info = json!({
        "type": "mcp",
        "toolName": terms.slug,
        "description": short(&terms.description),
        "transport": "streamable-http",
        "inputSchema": inner,
        "example": input.sample,
    });
    let properties = json!({
        "type": { "const": "mcp" },
        "toolName": { "type": "string" },
        "description": { "type": "string" },
        "transport": { "enum": ["streamable-http"] },
        "inputSchema": { "type": "object" },
        "example": { "type": "object" },
    });
    (info, json!({ "type": "object", "properties": properties, "required": ["type", "toolName", "inputSchema"] }))
}

/// Embeds a schema into a larger one. Its definitions become `shared` at the root, where its references point. A schema
/// that would change its meaning there is replaced by one that accepts everything.
fn embedded(schema: &Value, shared: &mut Map<String, Value>) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let definitions = ["$defs", "definitions"];
    let taken = definitions.iter().any(|name| members.contains_key(*name) && shared.contains_key(*name));
    if taken || !nests(schema) {
        return json!({});
    }
    let mut inner = members.clone();
    inner.shift_remove("$schema");
    for name in definitions {
        if let Some(definitions) = inner.shift_remove(name) {
            shared.insert(name.to_owned(), definitions);
        }
    }
    Value::Object(inner)
}

#[cfg(test)]
mod tests;
