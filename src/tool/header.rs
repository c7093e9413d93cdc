//! `x-mcp-header`: input properties that MCP clients repeat in a request header (MCP 2026-07-28, server/tools).
//!
//! Clients omit a tool with an invalid annotation from their list. So an invalid one is refused here, where the builder
//! sees the error.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{SchemaError, schema::pointer::escaped};

/// The keyword. Clients name the header `Mcp-Param-{value}`.
const KEYWORD: &str = "x-mcp-header";

/// The types that a header can hold.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];

/// The position of a schema within an input schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// Reached from the root only through `properties`.
    Property,
    Elsewhere,
}

/// Header names in lower case, for comparison.
type Named = HashSet<String>;

/// Checks the annotations of an input schema.
///
/// # Errors
///
/// The first annotation that is not a valid header name, repeats another's name, or is where a client cannot read it.
pub fn check_headers(schema: &Value) -> Result<(), SchemaError> {
    walk(schema, Position::Root, &mut Named::new())
}

fn walk(schema: &Value, position: Position, named: &mut Named) -> Result<(), SchemaError> {
    match schema {
        Value::Object(members) => members.iter().try_for_each(|(key, value)| {
            let checked = match key.as_str() {
                KEYWORD => check(members, value, position, named),
                "properties" => walk_each(value, if position == Position::Elsewhere { position } else { Position::Property }, named),
                "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => walk_each(value, Position::Elsewhere, named),
                // These contain values, not schemas.
                "default" | "const" | "enum" | "examples" => Ok(()),
                _ => walk(value, Position::Elsewhere, named),
            };
            checked.map_err(|error| under(key, error))
        }),
        Value::Array(schemas) => schemas
            .iter()
            .enumerate()
            .try_for_each(|(at, schema)| walk(schema, Position::Elsewhere, named).map_err(|error| under(&at.to_string(), error))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Checks the schemas in a map.
fn walk_each(schemas: &Value, position: Position, named: &mut Named) -> Result<(), SchemaError> {
    let mut schemas = schemas.as_object().into_iter().flatten();
    schemas.try_for_each(|(name, schema)| walk(schema, position, named).map_err(|error| under(name, error)))
}

fn check(property: &Map<String, Value>, name: &Value, position: Position, named: &mut Named) -> Result<(), SchemaError> {
    let refuse = |message: String| Err(SchemaError { pointer: String::new(), message });
    if position != Position::Property {
        return refuse(format!("`{KEYWORD}` works only on a property that is reached from the root through `properties` alone"));
    }
    let Some(name) = name.as_str().filter(|name| is_token(name)) else {
        return refuse(format!("`{KEYWORD}` must be part of a header's name: letters, digits and any of !#$%&'*+-.^_`|~"));
    };
    if !property.get("type").and_then(Value::as_str).is_some_and(|given| TYPES.contains(&given)) {
        return refuse(format!("`{KEYWORD}` works only on a property whose `type` is one of {}", TYPES.join(", ")));
    }
    if named.insert(name.to_ascii_lowercase()) {
        return Ok(());
    }
    refuse(format!("another property has the same header in `{KEYWORD}`; names that differ only in case are the same header"))
}

/// Adds `key` to the front of an error's pointer. The pointer is built on the way back, so that a valid schema costs no
/// allocations.
fn under(key: &str, error: SchemaError) -> SchemaError {
    SchemaError { pointer: format!("/{}{}", escaped(key), error.pointer), ..error }
}

/// Returns whether a text is a `token` (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the pointer to the error in a schema with these properties, or `""`.
    fn wrong_at(properties: Value) -> String {
        check_headers(&json!({ "properties": properties })).map_or_else(|error| error.pointer, |()| String::new())
    }

    #[test]
    fn headers_of_plain_properties_are_taken() {
        let inner = json!({ "type": "object", "properties": { "id": { "type": "integer", "x-mcp-header": "Tenant-Id" } } });
        let region = json!({ "type": "string", "x-mcp-header": "Region" });
        let on = json!({ "type": "boolean", "x-mcp-header": "on" });
        assert_eq!(wrong_at(json!({ "region": region, "on": on, "tenant": inner, "x-mcp-header": { "type": "string" } })), "");
        assert_eq!(wrong_at(json!({ "a": { "default": { "x-mcp-header": "" }, "enum": [{ "x-mcp-header": 1 }] } })), "");
        assert_eq!(check_headers(&json!(true)), Ok(()));
    }

    #[test]
    fn headers_that_clients_refuse_are_refused_with_their_place() {
        for name in [json!(""), json!("a b"), json!("a:b"), json!("a\r\nb"), json!("ä"), json!(1), json!(null)] {
            assert_eq!(wrong_at(json!({ "a": { "type": "string", "x-mcp-header": name } })), "/properties/a/x-mcp-header", "{name}");
        }
        for kind in [json!("number"), json!("array"), json!("object"), json!("null"), json!(["string"]), json!(null)] {
            assert_eq!(wrong_at(json!({ "a/b": { "type": kind, "x-mcp-header": "A" } })), "/properties/a~1b/x-mcp-header", "{kind}");
        }
        let named = |name: &str| json!({ "type": "string", "x-mcp-header": name });
        assert_eq!(wrong_at(json!({ "a": named("Region"), "b": named("region") })), "/properties/b/x-mcp-header");
        for (position, requested) in [
            (json!({ "items": named("A") }), "/properties/a/items/x-mcp-header"),
            (json!({ "anyOf": [named("A")] }), "/properties/a/anyOf/0/x-mcp-header"),
            (json!({ "if": { "properties": { "b": named("A") } } }), "/properties/a/if/properties/b/x-mcp-header"),
            (json!({ "$defs": { "properties": named("A") } }), "/properties/a/$defs/properties/x-mcp-header"),
        ] {
            assert_eq!(wrong_at(json!({ "a": position })), requested);
        }
        let error = check_headers(&json!({ "x-mcp-header": "A" })).unwrap_err();
        assert_eq!(error.pointer, "/x-mcp-header");
    }
}
