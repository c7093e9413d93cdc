//! Estimates the cost of a schema before anything evaluates it.
//!
//! It counts subschemas with every `$ref` expanded, for one value of an instance: `{"allOf": [d, d]}` counts `d` twice.
//! A recursive schema is counted for one round: the instance determines how many rounds there are, and the worker can
//! be stopped. Linear in the schema's size, because counts are memoized.

use std::collections::HashMap;

use serde_json::Value;

use super::pointer::{decoded, escaped};

/// Maximum nesting depth of a schema.
const MAX_DEPTH: usize = 32;

/// Maximum size of a schema, in bytes of JSON.
const MAX_BYTES: usize = 64 << 10;

/// Maximum number of subschemas with every `$ref` expanded.
const MAX_EXPANDED: u64 = 10_000;

/// Maximum number of regular expressions, in `pattern` and as names in `patternProperties`.
const MAX_PATTERNS: usize = 64;

/// Maximum total length of a schema's regular expressions, in bytes.
const MAX_PATTERN_BYTES: usize = 8 << 10;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON Pointer to the faulty part of the schema.
    pub pointer: String,
    /// The problem, explained to the builder.
    pub message: String,
}

/// Refuses a schema that is certain to cost too much. Whether it is a valid schema is for the worker to decide.
///
/// # Errors
///
/// [`SchemaError`] with the limit, and a pointer to where it is exceeded.
pub fn bound(schema: &Value) -> Result<(), SchemaError> {
    let refusal = |message: String| SchemaError { pointer: String::new(), message };
    let bytes = schema.to_string().len();
    if bytes > MAX_BYTES {
        return Err(refusal(format!("the schema is {bytes} bytes, limit {MAX_BYTES}")));
    }
    if super::depth(schema) > MAX_DEPTH {
        return Err(refusal(format!("the schema is nested deeper than {MAX_DEPTH} levels")));
    }
    let names = Names::of(schema)?;
    let mut count = PartCount { names: &names, root: schema, counted: HashMap::new(), open: Vec::new(), reached: Vec::new() };
    count.run()?;
    match count.looped() {
        None => Ok(()),
        Some(at) => Err(SchemaError {
            pointer: pointer_to(schema, at).unwrap_or_default(),
            message: "this refers to itself for the same value again and again: say what the value is, or refer to another schema"
                .to_owned(),
        }),
    }
}

/// Returns the JSON Pointer of `part` within `schema`.
fn pointer_to(schema: &Value, part: &Value) -> Option<String> {
    if std::ptr::eq(schema, part) {
        return Some(String::new());
    }
    let items = schema.as_array().into_iter().flatten().enumerate().map(|(position, item)| (position.to_string(), item));
    let members = schema.as_object().into_iter().flatten().map(|(name, member)| (escaped(name), member));
    items.chain(members).find_map(|(name, inner)| Some(format!("/{name}{}", pointer_to(inner, part)?)))
}

/// The targets of references, wherever they are in a schema.
#[derive(Default)]
struct Names<'s> {
    /// `$id`
    ids: HashMap<&'s str, &'s Value>,
    /// `$anchor` and `$dynamicAnchor`
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    patterns: usize,
    pattern_bytes: usize,
}

impl<'s> Names<'s> {
    /// Collects the targets. Also counts the regular expressions, each of which is compiled once.
    fn of(schema: &'s Value) -> Result<Self, SchemaError> {
        let mut names = Self::default();
        names.gather(schema, &mut Vec::new())?;
        Ok(names)
    }

    /// Collects recursively. The depth is limited by [`MAX_DEPTH`], which was checked before.
    fn gather(&mut self, value: &'s Value, method: &mut Vec<String>) -> Result<(), SchemaError> {
        for (position, item) in value.as_array().into_iter().flatten().enumerate() {
            method.push(position.to_string());
            self.gather(item, method)?;
            method.pop();
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            method.push(escaped(name));
            match (name.as_str(), member) {
                ("$id", Value::String(id)) => _ = self.ids.insert(id.trim_end_matches('#'), value),
                ("$anchor" | "$dynamicAnchor", Value::String(anchor)) => self.anchors.entry(anchor).or_default().push(value),
                ("pattern", Value::String(pattern)) => self.add_pattern(pattern, method)?,
                ("patternProperties", Value::Object(members)) => {
                    members.keys().try_for_each(|pattern| self.add_pattern(pattern, method))?
                }
                _ => {}
            }
            self.gather(member, method)?;
            method.pop();
        }
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &str, method: &[String]) -> Result<(), SchemaError> {
        self.patterns += 1;
        self.pattern_bytes += pattern.len();
        let message = if self.patterns > MAX_PATTERNS {
            format!("the schema has more than {MAX_PATTERNS} regular expressions")
        } else if self.pattern_bytes > MAX_PATTERN_BYTES {
            format!("the regular expressions of the schema are longer than {MAX_PATTERN_BYTES} bytes together")
        } else {
            return Ok(());
        };
        Err(SchemaError { pointer: format!("/{}", method.join("/")), message })
    }
}

/// A part to count.
#[derive(Clone, Copy)]
enum CountedPart<'s> {
    Schema(&'s Value),
    /// A reference with several possible targets.
    AnyOf(&'s [&'s Value]),
}

impl CountedPart<'_> {
    fn key(self) -> usize {
        match self {
            Self::Schema(schema) => std::ptr::from_ref(schema).addr(),
            Self::AnyOf(schemas) => schemas.as_ptr().addr(),
        }
    }
}

/// The step from a part to one that it applies.
#[derive(Clone, Copy)]
enum PartStep<'s> {
    Root,
    Keyword(&'s str),
    Member(&'s str, &'s str),
    Item(&'s str, usize),
    /// A reference, after which the path starts again.
    To(&'s str),
}

/// A part whose own parts are being counted.
struct OpenPart<'s> {
    part: CountedPart<'s>,
    step: PartStep<'s>,
    remaining: Vec<(CountedPart<'s>, PartStep<'s>)>,
    count: u64,
}

struct PartCount<'s, 'n> {
    names: &'n Names<'s>,
    root: &'s Value,
    /// Counts of parts. `None` while a part's own parts are being counted: meeting it again means recursion.
    counted: HashMap<usize, Option<u64>>,
    open: Vec<OpenPart<'s>>,
    /// All counted schemas, each with the subschemas that apply to the same value.
    reached: Vec<(&'s Value, Vec<&'s Value>)>,
}

impl<'s, 'n: 's> PartCount<'s, 'n> {
    fn run(&mut self) -> Result<(), SchemaError> {
        self.enter(CountedPart::Schema(self.root), PartStep::Root);
        while let Some(last) = self.open.last_mut() {
            match last.remaining.pop() {
                Some((part, step)) => match self.counted.get(&part.key()) {
                    Some(count) => last.count = last.count.saturating_add(count.unwrap_or(1)),
                    None => self.enter(part, step),
                },
                None => self.leave()?,
            }
        }
        Ok(())
    }

    fn enter(&mut self, part: CountedPart<'s>, step: PartStep<'s>) {
        self.counted.insert(part.key(), None);
        let remaining = match part {
            CountedPart::Schema(schema) => {
                let parts = self.parts(schema);
                self.reached.push((schema, of_the_same_value(&parts)));
                parts
            }
            CountedPart::AnyOf(schemas) => schemas.iter().map(|schema| (CountedPart::Schema(schema), step)).collect(),
        };
        self.open.push(OpenPart { part, step, remaining, count: 1 });
    }

    fn leave(&mut self) -> Result<(), SchemaError> {
        let pointer = if self.open.last().is_some_and(|last| last.count > MAX_EXPANDED) { Some(self.pointer()) } else { None };
        if let Some(pointer) = pointer {
            let message = format!("with every `$ref` written out this is more than {MAX_EXPANDED} schemas");
            return Err(SchemaError { pointer, message });
        }
        if let Some(OpenPart { part, count, .. }) = self.open.pop() {
            self.counted.insert(part.key(), Some(count));
            if let Some(holder) = self.open.last_mut() {
                holder.count = holder.count.saturating_add(count);
            }
        }
        Ok(())
    }

    /// Returns a schema that applies itself to its own value, directly or through others. Validation with it would
    /// never end.
    fn looped(&self) -> Option<&'s Value> {
        let key = |schema: &Value| std::ptr::from_ref(schema).addr();
        let same: HashMap<usize, &[&'s Value]> = self.reached.iter().map(|(schema, same)| (key(schema), &same[..])).collect();
        let of = |schema: &Value| same.get(&key(schema)).map_or(vec![], |same| same.to_vec());
        // True while the schema is on the current path.
        let mut met: HashMap<usize, bool> = HashMap::new();
        let mut method: Vec<(&'s Value, Vec<&'s Value>)> = Vec::new();
        for (start, _) in &self.reached {
            if met.contains_key(&key(start)) {
                continue;
            }
            met.insert(key(start), true);
            method.push((start, of(start)));
            while let Some((schema, remaining)) = method.last_mut() {
                let Some(next) = remaining.pop() else {
                    met.insert(key(schema), false);
                    method.pop();
                    continue;
                };
                match met.get(&key(next)) {
                    Some(true) => return Some(next),
                    Some(false) => {}
                    None => {
                        met.insert(key(next), true);
                        method.push((next, of(next)));
                    }
                }
            }
        }
        None
    }

    /// Returns the parts that a schema applies to a value or its parts.
    fn parts(&self, schema: &'s Value) -> Vec<(CountedPart<'s>, PartStep<'s>)> {
        let mut parts = Vec::new();
        for (name, value) in schema.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                    parts.extend(self.resolved(name, to).map(|part| (part, PartStep::To(to))))
                }
                ("properties" | "patternProperties" | "dependentSchemas" | "dependencies", Value::Object(members)) => {
                    parts.extend(members.iter().map(|(member, schema)| (CountedPart::Schema(schema), PartStep::Member(name, member))));
                }
                ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(items)) => {
                    parts.extend(
                        items.iter().enumerate().map(|(position, schema)| (CountedPart::Schema(schema), PartStep::Item(name, position))),
                    );
                }
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
                    schema,
                ) => parts.push((CountedPart::Schema(schema), PartStep::Keyword(name))),
                _ => {}
            }
        }
        parts
    }

    /// Resolves a reference. Returns `None` if it leads nowhere or in a way that is not supported here: the worker will
    /// find out.
    fn resolved(&self, keyword: &str, to: &str) -> Option<CountedPart<'s>> {
        let (base, fragment) = to.split_once('#').unwrap_or((to, ""));
        let within = if base.is_empty() { self.root } else { *self.names.ids.get(base)? };
        if fragment.is_empty() || fragment.starts_with('/') {
            return within.pointer(&decoded(fragment)).map(CountedPart::Schema);
        }
        let named = self.names.anchors.get(fragment)?;
        if keyword == "$ref" { named.first().map(|schema| CountedPart::Schema(schema)) } else { Some(CountedPart::AnyOf(named)) }
    }

    /// Returns the JSON Pointer to the innermost open part.
    fn pointer(&self) -> String {
        let from = self.open.iter().rposition(|open| matches!(open.step, PartStep::To(_))).unwrap_or(0);
        let mut pointer = String::new();
        for open in &self.open[from..] {
            match open.step {
                PartStep::Root => {}
                PartStep::To(to) => pointer = decoded(to.trim_start_matches('#')),
                PartStep::Keyword(name) => pointer += &format!("/{name}"),
                PartStep::Member(name, member) => pointer += &format!("/{name}/{}", escaped(member)),
                PartStep::Item(name, position) => pointer += &format!("/{name}/{position}"),
            }
        }
        pointer
    }
}

/// Returns the subschemas of a schema that apply to the same value.
fn of_the_same_value<'s>(parts: &[(CountedPart<'s>, PartStep<'s>)]) -> Vec<&'s Value> {
    let is_same = |step: &PartStep<'_>| match step {
        PartStep::To(_) => true,
        PartStep::Item(name, _) => matches!(*name, "allOf" | "anyOf" | "oneOf"),
        PartStep::Keyword(name) => matches!(*name, "not" | "if" | "then" | "else"),
        PartStep::Member(name, _) => matches!(*name, "dependentSchemas" | "dependencies"),
        PartStep::Root => false,
    };
    let parts = parts.iter().filter(|(_, step)| is_same(step));
    parts
        .filter_map(|(part, _)| match *part {
            CountedPart::Schema(schema) => Some(schema),
            CountedPart::AnyOf([schema]) => Some(*schema),
            // Which one it refers to depends on the path.
            CountedPart::AnyOf(_) => None,
        })
        .collect()
}

/// Returns the nesting depth of arrays and objects in `value`. serde_json's own limit of 128 bounds the recursion.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// Returns a chain of `levels` definitions, each made by `made` from the next one, with `last` at the end.
    fn chain(levels: usize, last: &Value, made: impl Fn(Value) -> Value) -> Value {
        let next = |level: usize| json!({ "$ref": format!("#/$defs/d{level}") });
        let mut defs: Map<_, _> = (0..levels).map(|level| (format!("d{level}"), made(next(level + 1)))).collect();
        defs.insert(format!("d{levels}"), last.clone());
        json!({ "$defs": defs, "$ref": "#/$defs/d0" })
    }

    #[test]
    fn what_doubles_with_each_level_is_refused_where_it_gets_too_much() {
        let both = |next: Value| json!({ "allOf": [next, next] });
        assert_eq!(bound(&chain(8, &json!({}), both)), Ok(()));
        let error = bound(&chain(28, &json!({ "type": "string" }), both)).unwrap_err();
        // Counted from the end, the limit is exceeded from the twelfth level on.
        assert_eq!(error.pointer, "/$defs/d16");
        assert!(error.message.contains("10000"), "{error}");
        type Made = fn(Value) -> Value;
        let shapes: [Made; 8] = [
            |next| json!({ "anyOf": [next, { "not": next }] }),
            |next| json!({ "oneOf": [next, next] }),
            |next| json!({ "if": next, "then": next, "else": next }),
            |next| json!({ "properties": { "a": next }, "patternProperties": { "a": next } }),
            |next| json!({ "items": next, "contains": next }),
            |next| json!({ "dependentSchemas": { "a": next, "b": next } }),
            |next| json!({ "unevaluatedProperties": next, "propertyNames": next }),
            |next| json!({ "prefixItems": [next], "unevaluatedItems": next }),
        ];
        for made in shapes {
            assert!(bound(&chain(28, &json!({}), made)).is_err(), "{}", made(json!("next")));
        }
    }

    #[test]
    fn references_are_followed_by_pointer_anchor_and_id() {
        for (root, name, to) in [
            (json!({}), "d~1 0", "#/$defs/d~1%20"),
            (json!({}), "d", "#d"),
            (json!({ "$id": "https://example.com/s" }), "d", "https://example.com/s#/$defs/d"),
        ] {
            let mut schema = root;
            let level = |level: usize| if name == "d~1 0" { format!("d/ {level}") } else { format!("d{level}") };
            for at in 0..28 {
                let next = json!({ "$ref": format!("{to}{}", at + 1) });
                schema["$defs"][level(at)] = json!({ "$anchor": format!("d{at}"), "allOf": [next, next] });
            }
            schema["$defs"][level(28)] = json!({ "$anchor": "d28" });
            schema["$ref"] = json!(format!("{to}0"));
            assert!(bound(&schema).is_err(), "{to}");
        }
    }

    #[test]
    fn a_recursive_schema_is_counted_once_around() {
        for schema in [
            json!({ "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } }),
            json!({ "$dynamicAnchor": "node", "properties": { "children": { "items": { "$dynamicRef": "#node" } } } }),
            json!({ "$ref": "#/nowhere", "$defs": { "a": { "$ref": "https://elsewhere.example/" } } }),
            json!(true),
        ] {
            assert_eq!(bound(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_is_a_loop_is_refused_with_where_it_is() {
        let defs = |a: Value, b: Value| json!({ "properties": { "x": { "$ref": "#/$defs/a" } }, "$defs": { "a": a, "b": b } });
        for (schema, pointers) in [
            (json!({ "$ref": "#" }), &[""][..]),
            (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } }), &["/$defs/a"]),
            (defs(json!({ "$ref": "#/$defs/b" }), json!({ "$ref": "#/$defs/a" })), &["/$defs/a", "/$defs/b"]),
            (
                defs(json!({ "allOf": [{ "type": "object" }, { "$ref": "#/$defs/b" }] }), json!({ "anyOf": [{ "$ref": "#/$defs/a" }] })),
                &["/$defs/a", "/$defs/b", "/$defs/a/allOf/1", "/$defs/b/anyOf/0"],
            ),
            (defs(json!({ "not": { "$ref": "#/$defs/a" } }), json!({})), &["/$defs/a", "/$defs/a/not"]),
            (json!({ "$dynamicAnchor": "n", "$dynamicRef": "#n" }), &[""]),
            (
                json!({ "properties": { "a/b": { "$anchor": "n", "if": true, "then": { "$ref": "#n" } } } }),
                &["/properties/a~1b", "/properties/a~1b/then"],
            ),
        ] {
            let error = bound(&schema).unwrap_err();
            assert!(pointers.contains(&error.pointer.as_str()), "{schema}: {error:?}");
            assert!(error.message.contains("refers to itself"), "{error:?}");
        }
        // A recursion into parts of the value ends with the value. A loop that is never applied is harmless.
        for schema in [
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "$ref": "#" } }] }),
            json!({ "properties": { "next": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] } } }),
            json!({ "propertyNames": { "$ref": "#/$defs/a" }, "$defs": { "a": { "type": "string" }, "b": { "$ref": "#/$defs/b" } } }),
            json!({ "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "$ref": "#/$defs/b" }, "b": {} } }),
        ] {
            assert_eq!(bound(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn patterns_bytes_and_levels_have_their_limits() {
        let patterns = |count: usize, length: usize| json!({ "properties": (0..count).map(|at| (format!("p{at}"), json!({ "pattern": "a".repeat(length) }))).collect::<Map<_, _>>() });
        assert_eq!(bound(&patterns(MAX_PATTERNS, 8)), Ok(()));
        for schema in [patterns(MAX_PATTERNS + 1, 8), patterns(3, MAX_PATTERN_BYTES / 2)] {
            let error = bound(&schema).unwrap_err();
            assert!(error.pointer.starts_with("/properties/p") && error.pointer.ends_with("/pattern"), "{error:?}");
        }
        let named: Map<_, _> = (0..100).map(|at| (format!("^{at}"), json!({}))).collect();
        assert_eq!(bound(&json!({ "patternProperties": named })).unwrap_err().pointer, "/patternProperties");
        assert!(bound(&json!({ "description": "d".repeat(MAX_BYTES) })).is_err());
        assert!(bound(&(0..40).fold(json!({}), |inner, _| json!({ "not": inner }))).is_err());
    }

    #[test]
    fn counting_is_linear() {
        // Every level refers to every other: expanded, there are more subschemas than atoms.
        let refs: Vec<_> = (0..45).map(|at| json!({ "$ref": format!("#/$defs/d{at}") })).collect();
        let defs: Map<_, _> = (0..45).map(|at| (format!("d{at}"), json!({ "anyOf": refs }))).collect();
        let schema = json!({ "$ref": "#/$defs/d0", "$defs": defs });
        let started = std::time::Instant::now();
        _ = bound(&schema);
        let many = json!({ "allOf": vec![json!({}); 9_000] });
        assert_eq!(bound(&many), Ok(()));
        assert!(started.elapsed().as_millis() < 500, "{:?}", started.elapsed());
    }
}
