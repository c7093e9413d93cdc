//! The kinds of values that JSON Schema keywords have, in every draft.

use serde_json::{Map, Value};

use super::pointer::escaped;

/// The kind of a keyword's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordValue {
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
        match (Self::of_schemas(name), value) {
            // A list of schemas in older drafts.
            (Some(Self::Schema), Value::Array(_)) if name == "items" => Self::Schemas,
            (Some(kind @ Self::Named), Value::Object(_))
            | (Some(kind @ Self::Schemas), Value::Array(_))
            | (Some(kind @ Self::Schema), Value::Object(_) | Value::Bool(_)) => kind,
            _ if matches!(name, "const" | "enum" | "default" | "examples" | "example") => Self::Values,
            _ => Self::Plain,
        }
    }

    /// Returns how a well-formed value of the keyword `name` contains schemas, or `None` if it contains none.
    pub(super) fn of_schemas(name: &str) -> Option<Self> {
        match name {
            "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions" => Some(Self::Named),
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => Some(Self::Schemas),
            "not" | "if" | "then" | "else" | "contains" | "propertyNames" | "contentSchema" => Some(Self::Schema),
            "items" | "additionalItems" | "unevaluatedItems" | "additionalProperties" | "unevaluatedProperties" => Some(Self::Schema),
            _ => None,
        }
    }
}

/// A direct subschema of a schema.
pub(super) struct Subschema<'s> {
    pub(super) keyword: &'s str,
    /// JSON Pointer from the schema.
    pub(super) pointer: String,
    pub(super) schema: &'s Value,
}

/// Returns the direct subschemas of a schema.
pub(super) fn subschemas(schema: &Value) -> Vec<Subschema<'_>> {
    let mut found = Vec::new();
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        let at = format!("/{}", escaped(keyword));
        match KeywordValue::of(keyword, value) {
            KeywordValue::Schema => found.push(Subschema { keyword, pointer: at, schema: value }),
            KeywordValue::Schemas => {
                let items = value.as_array().into_iter().flatten().enumerate();
                found.extend(items.map(|(position, schema)| Subschema { keyword, pointer: format!("{at}/{position}"), schema }));
            }
            KeywordValue::Named => {
                let members = value.as_object().into_iter().flatten();
                found.extend(members.map(|(name, schema)| Subschema { keyword, pointer: format!("{at}/{}", escaped(name)), schema }));
            }
            KeywordValue::Values | KeywordValue::Plain => {}
        }
    }
    found
}

/// Returns whether `is` holds for a schema or one of its subschemas that is an object.
pub(super) fn any_schema(schema: &Value, is: &mut impl FnMut(&Map<String, Value>) -> bool) -> bool {
    schema.as_object().is_some_and(&mut *is) || subschemas(schema).into_iter().any(|part| any_schema(part.schema, is))
}
