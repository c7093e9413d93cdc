//! Estimates the cost of a schema before anything evaluates it.
//!
//! It counts subschemas with every `$ref` expanded, for one value of an instance: `{"allOf": [d, d]}` counts `d` twice.
//! A recursive schema is counted for one round: the instance determines how many rounds there are, and the worker can
//! be stopped. Linear in the schema's size, because counts are memoized.

use std::collections::HashMap;

use serde_json::Value;
use url::Url;

use super::{error::SchemaError, keyword::subschemas, pattern::patterns, pointer::escaped, reference::References};

/// Maximum nesting depth of a schema.
const MAX_DEPTH: usize = 32;

/// Maximum size of a schema, in bytes of JSON.
const MAX_BYTES: usize = 64 << 10;

/// Maximum number of subschemas with every `$ref` expanded.
const MAX_EXPANDED: u64 = 10_000;

/// Maximum number of regular expressions, in `pattern` and as names in `patternProperties`.
const MAX_PATTERNS: usize = 64;

/// Maximum total length of a schema's regular expressions, in bytes.
pub(super) const MAX_PATTERN_BYTES: usize = 8 << 10;

/// Refuses a schema that is certain to cost too much. Whether it is a valid schema is for the worker to decide.
///
/// # Errors
///
/// [`SchemaError`] with the limit, and a pointer to where it is exceeded.
pub fn bound(schema: &Value) -> Result<(), SchemaError> {
    let refusal = |message: String| SchemaError { pointer: String::new(), message };
    let bytes = schema.to_string().len();
    if bytes > MAX_BYTES {
        return Err(refusal(format!("the schema has {bytes} bytes, and the maximum is {MAX_BYTES}")));
    }
    if depth(schema) > MAX_DEPTH {
        return Err(refusal(format!("the schema is nested deeper than {MAX_DEPTH} levels")));
    }
    check_pattern_sizes(schema)?;
    let references = References::of(schema);
    let base = references.root_base();
    let mut count = PartCount { references, base, root: schema, counted: HashMap::new(), open: Vec::new(), reached: Vec::new() };
    count.run()?;
    match count.looped() {
        None => Ok(()),
        Some(at) => Err(SchemaError {
            pointer: pointer_to(schema, at).unwrap_or_default(),
            message: "this schema refers only to itself for the same value; describe the value, or refer to another schema".to_owned(),
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

/// Refuses too many or too long regular expressions, each of which is compiled once.
fn check_pattern_sizes(schema: &Value) -> Result<(), SchemaError> {
    let mut bytes = 0;
    for (before, (pointer, pattern)) in patterns(schema, "").into_iter().enumerate() {
        bytes += pattern.len();
        let message = if before == MAX_PATTERNS {
            format!("the schema has more than {MAX_PATTERNS} regular expressions")
        } else if bytes > MAX_PATTERN_BYTES {
            format!("the regular expressions of the schema have more than {MAX_PATTERN_BYTES} bytes together")
        } else {
            continue;
        };
        return Err(SchemaError { pointer, message });
    }
    Ok(())
}

/// The step from a part to one that it applies.
enum PartStep<'s> {
    Root,
    /// A keyword, and the JSON Pointer of the subschema.
    Within(&'s str, String),
    /// A reference, after which the path starts again at this JSON Pointer.
    To(String),
    /// A reference whose target depends on the path to it. This is one of the possible ones.
    ToOneOf(String),
}

/// A part whose own parts are being counted.
struct OpenPart<'s> {
    part: &'s Value,
    step: PartStep<'s>,
    remaining: Vec<(&'s Value, PartStep<'s>)>,
    count: u64,
}

struct PartCount<'s> {
    references: References<'s>,
    base: Url,
    root: &'s Value,
    /// Counts of parts by address. `None` while a part's own parts are being counted: meeting it again means recursion.
    counted: HashMap<usize, Option<u64>>,
    open: Vec<OpenPart<'s>>,
    /// All counted schemas, each with the subschemas that apply to the same value.
    reached: Vec<(&'s Value, Vec<&'s Value>)>,
}

impl<'s> PartCount<'s> {
    fn run(&mut self) -> Result<(), SchemaError> {
        self.enter(self.root, PartStep::Root);
        while let Some(last) = self.open.last_mut() {
            match last.remaining.pop() {
                Some((part, step)) => match self.counted.get(&key(part)) {
                    Some(count) => last.count = last.count.saturating_add(count.unwrap_or(1)),
                    None => self.enter(part, step),
                },
                None => self.leave()?,
            }
        }
        Ok(())
    }

    fn enter(&mut self, part: &'s Value, step: PartStep<'s>) {
        self.counted.insert(key(part), None);
        let remaining = self.parts(part);
        self.reached.push((part, of_the_same_value(&remaining)));
        self.open.push(OpenPart { part, step, remaining, count: 1 });
    }

    fn leave(&mut self) -> Result<(), SchemaError> {
        let pointer = if self.open.last().is_some_and(|last| last.count > MAX_EXPANDED) { Some(self.pointer()) } else { None };
        if let Some(pointer) = pointer {
            let message = format!("with every `$ref` expanded, this has more than {MAX_EXPANDED} schemas");
            return Err(SchemaError { pointer, message });
        }
        if let Some(OpenPart { part, count, .. }) = self.open.pop() {
            self.counted.insert(key(part), Some(count));
            if let Some(holder) = self.open.last_mut() {
                holder.count = holder.count.saturating_add(count);
            }
        }
        Ok(())
    }

    /// Returns a schema that applies itself to its own value, directly or through others. Validation with it would
    /// never end.
    fn looped(&self) -> Option<&'s Value> {
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

    /// Returns the subschemas that a schema applies to a value, or to parts of the value.
    fn parts(&self, schema: &'s Value) -> Vec<(&'s Value, PartStep<'s>)> {
        let mut parts = Vec::new();
        for (keyword, to) in schema.as_object().into_iter().flatten() {
            if !matches!(keyword.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") {
                continue;
            }
            // The worker finds out about references that lead nowhere.
            let targets = to.as_str().map(|to| self.references.targets(keyword, to, &self.base)).unwrap_or_default();
            let step = if targets.len() == 1 { PartStep::To } else { PartStep::ToOneOf };
            parts.extend(targets.into_iter().filter_map(|pointer| Some((self.root.pointer(&pointer)?, step(pointer)))));
        }
        let applied = subschemas(schema).into_iter().filter(|part| !matches!(part.keyword, "$defs" | "definitions"));
        parts.extend(applied.map(|part| (part.schema, PartStep::Within(part.keyword, part.pointer))));
        parts
    }

    /// Returns the JSON Pointer to the innermost open part.
    fn pointer(&self) -> String {
        let from = self.open.iter().rposition(|open| matches!(open.step, PartStep::To(_) | PartStep::ToOneOf(_))).unwrap_or(0);
        let mut pointer = String::new();
        for open in &self.open[from..] {
            match &open.step {
                PartStep::Root => {}
                PartStep::To(to) | PartStep::ToOneOf(to) => pointer.clone_from(to),
                PartStep::Within(_, below) => pointer += below,
            }
        }
        pointer
    }
}

/// Returns the subschemas of a schema that apply to the same value.
fn of_the_same_value<'s>(parts: &[(&'s Value, PartStep<'s>)]) -> Vec<&'s Value> {
    const SAME_VALUE: [&str; 9] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
    let parts = parts.iter().filter(|(_, step)| match step {
        PartStep::To(_) => true,
        PartStep::Within(keyword, _) => SAME_VALUE.contains(keyword),
        PartStep::Root | PartStep::ToOneOf(_) => false,
    });
    parts.map(|(part, _)| *part).collect()
}

/// Returns the address of a part, which identifies it.
fn key(part: &Value) -> usize {
    std::ptr::from_ref(part).addr()
}

/// Returns the nesting depth of arrays and objects in `value`. serde_json's own limit of 128 bounds the recursion.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests;
