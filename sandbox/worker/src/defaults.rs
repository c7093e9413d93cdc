//! Fills the defaults of a schema into inputs, as the libraries that generate schemas do.
//!
//! A field gets a default only if it is absent. In a union, the first alternative counts whose types, constants and
//! required fields the value has. Defaults are filled into defaults too. They are not validated, because the libraries
//! do not validate them either.

use serde_json::{Map, Value};

use crate::pattern::decoded;

/// Maximum schemas and levels of a value between the root and a default. Further defaults are not filled.
const MAX_DEPTH: usize = 96;
/// Maximum levels of a value that decide about an alternative of a union.
const MAX_COMPARED: usize = 8;
/// Keywords whose values are not schemas.
const VALUES: &[&str] = &["const", "enum", "default", "examples", "example"];

/// A schema with defaults.
pub(crate) struct Defaults {
    schema: Value,
}

/// The defaults need more space than there is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Defaults {
    /// Returns `None` if the schema has no defaults.
    pub(crate) fn of(schema: &Value) -> Option<Self> {
        has_default(schema).then(|| Self { schema: schema.clone() })
    }

    /// Returns the value with its defaults, or `None` if it has all fields that have one.
    ///
    /// # Errors
    ///
    /// If the defaults have more than `room` bytes together.
    pub(crate) fn fill(&self, value: &Value, room: usize) -> Result<Option<Value>, TooLarge> {
        let mut filling = Filling { root: &self.schema, room: Some(room), has_filled: false };
        let mut filled = value.clone();
        filling.fill(&self.schema, &mut filled, 0);
        match filling {
            Filling { room: None, .. } => Err(TooLarge),
            Filling { has_filled, .. } => Ok(has_filled.then_some(filled)),
        }
    }
}

/// Returns whether a schema or one below it has a default.
fn has_default(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.contains_key("default") || members.iter().any(|(name, value)| !VALUES.contains(&name.as_str()) && has_default(value))
        }
        Value::Array(items) => items.iter().any(has_default),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

struct Filling<'s> {
    root: &'s Value,
    /// Remaining bytes. `None` after a default that did not fit.
    room: Option<usize>,
    has_filled: bool,
}

impl<'s> Filling<'s> {
    fn fill(&mut self, schema: &'s Value, value: &mut Value, depth: usize) {
        let (Value::Object(members), true, true) = (schema, depth < MAX_DEPTH, self.room.is_some()) else { return };
        if let Some(target) = self.target(members) {
            self.fill(target, value, depth + 1);
        }
        for part in list(members, "allOf") {
            self.fill(part, value, depth + 1);
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(part) = list(members, name).find(|part| self.fits(part, value, 0, depth)) {
                self.fill(part, value, depth + 1);
            }
        }
        match value {
            Value::Object(fields) => self.fill_fields(members, fields, depth),
            Value::Array(items) => self.fill_items(members, items, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn fill_fields(&mut self, members: &'s Map<String, Value>, fields: &mut Map<String, Value>, depth: usize) {
        let properties = members.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if !fields.contains_key(name)
                && let Some(default) = self.default_of(property, depth)
            {
                let bytes = name.len() + size(default);
                self.room = self.room.and_then(|room| room.checked_sub(bytes));
                if self.room.is_none() {
                    return;
                }
                self.has_filled = true;
                fields.insert(name.clone(), default.clone());
            }
            if let Some(field) = fields.get_mut(name) {
                self.fill(property, field, depth + 1);
            }
        }
        if let Some(further) = members.get("additionalProperties").filter(|_| !members.contains_key("patternProperties")) {
            let is_further = |name: &str| properties.is_none_or(|properties| !properties.contains_key(name));
            for (_, field) in fields.iter_mut().filter(|(name, _)| is_further(name)) {
                self.fill(further, field, depth + 1);
            }
        }
    }

    fn fill_items(&mut self, members: &'s Map<String, Value>, items: &mut [Value], depth: usize) {
        let tuple = if members.contains_key("prefixItems") { "prefixItems" } else { "items" };
        let mut listed = list(members, tuple);
        let further = members.get(if members.get("items").is_some_and(Value::is_array) { "additionalItems" } else { "items" });
        for item in items {
            if let Some(schema) = listed.next().or(further) {
                self.fill(schema, item, depth + 1);
            }
        }
    }

    /// Returns the default of a property's schema, or of a schema that it refers to or combines.
    fn default_of(&self, schema: &'s Value, depth: usize) -> Option<&'s Value> {
        let members = schema.as_object().filter(|_| depth < MAX_DEPTH)?;
        let below = |part: &'s Value| self.default_of(part, depth + 1);
        let combined = || ["allOf", "anyOf", "oneOf"].iter().flat_map(|name| list(members, name)).find_map(below);
        members.get("default").or_else(|| self.target(members).and_then(below)).or_else(combined)
    }

    /// Returns the schema that a schema refers to.
    fn target(&self, members: &'s Map<String, Value>) -> Option<&'s Value> {
        let to = members.get("$ref")?.as_str()?;
        match to.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.pointer(pointer),
            // A name that is the address of the schema itself or of a definition.
            _ => {
                let is_named = |schema: &&'s Value| schema.get("$id").and_then(Value::as_str) == Some(to);
                let holders = ["$defs", "definitions"].iter().filter_map(|holder| self.root.get(*holder)?.as_object());
                [self.root].into_iter().chain(holders.flat_map(Map::values)).find(is_named)
            }
        }
    }

    fn pointer(&self, pointer: &str) -> Option<&'s Value> {
        pointer.split('/').skip(1).try_fold(self.root, |at, part| {
            let name = decoded(part);
            match at {
                Value::Array(items) => items.get(name.parse::<usize>().ok()?),
                at => at.get(&name),
            }
        })
    }

    /// Returns whether a value fits an alternative of a union: types, constants, required fields without a default, and
    /// unknown fields decide.
    fn fits(&self, schema: &'s Value, value: &Value, level: usize, depth: usize) -> bool {
        let Value::Object(members) = schema else { return schema != &Value::Bool(false) };
        if level == MAX_COMPARED || depth >= MAX_DEPTH {
            return true;
        }
        let same = |part: &'s Value| self.fits(part, value, level, depth + 1);
        let any = |name: &str| !members.get(name).is_some_and(Value::is_array) || list(members, name).any(same);
        has_type(members, value)
            && members.get("const").is_none_or(|constant| is_equal(constant, value))
            && members.get("enum").and_then(Value::as_array).is_none_or(|values| values.iter().any(|one| is_equal(one, value)))
            && self.target(members).is_none_or(same)
            && list(members, "allOf").all(same)
            && any("anyOf")
            && any("oneOf")
            && value.as_object().is_none_or(|fields| self.has_fields(members, fields, level, depth))
    }

    fn has_fields(&self, members: &'s Map<String, Value>, fields: &Map<String, Value>, level: usize, depth: usize) -> bool {
        let properties = members.get("properties").and_then(Value::as_object);
        let property = |name: &str| properties.and_then(|properties| properties.get(name));
        let has_default = |name: &str| property(name).is_some_and(|property| self.default_of(property, depth).is_some());
        let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false)) && !members.contains_key("patternProperties");
        let mut required = list(members, "required").filter_map(Value::as_str);
        required.all(|name| fields.contains_key(name) || has_default(name))
            && fields.iter().all(|(name, field)| match property(name) {
                Some(property) => self.fits(property, field, level + 1, depth + 1),
                None => !is_closed,
            })
    }
}

/// Returns the values in a keyword that is a list.
fn list<'s>(members: &'s Map<String, Value>, name: &str) -> impl Iterator<Item = &'s Value> + use<'s> {
    members.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn has_type(members: &Map<String, Value>, value: &Value) -> bool {
    let is_of = |name: &str| match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == "number" || (name == "integer" && number.as_f64().is_some_and(|number| number.fract() == 0.0)),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    };
    match members.get("type") {
        Some(Value::String(name)) => is_of(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is_of),
        _ => true,
    }
}

/// Compares values as JSON Schema does: 1 equals 1.0.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

/// Estimates the size of a value as JSON, in bytes. It is at least the number of its items and fields.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => 8 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 8 + fields.iter().map(|(name, value)| name.len() + size(value)).sum::<usize>(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(schema: &Value, value: &Value) -> Option<Value> {
        Defaults::of(schema)?.fill(value, 1_000).unwrap()
    }

    #[test]
    fn absent_fields_get_their_defaults() {
        let item = json!({ "type": "object", "properties": { "n": { "default": 1 } } });
        let property = |schema: Value| json!({ "properties": { "a": schema }, "$defs": { "d": { "default": "d" }, "item": item } });
        for (schema, value, result) in [
            (property(json!({ "default": 5 })), json!({}), Some(json!({ "a": 5 }))),
            (property(json!({ "default": 5 })), json!({ "a": null }), None),
            (property(json!({ "default": 5 })), json!([]), None),
            (property(json!({ "$ref": "#/$defs/d" })), json!({}), Some(json!({ "a": "d" }))),
            (property(json!({ "$ref": "#/$defs/d", "default": "own" })), json!({}), Some(json!({ "a": "own" }))),
            (property(json!({ "anyOf": [{ "type": "null" }, { "default": 2 }] })), json!({}), Some(json!({ "a": 2 }))),
            (property(json!({ "$ref": "#/$defs/item" })), json!({ "a": {} }), Some(json!({ "a": { "n": 1 } }))),
            (property(json!({ "$ref": "#/$defs/item", "default": {} })), json!({}), Some(json!({ "a": { "n": 1 } }))),
            (property(json!({ "items": item })), json!({ "a": [{}, { "n": 2 }, 3] }), Some(json!({ "a": [{ "n": 1 }, { "n": 2 }, 3] }))),
            (property(json!({ "prefixItems": [{}, item] })), json!({ "a": [{}, {}] }), Some(json!({ "a": [{}, { "n": 1 }] }))),
            (property(json!({ "additionalProperties": item })), json!({ "a": { "x": {} } }), Some(json!({ "a": { "x": { "n": 1 } } }))),
            (property(json!({ "allOf": [true, item] })), json!({ "a": {} }), Some(json!({ "a": { "n": 1 } }))),
            (property(json!({ "const": { "default": 1 }, "enum": [{ "default": 1 }] })), json!({}), None),
            (json!({ "properties": { "default": { "type": "string" } } }), json!({}), None),
            (
                json!({ "$id": "T", "properties": { "n": { "default": 0 }, "next": { "$ref": "T" } } }),
                json!({ "n": 1, "next": {} }),
                Some(json!({ "n": 1, "next": { "n": 0 } })),
            ),
        ] {
            assert_eq!(filled(&schema, &value), result, "{schema} {value}");
        }
    }

    #[test]
    fn a_union_gives_the_defaults_of_the_alternative_that_is_meant() {
        let one = |kind: &str| {
            json!({ "type": "object", "required": ["kind", "own"], "additionalProperties": false,
                "properties": { "kind": { "const": kind }, "own": { "type": "string", "default": kind } } })
        };
        let schema = json!({ "oneOf": [one("a"), { "type": "null" }, { "allOf": [{ "$ref": "#/$defs/b" }] }], "$defs": { "b": one("b") } });
        for (value, result) in [
            (json!({ "kind": "a" }), Some(json!({ "kind": "a", "own": "a" }))),
            (json!({ "kind": "b" }), Some(json!({ "kind": "b", "own": "b" }))),
            (json!({ "kind": "b", "more": 1 }), None),
            (json!({ "kind": "c" }), None),
            (json!({}), None),
            (json!(null), None),
        ] {
            assert_eq!(filled(&schema, &value), result, "{value}");
        }
    }

    #[test]
    fn defaults_are_bounded_in_size_and_depth() {
        let schema = json!({ "items": { "properties": { "a": { "default": "x".repeat(100) } } } });
        let defaults = Defaults::of(&schema).unwrap();
        assert!(defaults.fill(&json!([{}, {}]), 300).unwrap().is_some());
        assert_eq!(defaults.fill(&json!([{}, {}, {}]), 300), Err(TooLarge));
        let endless = json!({ "properties": { "a": { "$ref": "#", "default": {} } } });
        let filled = filled(&endless, &json!({})).unwrap().to_string();
        assert!(filled.matches('{').count() <= MAX_DEPTH + 1, "{filled}");
        let circle = json!({ "$ref": "#", "default": 1 });
        assert_eq!(Defaults::of(&circle).unwrap().fill(&json!({}), 10), Ok(None));
    }
}
