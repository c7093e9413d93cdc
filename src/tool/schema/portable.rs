//! Portable schemas, for readers other than the host: one tool's schema must not make a list or document with many
//! tools unusable.
//!
//! Strict clients compile every schema in a list and give up at the first invalid one. Parts that they cannot compile
//! are rewritten, or omitted if there is no equivalent, so that a portable schema is looser than the original (below
//! `not` and `oneOf` it can be stricter). The host itself validates against the original.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value, json};
use url::Url;

use super::{
    dialect::standard,
    keyword::KeywordValue,
    pattern::ecmascript,
    pointer::{decoded, encoded, escaped},
    reference::{Draft, References},
};

/// The name of the schemas that a later draft replaces.
const DRAFT_07: &str = "http://json-schema.org/draft-07/schema#";

/// Maximum length of a JSON Pointer in a reference, in bytes. A short anchor may expand to a long one.
const MAX_POINTER: usize = 1 << 10;

/// Maximum total length of references, in bytes. Further ones are omitted.
const MAX_REFERENCES: usize = 256 << 10;

/// Returns a schema without an address of its own that other validators can compile, for a document in which it is
/// located at `at`, a reference such as `#` or `#/components/schemas/a`.
///
/// - References become JSON Pointers below `at`. `$id`, anchors and external references are omitted.
/// - `true` and `false` as the schema of a property or an item become `{}` and `{"not": {}}`, as MCP requires.
/// - Of a tuple, only the schemas of the listed items are kept: drafts disagree on further items.
/// - Keywords that only generators know are translated, see [`standard`].
/// - Patterns that ECMAScript cannot compile, and keywords with a value of another type, are omitted.
/// - Draft-04's boolean `exclusiveMinimum` becomes a number.
pub fn portable(schema: &Value, at: &str) -> Value {
    let schema = &*standard(schema);
    let references = References::of(schema);
    let mut copy = Copy { references: &references, at, positions: HashSet::new(), room: Cell::new(MAX_REFERENCES) };
    let mut whole = copy.schema(schema, String::new(), &references.root_base());
    let mut ends = Ends { at, positions: copy.positions, known: HashMap::new() };
    let stored: HashSet<_> = references_in(&whole).into_iter().filter(|to| ends.has_end(to, &whole)).collect();
    rewrite_references(&mut whole, &|to| stored.contains(to).then(|| to.to_owned()));
    whole
}

struct Copy<'r, 's> {
    references: &'r References<'s>,
    at: &'r str,
    /// JSON Pointers of the schemas in the copy.
    positions: HashSet<String>,
    /// Remaining bytes for references.
    room: Cell<usize>,
}

impl Copy<'_, '_> {
    /// Returns a reference to the schema at this pointer, or `None` if it is too long or there are too many.
    fn reference(&self, pointer: &str) -> Option<Value> {
        let reference = (pointer.len() <= MAX_POINTER).then(|| format!("{}{}", self.at, encoded(pointer)))?;
        self.room.set(self.room.get().checked_sub(reference.len())?);
        Some(json!(reference))
    }

    /// Records that a schema is at this pointer. References never lead to longer pointers.
    fn place(&mut self, pointer: String) {
        if pointer.len() <= MAX_POINTER {
            self.positions.insert(pointer);
        }
    }

    /// Copies `schema`, which is at `pointer`. `base` is the address that its references are relative to.
    fn schema(&mut self, schema: &Value, pointer: String, base: &Url) -> Value {
        let Value::Object(members) = schema else {
            self.place(pointer);
            return schema.clone();
        };
        if members.get("enum").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            self.place(pointer);
            return json!({ "not": {} });
        }
        let draft = self.references.draft();
        let alone = draft <= Draft::Seven && members.contains_key("$ref");
        let mut copy = Map::new();
        for (name, value) in members {
            if alone && !matches!(name.as_str(), "$ref" | "$schema" | "$defs" | "definitions" | "title" | "description") {
                continue;
            }
            let at = format!("{pointer}/{}", escaped(name));
            let value = match (name.as_str(), value) {
                ("$schema", _) if pointer.is_empty() && draft == Draft::Four => Some(json!(DRAFT_07)),
                ("$schema", Value::String(_)) if pointer.is_empty() => Some(value.clone()),
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                    if !copy.contains_key("$ref")
                        && let Some(to) = self.references.resolve(name, to, base)
                        && let Some(to) = self.reference(&to)
                    {
                        copy.insert("$ref".to_owned(), to);
                    }
                    None
                }
                ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => {
                    let bound = if name == "exclusiveMinimum" { "minimum" } else { "maximum" };
                    members.get(bound).filter(|bound| *value == true && bound.is_number()).cloned()
                }
                ("minimum", _) if members.get("exclusiveMinimum") == Some(&Value::Bool(true)) => None,
                ("maximum", _) if members.get("exclusiveMaximum") == Some(&Value::Bool(true)) => None,
                ("pattern", Value::String(pattern)) => ecmascript(pattern).ok().map(|pattern| json!(pattern)),
                ("discriminator", value) => self.discriminator(value, base),
                // Tuples have different keywords in each draft. Older readers ignore `prefixItems` and would apply a
                // schema for further items to all items.
                ("items", Value::Array(_)) => {
                    let at = format!("{pointer}/prefixItems");
                    let items = self.keyword("prefixItems", value, &at, base);
                    copy.extend(items.map(|items| ("prefixItems".to_owned(), items)));
                    None
                }
                ("items" | "additionalItems" | "unevaluatedItems", _) if has_tuple(members) => None,
                // If a name in `patternProperties` were omitted, its properties would count as additional.
                ("additionalProperties" | "unevaluatedProperties", _) if !has_portable_names(members) => None,
                _ => self.keyword(name, value, &at, base),
            };
            if let Some(value) = value {
                copy.insert(name.clone(), value);
            }
        }
        self.place(pointer);
        Value::Object(copy)
    }

    /// Copies any other keyword. Returns `None` if it is omitted.
    fn keyword(&mut self, name: &str, value: &Value, at: &str, base: &Url) -> Option<Value> {
        let draft = self.references.draft();
        let part = |copy: &mut Self, value: &Value, at: String| copy.schema(value, at, &References::base(value, draft, base));
        match (KeywordValue::of(name, value), value) {
            // Every reader knows these as booleans.
            (KeywordValue::Schema, Value::Bool(_)) if name.starts_with("additional") || name.starts_with("unevaluated") => {
                Some(value.clone())
            }
            (KeywordValue::Schema, _) => Some(as_object(part(self, value, at.to_owned()))),
            (KeywordValue::Schemas, Value::Array(items)) => {
                let at = |position| format!("{at}/{position}");
                Some(items.iter().enumerate().map(|(position, item)| as_object(part(self, item, at(position)))).collect())
            }
            (KeywordValue::Named, Value::Object(members)) => {
                let mut named = Map::new();
                for (member, schema) in members {
                    let key = if name == "patternProperties" { ecmascript(member).ok() } else { Some(member.into()) };
                    let value = match schema {
                        // In draft-07, the names that a property depends on.
                        Value::Array(_) if name == "dependencies" => schema.clone(),
                        _ => part(self, schema, format!("{at}/{}", escaped(member))),
                    };
                    named.extend(key.map(|key| (key.into_owned(), as_object(value))));
                }
                Some(Value::Object(named))
            }
            _ => (fits(name, value) && !mentions_addresses(value)).then(|| value.clone()),
        }
    }

    /// Copies OpenAPI's discriminator, with its mapping as references within the document.
    fn discriminator(&self, value: &Value, base: &Url) -> Option<Value> {
        value["propertyName"].as_str()?;
        let mut discriminator = value.clone();
        let mapping = value["mapping"].as_object().into_iter().flatten().filter_map(|(name, to)| {
            let to = self.references.resolve("$ref", to.as_str()?, base)?;
            Some((name.clone(), self.reference(&to)?))
        });
        let mapping: Map<_, _> = mapping.collect();
        let members = discriminator.as_object_mut()?;
        match mapping.is_empty() {
            true => _ = members.shift_remove("mapping"),
            false => _ = members.insert("mapping".to_owned(), Value::Object(mapping)),
        }
        members.retain(|name, value| name == "mapping" || !mentions_addresses(value));
        Some(discriminator)
    }
}

/// Converts a boolean schema to an object, which most readers require.
pub(super) fn as_object(schema: Value) -> Value {
    match schema {
        Value::Bool(true) => json!({}),
        Value::Bool(false) => json!({ "not": {} }),
        schema => schema,
    }
}

/// Returns whether a schema describes a tuple.
fn has_tuple(members: &Map<String, Value>) -> bool {
    ["items", "prefixItems"].iter().any(|name| members.get(*name).is_some_and(Value::is_array))
}

/// Returns whether all names of `patternProperties` can be copied.
fn has_portable_names(members: &Map<String, Value>) -> bool {
    members.get("patternProperties").and_then(Value::as_object).is_none_or(|names| names.keys().all(|name| ecmascript(name).is_ok()))
}

/// Returns whether a keyword's value has the type that every validator requires. Drafts that do not know a keyword
/// accept any value.
fn fits(name: &str, value: &Value) -> bool {
    let texts = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
    match name {
        "id" | "$id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$recursiveRef" | "$dynamicRef" | "$ref" | "$schema"
        | "$async" | "$vocabulary" | "nullable" => false,
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" => value.is_number(),
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" | "maxContains" | "minContains" => {
            value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
        }
        "pattern" | "format" | "$comment" | "title" | "description" | "contentMediaType" | "contentEncoding" => value.is_string(),
        "uniqueItems" | "readOnly" | "writeOnly" | "deprecated" => value.is_boolean(),
        "required" => texts(value),
        "examples" => value.is_array(),
        "enum" => value.is_array(),
        "dependentRequired" => value.as_object().is_some_and(|members| members.values().all(texts)),
        "type" => value.is_string() || texts(value) && value.as_array().is_some_and(|types| !types.is_empty()),
        // The value would have been copied as a schema or schemas if it were one.
        name => KeywordValue::of_schemas(name).is_none(),
    }
}

/// Returns whether a reader might take a part of `value` for a schema's address or a reference.
fn mentions_addresses(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| name.starts_with('$') || mentions_addresses(value)),
        Value::Array(items) => items.iter().any(mentions_addresses),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns all references in a copy.
pub(super) fn references_in(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                found.extend(mapping_in(members).iter().flat_map(|mapping| mapping.values()).filter_map(Value::as_str).map(str::to_owned));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// Returns the mapping of a schema's discriminator.
fn mapping_in(members: &Map<String, Value>) -> Option<&Map<String, Value>> {
    members.get("discriminator").filter(|discriminator| discriminator["propertyName"].is_string())?["mapping"].as_object()
}

/// Finds the references in a copy that lead to a schema in it, and not only around in circles.
struct Ends<'a> {
    at: &'a str,
    positions: HashSet<String>,
    known: HashMap<String, bool>,
}

impl Ends<'_> {
    fn has_end(&mut self, to: &str, whole: &Value) -> bool {
        let mut passed = Vec::new();
        let mut next = to.to_owned();
        let has_end = loop {
            if let Some(known) = self.known.get(&next) {
                break *known;
            }
            // Treat it as part of a circle until its end is known.
            self.known.insert(next.clone(), false);
            passed.push(next.clone());
            let pointer = next.strip_prefix(self.at).map(decoded).filter(|pointer| self.positions.contains(pointer));
            let Some(schema) = pointer.and_then(|pointer| whole.pointer(&pointer)) else { break false };
            match schema["$ref"].as_str() {
                Some(further) => further.clone_into(&mut next),
                None => break true,
            }
        };
        self.known.extend(passed.into_iter().map(|to| (to, has_end)));
        has_end
    }
}

/// Replaces each reference in a copy of a schema, and in its discriminators, with the result of `of`. Removes a reference
/// for which `of` returns `None`.
pub(super) fn rewrite_references(value: &mut Value, of: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::Object(members) => {
            if let Some(to) = members.get("$ref").and_then(Value::as_str) {
                match of(to) {
                    Some(to) => members["$ref"] = json!(to),
                    None => _ = members.shift_remove("$ref"),
                }
            }
            if mapping_in(members).is_some()
                && let Some(mapping) = members["discriminator"]["mapping"].as_object_mut()
            {
                mapping.retain(|_, to| {
                    let reported = to.as_str().and_then(of);
                    reported.map(|reported| *to = json!(reported)).is_some()
                });
            }
            members.values_mut().for_each(|value| rewrite_references(value, of));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_references(item, of)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
