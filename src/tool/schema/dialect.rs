//! Translates the dialects of schema generators to JSON Schema.
//!
//! OpenAPI 3.0 has keywords of its own, and some libraries write the tuples of draft-07 without a `$schema`. Validators
//! and clients do not know these forms, so all of them get the translation: the worker, and the readers of lists.

use std::{borrow::Cow, mem};

use serde_json::{Map, Value, json};

use super::{
    bound::MAX_PATTERN_BYTES,
    keyword::{KeywordValue, any_schema, subschemas},
    pattern::ecmascript,
    pointer::{decoded, encoded, escaped},
    reference::Draft,
};

/// The keywords whose schemas decide alone whether null is valid.
const DECIDING: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "const", "if", "then", "else"];

/// The formats that validators check, as in the worker.
const CHECKED_FORMATS: &[&str] = &[
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "time",
    "uri",
    "uri-reference",
    "uuid",
];

/// Returns a schema without the keywords that only its generator knows.
///
/// - `nullable: true` makes null valid, also next to `enum`, `const`, `$ref` and combinations.
/// - A boolean `exclusiveMinimum` or `exclusiveMaximum` becomes the bound itself, except in draft-04, which knows it.
/// - Without `$schema`, a list in `items` becomes `prefixItems`, and `additionalItems` becomes `items`.
/// - `components.schemas` become `$defs`.
/// - A pattern that ECMAScript cannot compile is omitted if a format is next to it, see [`dropped_pattern`].
pub fn standard(schema: &Value) -> Cow<'_, Value> {
    let dialect = Dialect {
        root: schema,
        has_boolean_bounds: Draft::of(schema) == Draft::Four,
        has_old_tuples: schema.get("$schema").is_none(),
        moves_components: components(schema).is_some(),
    };
    if !dialect.moves_components && !any_schema(schema, &mut |members| dialect.needs_translation(members)) {
        return Cow::Borrowed(schema);
    }
    let mut whole = schema.clone();
    if dialect.moves_components {
        move_components(&mut whole);
    }
    dialect.rewrite(&mut whole, true);
    Cow::Owned(whole)
}

/// Returns the location of the first pattern that is not checked, because ECMAScript cannot compile it and a format is
/// next to it.
pub fn dropped_pattern(schema: &Value) -> Option<String> {
    if schema.as_object().is_some_and(has_replaced_pattern) {
        return Some("/pattern".to_owned());
    }
    subschemas(schema).into_iter().find_map(|part| Some(format!("{}{}", part.pointer, dropped_pattern(part.schema)?)))
}

/// Returns whether a pattern is omitted for the format next to it. Longer patterns are refused, so they are not parsed.
fn has_replaced_pattern(members: &Map<String, Value>) -> bool {
    let format = members.get("format").and_then(Value::as_str);
    let pattern = members.get("pattern").and_then(Value::as_str).filter(|pattern| pattern.len() <= MAX_PATTERN_BYTES);
    format.is_some_and(|format| CHECKED_FORMATS.contains(&format)) && pattern.is_some_and(|pattern| ecmascript(pattern).is_err())
}

/// Returns the schemas of an OpenAPI document's components, if they can become `$defs`.
fn components(schema: &Value) -> Option<&Map<String, Value>> {
    let found = schema.get("components")?.get("schemas")?.as_object()?;
    let is_schema = |value: &Value| value.is_object() || value.is_boolean();
    let known = schema.get("$defs").and_then(Value::as_object);
    let is_new = |name: &String| known.is_none_or(|known| !known.contains_key(name));
    (!found.is_empty() && found.values().all(is_schema) && found.keys().all(is_new)).then_some(found)
}

/// Makes `$defs` of the components of a schema that has [some](components).
fn move_components(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    let Some(Value::Object(components)) = members.get_mut("components") else { return };
    let moved = components.shift_remove("schemas");
    if components.is_empty() {
        members.shift_remove("components");
    }
    let Some(Value::Object(moved)) = moved else { return };
    match members.get_mut("$defs") {
        Some(Value::Object(known)) => known.extend(moved),
        _ => _ = members.insert("$defs".to_owned(), Value::Object(moved)),
    }
}

struct Dialect<'s> {
    /// The schema as it was written.
    root: &'s Value,
    has_boolean_bounds: bool,
    has_old_tuples: bool,
    moves_components: bool,
}

impl Dialect<'_> {
    /// Returns whether a schema has a keyword to translate.
    fn needs_translation(&self, members: &Map<String, Value>) -> bool {
        let is_boolean = |name: &str| members.get(name).is_some_and(Value::is_boolean);
        members.contains_key("nullable")
            || (!self.has_boolean_bounds && (is_boolean("exclusiveMinimum") || is_boolean("exclusiveMaximum")))
            || self.has_old_tuple(members)
            || has_replaced_pattern(members)
    }

    fn has_old_tuple(&self, members: &Map<String, Value>) -> bool {
        self.has_old_tuples && !members.contains_key("prefixItems") && members.get("items").is_some_and(Value::is_array)
    }

    /// Rewrites a schema. `is_at_root` is whether its references begin at the root of the whole schema.
    fn rewrite(&self, schema: &mut Value, is_at_root: bool) {
        let Value::Object(members) = schema else { return };
        let rewrite_part = |part: &mut Value| {
            let has_address = part.get("$id").is_some_and(Value::is_string);
            self.rewrite(part, is_at_root && !has_address);
        };
        for (name, value) in members.iter_mut() {
            match (KeywordValue::of(name, value), value) {
                (KeywordValue::Schema, value) => rewrite_part(value),
                (KeywordValue::Schemas, Value::Array(items)) => items.iter_mut().for_each(rewrite_part),
                (KeywordValue::Named, Value::Object(named)) => named.values_mut().for_each(rewrite_part),
                (KeywordValue::Schemas | KeywordValue::Named | KeywordValue::Values | KeywordValue::Plain, _) => {}
            }
        }
        if is_at_root {
            self.rewrite_references(members);
        }
        if !self.has_boolean_bounds {
            rewrite_bounds(members);
        }
        if self.has_old_tuple(members) {
            rewrite_tuple(members);
        }
        if has_replaced_pattern(members) {
            members.shift_remove("pattern");
        }
        if members.shift_remove("nullable") == Some(Value::Bool(true)) {
            accept_null(members);
        }
    }

    fn rewrite_references(&self, members: &mut Map<String, Value>) {
        let follow = |to: &mut Value| {
            if let Some(moved) = to.as_str().and_then(|to| self.moved(to)) {
                *to = Value::String(moved);
            }
        };
        if let Some(to) = members.get_mut("$ref") {
            follow(to);
        }
        let mapping = members.get_mut("discriminator").and_then(|discriminator| discriminator.get_mut("mapping"));
        mapping.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut).for_each(follow);
    }

    /// Returns where a reference by JSON Pointer leads after the translation. `None` if it stays as it is.
    fn moved(&self, reference: &str) -> Option<String> {
        let pointer = decoded(reference.strip_prefix('#').filter(|pointer| pointer.starts_with('/'))?);
        let mut names = pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
        let (mut path, mut at, mut moved) = (Vec::new(), self.root, false);
        if self.moves_components && pointer.starts_with("/components/schemas/") {
            let name = names.nth(2)?;
            at = at.get("components")?.get("schemas")?.get(&name)?;
            path.extend(["$defs".to_owned(), name]);
            moved = true;
        }
        while let Some(name) = names.next() {
            let (Some(members), Some(value)) = (at.as_object(), at.get(&name)) else {
                path.push(name);
                break;
            };
            let kind = KeywordValue::of(&name, value);
            let steps = self.steps(members, &name);
            moved |= steps.len() > 1 || steps[0] != name;
            path.extend(steps);
            at = value;
            if matches!(kind, KeywordValue::Schemas | KeywordValue::Named)
                && let Some(name) = names.next()
            {
                let part = match at {
                    Value::Array(items) => name.parse::<usize>().ok().and_then(|position| items.get(position)),
                    at => at.get(&name),
                };
                path.push(name);
                match part {
                    Some(part) => at = part,
                    None => break,
                }
            } else if kind != KeywordValue::Schema {
                break;
            }
        }
        path.extend(names);
        let pointer: String = path.iter().map(|name| format!("/{}", escaped(name))).collect();
        moved.then(|| format!("#{}", encoded(&pointer)))
    }

    /// Returns the names that lead from a schema to its keyword `name` after the translation.
    fn steps(&self, members: &Map<String, Value>, name: &str) -> Vec<String> {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        if self.has_old_tuple(members) {
            match name {
                "items" => return texts(&["prefixItems"]),
                "additionalItems" => return texts(&["items"]),
                _ => {}
            }
        }
        let is_moved = members.get("nullable") == Some(&Value::Bool(true)) && DECIDING.contains(&name) && !has_only_any_of(members);
        if is_moved { texts(&["anyOf", "0", name]) } else { texts(&[name]) }
    }
}

/// Replaces OpenAPI's booleans next to a bound.
fn rewrite_bounds(members: &mut Map<String, Value>) {
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(bound) = members.get(inclusive).filter(|bound| bound.is_number()).cloned() else { continue };
        match members.get(exclusive).and_then(Value::as_bool) {
            Some(true) => {
                members.insert(exclusive.to_owned(), bound);
                members.shift_remove(inclusive);
            }
            Some(false) => _ = members.shift_remove(exclusive),
            None => {}
        }
    }
}

/// Gives the keywords of a tuple their newer names.
fn rewrite_tuple(members: &mut Map<String, Value>) {
    let is_empty = members.get("items").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let renamed = mem::take(members).into_iter().filter_map(|(name, value)| match name.as_str() {
        // `prefixItems` has at least one schema.
        "items" if is_empty => None,
        "items" => Some(("prefixItems".to_owned(), value)),
        "additionalItems" => Some(("items".to_owned(), value)),
        _ => Some((name, value)),
    });
    *members = renamed.collect();
}

/// Returns whether `anyOf` is the only keyword that decides whether null is valid.
fn has_only_any_of(members: &Map<String, Value>) -> bool {
    let deciding = members.keys().filter(|name| DECIDING.contains(&name.as_str())).collect::<Vec<_>>();
    deciding == ["anyOf"] && members["anyOf"].is_array()
}

/// Makes null valid. OpenAPI 3.0.3 requires it in `enum` too, but no generator writes it there.
fn accept_null(members: &mut Map<String, Value>) {
    match members.get_mut("type") {
        Some(Value::Array(names)) if !names.iter().any(|name| name == "null") => names.push(json!("null")),
        Some(name) if name.as_str().is_some_and(|name| name != "null") => *name = json!([mem::take(name), "null"]),
        Some(_) | None => {}
    }
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if has_only_any_of(members)
        && let Some(Value::Array(schemas)) = members.get_mut("anyOf")
    {
        schemas.push(json!({ "type": "null" }));
        return;
    }
    let mut deciding = Map::new();
    let mut kept = Map::new();
    for (name, value) in mem::take(members) {
        if DECIDING.contains(&name.as_str()) {
            // The combination takes the place of the first of them.
            kept.entry("anyOf").or_insert(Value::Null);
            deciding.insert(name, value);
        } else {
            kept.insert(name, value);
        }
    }
    if !deciding.is_empty() {
        kept.insert("anyOf".to_owned(), json!([deciding, { "type": "null" }]));
    }
    *members = kept;
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{bound, check_patterns, portable};

    #[test]
    fn schemas_in_plain_json_schema_stay_as_they_are() {
        for schema in [
            json!(true),
            json!({ "type": "object", "properties": { "nullable": { "type": "boolean" }, "items": { "items": { "type": "string" } } } }),
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true }),
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": false }),
            json!({ "const": { "nullable": true }, "components": { "schemas": {} } }),
            json!({ "format": "email", "pattern": "^(?!\\.)[a-z.@]+$" }),
            json!({ "format": "email", "pattern": "(".repeat(100_000) }),
        ] {
            assert!(matches!(standard(&schema), Cow::Borrowed(_)), "{schema}");
        }
    }

    #[test]
    fn keywords_of_generators_are_translated_in_place() {
        for (schema, translated) in [
            (json!({ "nullable": true, "type": "string" }), json!({ "type": ["string", "null"] })),
            (json!({ "nullable": false, "type": "string" }), json!({ "type": "string" })),
            (json!({ "type": "string", "enum": ["a"], "nullable": true }), json!({ "type": ["string", "null"], "enum": ["a", null] })),
            (
                json!({ "title": "t", "$ref": "#/$defs/a", "nullable": true, "default": null }),
                json!({ "title": "t", "anyOf": [{ "$ref": "#/$defs/a" }, { "type": "null" }], "default": null }),
            ),
            (json!({ "anyOf": [{ "type": "string" }], "nullable": true }), json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] })),
            (
                json!({ "anyOf": [true], "not": { "const": 1 }, "nullable": true }),
                json!({ "anyOf": [{ "anyOf": [true], "not": { "const": 1 } }, { "type": "null" }] }),
            ),
            (json!({ "minimum": 1, "exclusiveMinimum": true, "title": "t" }), json!({ "exclusiveMinimum": 1, "title": "t" })),
            (json!({ "maximum": 1, "exclusiveMaximum": false }), json!({ "maximum": 1 })),
            (json!({ "exclusiveMaximum": true }), json!({ "exclusiveMaximum": true })),
            (json!({ "items": [{}, true], "additionalItems": false }), json!({ "prefixItems": [{}, true], "items": false })),
            (json!({ "items": [], "maxItems": 0 }), json!({ "maxItems": 0 })),
            (json!({ "format": "email", "pattern": "(?i)a" }), json!({ "format": "email" })),
            (json!({ "format": "own", "pattern": "(?i)a", "nullable": true }), json!({ "format": "own", "pattern": "(?i)a" })),
            (
                json!({ "$ref": "#/components/schemas/A%20b", "components": { "schemas": { "A b": { "type": "string" } }, "x": 1 } }),
                json!({ "$ref": "#/$defs/A%20b", "components": { "x": 1 }, "$defs": { "A b": { "type": "string" } } }),
            ),
        ] {
            assert_eq!(standard(&schema).to_string(), translated.to_string(), "{schema}");
            assert_eq!(standard(&translated).as_ref(), &translated, "{schema}");
        }
    }

    #[test]
    fn references_follow_what_moves() {
        let schema = json!({ "properties": {
            "a": { "oneOf": [{ "type": "string" }], "nullable": true }, "b": { "$ref": "#/properties/a/oneOf/0" },
            "c": { "items": [{ "minimum": 0 }] }, "d": { "$ref": "#/properties/c/items/0/minimum" }, "e": { "$ref": "#/properties/a" },
            "f": { "$id": "https://a.example/", "$ref": "#/properties/c/items/0" }, "g": { "$ref": "#/properties/oneOf/not/here" },
            "oneOf": { "nullable": true, "type": "null" },
        } });
        let translated = standard(&schema);
        for (name, to) in [
            ("b", "#/properties/a/anyOf/0/oneOf/0"),
            ("d", "#/properties/c/prefixItems/0/minimum"),
            ("e", "#/properties/a"),
            ("f", "#/properties/c/items/0"),
            ("g", "#/properties/oneOf/not/here"),
        ] {
            assert_eq!(translated["properties"][name]["$ref"], to, "{name}");
        }
    }

    #[test]
    fn patterns_that_a_format_replaces_are_found() {
        let schema = json!({ "properties": { "a": { "format": "email", "pattern": "^a$" }, "b": { "format": "uuid", "pattern": "\\A" } } });
        assert_eq!(dropped_pattern(&schema).as_deref(), Some("/properties/b/pattern"));
        assert_eq!(dropped_pattern(&json!({ "pattern": "\\A" })), None);
    }

    #[test]
    fn generated_schemas_are_within_the_bounds_and_have_one_portable_copy() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/schemas");
        let mut count = 0;
        for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            let content: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            for one in content["schemas"].as_array().unwrap() {
                let (name, schema) = (&one["name"], &one["schema"]);
                let translated = standard(schema);
                assert_eq!(bound(&translated).and_then(|()| check_patterns(&translated)), Ok(()), "{name}");
                let copy = portable(schema, "#");
                assert_eq!(portable(&copy, "#"), copy, "{name}");
                assert!(!any_schema(&copy, &mut |members| members.contains_key("nullable")), "{name}");
                count += 1;
            }
        }
        assert!(count >= 80, "{count} schemas");
    }
}
