//! The kinds of values that JSON Schema keywords have, in every draft.

use serde_json::{Map, Value};

use super::pointer::escaped;

/// The kind of a keyword's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordValue {
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// Schemas by name.
    Named,
    /// Values that instances may have.
    Values,
    /// Anything else.
    Plain,
}

impl KeywordValue {
    /// Returns the kind of `value` as the value of the keyword `name`.
    pub(super) fn of(name: &str, value: &Value) -> Self {
        match (name, value) {
            ("properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions", Value::Object(_)) => {
                Self::Named
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(_)) => Self::Schemas,
            (
                "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "contentSchema",
                Value::Object(_) | Value::Bool(_),
            ) => Self::Schema,
            ("const" | "enum" | "default" | "examples" | "example", _) => Self::Values,
            _ => Self::Plain,
        }
    }
}

/// Returns the direct subschemas of a schema, each with its relative JSON Pointer.
pub(super) fn subschemas(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (name, value) in schema.as_object().into_iter().flatten() {
        let at = format!("/{}", escaped(name));
        match KeywordValue::of(name, value) {
            KeywordValue::Schema => found.push((at, value)),
            KeywordValue::Schemas => {
                found.extend(value.as_array().into_iter().flatten().enumerate().map(|(position, item)| (format!("{at}/{position}"), item)));
            }
            KeywordValue::Named => {
                let members = value.as_object().into_iter().flatten();
                found.extend(members.map(|(member, value)| (format!("{at}/{}", escaped(member)), value)));
            }
            KeywordValue::Values | KeywordValue::Plain => {}
        }
    }
    found
}

/// Returns whether `is` holds for a schema or one of its subschemas that is an object.
pub fn any_schema(schema: &Value, is: &mut impl FnMut(&Map<String, Value>) -> bool) -> bool {
    schema.as_object().is_some_and(&mut *is) || subschemas(schema).into_iter().any(|(_, part)| any_schema(part, is))
}
