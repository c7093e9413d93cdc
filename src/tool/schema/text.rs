//! Converts text values, such as query fields, to the types that a schema accepts.
//!
//! Only `type`, `enum`, `const`, references and combinations are considered. Full validation is up to the worker.

use std::cell::{Cell, OnceCell};

use serde_json::{Map, Value};

use super::reference::References;

/// Maximum number of schemas visited for all fields together. Further fields stay text.
const MAX_STEPS: usize = 4_000;

/// Maximum depth of references and combinations that is followed.
const MAX_DEPTH: usize = 64;

/// Converts fields by the schema of the object that they form.
pub struct TextReader<'s> {
    root: &'s Value,
    references: OnceCell<References<'s>>,
    steps: Cell<usize>,
}

impl<'s> TextReader<'s> {
    /// Creates a converter for fields of an object with this schema.
    pub fn new(root: &'s Value) -> Self {
        Self { root, references: OnceCell::new(), steps: Cell::new(MAX_STEPS) }
    }

    /// Builds the object from its fields. A repeated field becomes a list, and so does a single one whose schema
    /// accepts only lists.
    ///
    /// Text stays a string if the schema accepts strings. An empty text becomes null if the schema accepts null and no
    /// strings.
    pub fn read(&self, fields: Vec<(String, String)>) -> Map<String, Value> {
        let mut gathered: Map<String, Value> = Map::new();
        for (name, text) in fields {
            match gathered.get_mut(&name) {
                Some(Value::Array(texts)) => texts.push(Value::String(text)),
                _ => _ = gathered.insert(name, Value::Array(vec![Value::String(text)])),
            }
        }
        for (name, value) in &mut gathered {
            let schemas = self.properties(self.root, name);
            let Value::Array(texts) = value.take() else { continue };
            let items: Vec<_> = schemas.iter().flat_map(|schema| self.items(schema)).collect();
            *value = match <[Value; 1]>::try_from(texts) {
                Ok([Value::String(text)]) => self.single(text, &schemas, &items),
                Ok([other]) => other,
                Err(texts) => texts.into_iter().map(|text| self.typed(text, &items)).collect(),
            };
        }
        gathered
    }

    /// Returns whether the schema, or one that it combines or refers to, describes a property.
    pub fn describes(&self, name: &str) -> bool {
        !self.gather(self.root, &|schema| schema["properties"].get(name)).is_empty()
    }

    fn single(&self, text: String, schemas: &[&'s Value], items: &[&'s Value]) -> Value {
        let value = self.typed(Value::String(text), schemas);
        let is_wanted = schemas.is_empty() || schemas.iter().any(|schema| self.accepts(schema, &value, 0));
        let takes_lists = !is_wanted && schemas.iter().any(|schema| self.accepts(schema, &Value::Array(vec![]), 0));
        match (takes_lists, value) {
            // The converted value has no accepted type, so the list converts the text itself.
            (true, text) => Value::Array(vec![self.typed(text, items)]),
            (false, value) => value,
        }
    }

    /// Converts a text to the first type that one of `schemas` accepts. Returns the text itself if none does.
    fn typed(&self, text: Value, schemas: &[&'s Value]) -> Value {
        let accepted = |value: &Value| schemas.iter().any(|schema| self.accepts(schema, value, 0));
        let Value::String(written) = &text else { return text };
        if schemas.is_empty() || accepted(&text) {
            return text;
        }
        let parsed = if written.is_empty() { Some(Value::Null) } else { serde_json::from_str(written).ok() };
        // A list is written by repeating its field, not as JSON.
        parsed.filter(|value| !value.is_array() && accepted(value)).unwrap_or(text)
    }

    /// Returns the schemas of a property, from a schema and those that it combines or refers to.
    fn properties(&self, schema: &'s Value, name: &str) -> Vec<&'s Value> {
        let found = self.gather(schema, &|schema| schema["properties"].get(name));
        if found.is_empty() {
            self.gather(schema, &|schema| schema.get("additionalProperties").filter(|more| more.is_object()))
        } else {
            found
        }
    }

    /// Returns the schemas of a list's items.
    fn items(&self, schema: &'s Value) -> Vec<&'s Value> {
        self.gather(schema, &|schema| schema.get("items").filter(|items| !items.is_array()))
    }

    /// Collects the results of `of` for a schema and those that it combines or refers to.
    fn gather(&self, schema: &'s Value, of: &dyn Fn(&'s Value) -> Option<&'s Value>) -> Vec<&'s Value> {
        let (mut found, mut open) = (Vec::new(), vec![schema]);
        while let Some(schema) = open.pop() {
            if !self.step() {
                break;
            }
            found.extend(of(schema));
            open.extend(self.referred(schema));
            open.extend(["anyOf", "oneOf", "allOf"].iter().flat_map(|name| schema[*name].as_array().into_iter().flatten()));
        }
        found
    }

    /// Returns whether a schema accepts a value, as far as it is considered here.
    fn accepts(&self, schema: &'s Value, value: &Value, depth: usize) -> bool {
        let Value::Object(members) = schema else { return schema != &Value::Bool(false) };
        if depth == MAX_DEPTH || !self.step() {
            return true;
        }
        if value.is_null() && members.get("nullable") == Some(&Value::Bool(true)) {
            return true;
        }
        let below = |part: &'s Value| self.accepts(part, value, depth + 1);
        let all = |name: &str| members.get(name).and_then(Value::as_array).is_none_or(|of| of.iter().all(below));
        let any = |name: &str| members.get(name).and_then(Value::as_array).is_none_or(|of| of.iter().any(below));
        let typed = match members.get("type") {
            Some(Value::String(name)) => is_of(name, value),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(|name| is_of(name, value)),
            _ => true,
        };
        let listed = members.get("enum").and_then(Value::as_array).is_none_or(|values| values.iter().any(|one| is_equal(one, value)));
        let constant = members.get("const").is_none_or(|one| is_equal(one, value));
        typed && listed && constant && all("allOf") && any("anyOf") && any("oneOf") && self.referred(schema).is_none_or(below)
    }

    /// Returns the schema that a schema refers to.
    fn referred(&self, schema: &'s Value) -> Option<&'s Value> {
        let to = schema.get("$ref").and_then(Value::as_str)?;
        let references = self.references.get_or_init(|| References::of(self.root));
        self.root.pointer(&references.resolve("$ref", to, &references.root_base())?)
    }

    fn step(&self) -> bool {
        let remaining = self.steps.get().checked_sub(1);
        self.steps.set(remaining.unwrap_or_default());
        remaining.is_some()
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("null", Value::Null) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => true,
        ("array", Value::Array(_)) | ("object", Value::Object(_)) | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

/// Compares values as JSON Schema does: 1 equals 1.0.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(schema: &Value, query: &str) -> Value {
        let fields = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Value::Object(TextReader::new(schema).read(fields))
    }

    #[test]
    fn field_is_converted_to_an_accepted_type() {
        let schema = json!({
            "$defs": { "n": { "type": "integer" }, "list": { "type": "array", "items": { "$ref": "#/$defs/n" } } },
            "properties": {
                "int": { "type": "integer" }, "yes": { "type": "boolean" }, "tags": { "type": "array", "items": { "type": "string" } },
                "ones": { "type": "array" }, "a": { "type": ["integer", "null"] }, "b": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
                "c": { "$ref": "#/$defs/n" }, "d": { "enum": [1, 2, "auto"] }, "e": { "const": true },
                "f": { "type": ["array", "null"], "items": { "type": "integer" } }, "g": { "allOf": [{ "type": "number" }] },
                "h": { "oneOf": [{ "$ref": "#/$defs/list" }, { "type": "null" }] }, "i": { "$ref": "#/$defs/list" },
                "o": { "type": "integer", "nullable": true }, "p": { "oneOf": [{ "type": "integer" }], "nullable": true },
                "j": { "type": ["string", "integer"] }, "k": { "type": "object" }, "l": true, "m": { "type": "array", "items": { "anyOf": [{ "type": "boolean" }, { "type": "null" }] } },
            },
        });
        for (query, value) in [
            (
                "int=3&yes=true&tags=1&tags=b&ones=a&free=7&two=a&two=b",
                json!({ "int": 3, "yes": true, "tags": ["1", "b"], "ones": ["a"], "free": "7", "two": ["a", "b"] }),
            ),
            ("a=3&b=3&c=3&d=2&e=true", json!({ "a": 3, "b": 3, "c": 3, "d": 2, "e": true })),
            ("f=1&f=2&g=1.5&i=4&h=5&h=6", json!({ "f": [1, 2], "g": 1.5, "i": [4], "h": [5, 6] })),
            ("a=null&b=&f=null&h=", json!({ "a": null, "b": null, "f": null, "h": null })),
            ("o=&p=null", json!({ "o": null, "p": null })),
            ("o=1&p=2", json!({ "o": 1, "p": 2 })),
            ("f=1&h=7", json!({ "f": [1], "h": [7] })),
            ("d=auto&d2=2&j=3&l=4", json!({ "d": "auto", "d2": "2", "j": "3", "l": "4" })),
            ("a=x&int=&c=1.5&e=false", json!({ "a": "x", "int": "", "c": "1.5", "e": "false" })),
            ("k=%7B%22a%22%3A1%7D&m=true&m=null&m=&m=x", json!({ "k": { "a": 1 }, "m": [true, null, null, "x"] })),
            ("tags=%5B1%5D", json!({ "tags": ["[1]"] })),
            ("int=1.0&c=1e2", json!({ "int": 1.0, "c": 100.0 })),
        ] {
            assert_eq!(read(&schema, query), value, "{query}");
        }
    }

    #[test]
    fn properties_are_found_behind_references_and_unions() {
        let union = json!({ "anyOf": [{ "$ref": "#/$defs/a" }, { "properties": { "n": { "type": "null" } } }],
            "$defs": { "a": { "properties": { "n": { "type": "integer" } } } } });
        assert_eq!(read(&union, "n=1"), json!({ "n": 1 }));
        assert_eq!(read(&union, "n="), json!({ "n": null }));
        assert_eq!(read(&json!({ "additionalProperties": { "type": "number" } }), "a=1&b=2"), json!({ "a": 1, "b": 2 }));
        let addressed = json!({ "$id": "https://a.example/s", "properties": { "n": { "$ref": "s#/$defs/n" } }, "$defs": { "n": { "type": "integer" } } });
        assert_eq!(read(&addressed, "n=1"), json!({ "n": 1 }));
    }

    #[test]
    fn recursive_schema_stops_at_the_limit() {
        let schema = json!({ "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }] } } });
        assert_eq!(read(&schema, "a=1"), json!({ "a": "1" }));
    }
}
