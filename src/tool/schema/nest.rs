//! Checks whether a schema can be nested in a larger one.

use serde_json::Value;

/// Returns whether every reference in `schema` keeps its meaning one level deeper, with its definitions left at the
/// root.
#[must_use]
pub fn nests(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(name, value)| match (name.as_str(), value) {
            ("$ref", Value::String(to)) => to.starts_with("#/$defs/") || to.starts_with("#/definitions/"),
            ("$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef", Value::String(_)) => false,
            _ => nests(value),
        }),
        Value::Array(items) => items.iter().all(nests),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_that_would_break_are_found() {
        assert!(nests(&json!({ "properties": { "a": { "$ref": "#/$defs/a" } } })));
        assert!(nests(&json!({ "properties": { "$ref": { "type": "string" } } })));
        assert!(!nests(&json!({ "properties": { "a": { "$ref": "#" } } })));
        assert!(!nests(&json!({ "properties": { "a": { "$ref": "#/properties/b" } } })));
        assert!(!nests(&json!({ "$id": "https://example.com/a" })));
    }
}
