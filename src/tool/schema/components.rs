//! A schema as components of an OpenAPI document, in a form that code generators can read.
//!
//! A generator reads a document with many tools as a whole, so one schema that it cannot read makes the document
//! unusable for it. Each rule below is for a construct with which at least one common generator fails. Like a portable
//! schema, a component is looser than the original.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
};

use serde_json::{Map, Value, json};

use super::{
    keyword::KeywordValue,
    pointer::{encoded, escaped},
    portable::{as_object, portable, references_in, rewrite_references},
    reference::Draft,
};

/// Maximum length of a component's name that is the beginning of other names, and of the part that is added, in bytes.
/// Generators name files after components.
const MAX_PREFIX: usize = 80;
const MAX_LABEL: usize = 40;

/// Maximum length of the JSON Pointer to an object or `enum` in a component, in bytes. Generators name a file after all
/// properties in the pointer.
const MAX_INLINE: usize = 120;

/// The keywords of components, without those that begin with `x-`. Linters reject others. Generators reject `xml` and
/// `externalDocs` of another form.
const KEYWORDS: &[&str] = &[
    "$comment",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "discriminator",
    "else",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

/// Splits a schema into components of a document: one named `name`, and one named `name_PART` for each definition and
/// for each other part that a reference leads to.
///
/// - References lead to components, never into one: generators make a type of a component, but not of each of its
///   parts.
/// - Objects that are deep in a component, or in a property with a long name, become components.
/// - No component contains itself, unless a property is between them: types cannot refer to themselves directly.
/// - Titles of components are omitted: generators would make the same type name of two tools' titles.
/// - `const` and `enum` are omitted if they have objects or arrays. A boolean `const` becomes `enum`.
/// - Keywords that OpenAPI does not know are omitted, except for `x-` ones. `dependencies` gets its newer names.
pub fn components(schema: &Value, name: &str) -> Vec<(String, Value)> {
    let root = reference(name);
    let mut whole = as_object(portable(schema, &root));
    let targets = references_in(&whole).iter().filter_map(|to| to.strip_prefix(&root)).map(str::to_owned).collect();
    let mut splitting = Splitting {
        root: &root,
        targets,
        components: vec![(name.to_owned(), Value::Null)],
        moved: HashMap::new(),
        taken: HashSet::from([squeezed(name)]),
        number: 0,
    };
    splitting.parts_of(&mut whole, "", 0, name);
    let Splitting { mut components, moved, .. } = splitting;
    components[0].1 = whole;
    let follow = |to: &str| {
        let component = to.strip_prefix(&root).and_then(|at| moved.get(at));
        Some(component.map_or_else(|| to.to_owned(), |component| reference(component)))
    };
    let is_old = Draft::of(schema) <= Draft::Seven;
    for (_, schema) in &mut components {
        rewrite_references(schema, &follow);
        visit(schema, |_| true, &mut |members| simplify(members, is_old));
        _ = schema.as_object_mut().and_then(|members| members.shift_remove("title"));
    }
    break_cycles(&mut components);
    components
}

fn reference(component: &str) -> String {
    format!("#/components/schemas/{component}")
}

/// Returns the part of a component's name that remains in the name of a type: generators drop punctuation and case.
fn squeezed(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// Moves parts to components of their own.
struct Splitting<'a> {
    /// The reference to the whole schema.
    root: &'a str,
    /// JSON Pointers that references lead to, in fragment form.
    targets: HashSet<String>,
    components: Vec<(String, Value)>,
    /// Component names by the former JSON Pointer of each part, in fragment form.
    moved: HashMap<String, String>,
    /// Names of components, squeezed.
    taken: HashSet<String>,
    /// The next number for a name. It only grows, so all searches for free names together are linear.
    number: usize,
}

impl Splitting<'_> {
    /// Moves parts out of a schema at `pointer`. It is in the component `name`, to which the first `start` bytes of the
    /// pointer lead. The parts are all definitions, targets of references, and objects that are far from the component.
    fn parts_of(&mut self, schema: &mut Value, pointer: &str, start: usize, name: &str) {
        let Value::Object(members) = schema else { return };
        for holder in ["$defs", "definitions"] {
            let Some(Value::Object(definitions)) = members.shift_remove(holder) else { continue };
            for (definition, schema) in definitions {
                self.component(schema, &format!("{pointer}/{holder}/{}", escaped(&definition)), name, &definition);
            }
        }
        for (member, value) in members.iter_mut() {
            let at = format!("{pointer}/{}", escaped(member));
            match (KeywordValue::of(member, value), value) {
                (KeywordValue::Schema, value) => self.part(value, &at, start, name, member),
                (KeywordValue::Schemas, Value::Array(items)) => {
                    for (position, item) in items.iter_mut().enumerate() {
                        self.part(item, &format!("{at}/{position}"), start, name, member);
                    }
                }
                (KeywordValue::Named, Value::Object(named)) => {
                    for (key, schema) in named {
                        self.part(schema, &format!("{at}/{}", escaped(key)), start, name, key);
                    }
                }
                (KeywordValue::Schemas | KeywordValue::Named | KeywordValue::Values | KeywordValue::Plain, _) => {}
            }
        }
    }

    /// Moves a part to a component, if it must be one. Otherwise moves parts out of it.
    fn part(&mut self, schema: &mut Value, pointer: &str, start: usize, name: &str, label: &str) {
        let fragment = encoded(pointer);
        let is_far = pointer.len() - start > MAX_INLINE && ["properties", "enum"].iter().any(|keyword| schema.get(keyword).is_some());
        if is_far || self.targets.contains(&fragment) {
            // A number distinguishes it from the types that generators make of objects in the component.
            let is_near = pointer[start..].matches('/').count() <= 2;
            let label = if is_near { label.to_owned() } else { format!("{}_{label}", self.components.len()) };
            self.component(mem::take(schema), pointer, name, &label);
            *schema = json!({ "$ref": format!("{}{fragment}", self.root) });
        } else {
            self.parts_of(schema, pointer, start, name);
        }
    }

    /// Makes a component of a part that is at `pointer`, within the component `name`.
    fn component(&mut self, schema: Value, pointer: &str, name: &str, label: &str) {
        let prefix = if name.len() > MAX_PREFIX { self.components[0].0.as_str() } else { name };
        let plain = label.chars().take(MAX_LABEL).map(|char| if char.is_ascii_alphanumeric() { char } else { '_' });
        let prefix = format!("{prefix}_{}", plain.collect::<String>());
        let mut component = prefix.clone();
        self.number = self.number.max(self.components.len());
        while !self.taken.insert(squeezed(&component)) {
            component = format!("{prefix}_{}", self.number);
            self.number += 1;
        }
        self.moved.insert(encoded(pointer), component.clone());
        let position = self.components.len();
        self.components.push((component.clone(), Value::Null));
        let mut schema = as_object(schema);
        self.parts_of(&mut schema, pointer, pointer.len(), &component);
        self.components[position].1 = schema;
    }
}

/// Calls `each` with a schema and with all schemas in it, as far as `enters` returns true for the keywords between
/// them.
fn visit(schema: &mut Value, enters: fn(&str) -> bool, each: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(members) = schema else { return };
    each(members);
    for (keyword, value) in members.iter_mut() {
        if !enters(keyword) {
            continue;
        }
        match (KeywordValue::of(keyword, value), value) {
            (KeywordValue::Schema, value) => visit(value, enters, each),
            (KeywordValue::Schemas, Value::Array(items)) => items.iter_mut().for_each(|item| visit(item, enters, each)),
            (KeywordValue::Named, Value::Object(named)) => named.values_mut().for_each(|schema| visit(schema, enters, each)),
            (KeywordValue::Schemas | KeywordValue::Named | KeywordValue::Values | KeywordValue::Plain, _) => {}
        }
    }
}

/// Omits or renames keywords of one schema. `is_old` is whether its draft knows `dependencies`.
fn simplify(members: &mut Map<String, Value>, is_old: bool) {
    if let Some(Value::Object(dependencies)) = members.shift_remove("dependencies")
        && is_old
    {
        let (names, schemas): (Map<_, _>, Map<_, _>) = dependencies.into_iter().partition(|(_, value)| value.is_array());
        let names: Map<_, _> = names.into_iter().filter(|(_, names)| is_texts(names)).collect();
        for (keyword, named) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !named.is_empty() {
                members.entry(keyword).or_insert(Value::Object(named));
            }
        }
    }
    // openapi-python-client writes a module that Python cannot parse.
    if let Some(boolean) = members.get("const").filter(|constant| constant.is_boolean()).cloned() {
        members.shift_remove("const");
        members.entry("type").or_insert_with(|| json!("boolean"));
        members.insert("enum".to_owned(), json!([boolean]));
    }
    members.retain(|name, value| match name.as_str() {
        "const" => is_scalar(value),
        "enum" => value.as_array().is_some_and(|values| values.iter().all(is_scalar)),
        name => KEYWORDS.contains(&name) || name.starts_with("x-"),
    });
    if let Some(discriminator) = members.get_mut("discriminator").and_then(Value::as_object_mut) {
        discriminator.retain(|name, _| matches!(name.as_str(), "propertyName" | "mapping") || name.starts_with("x-"));
    }
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// Returns whether a type contains the type below this keyword directly, and not as the type of a property.
fn is_direct(keyword: &str) -> bool {
    !matches!(keyword, "properties" | "patternProperties" | "additionalProperties")
}

/// Removes references so that no component contains itself directly.
fn break_cycles(components: &mut [(String, Value)]) {
    // In order of name, so that a schema always loses the same references.
    let mut direct = BTreeMap::<String, Vec<String>>::new();
    for (name, schema) in components.iter_mut() {
        let mut targets = Vec::new();
        visit(schema, is_direct, &mut |members| targets.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned)));
        direct.insert(reference(name), targets);
    }
    // False for the components on the path.
    let mut is_done = HashMap::<&str, bool>::new();
    let mut cut = HashSet::<(&str, &str)>::new();
    for (start, targets) in &direct {
        if is_done.contains_key(start.as_str()) {
            continue;
        }
        is_done.insert(start, false);
        let mut path = vec![(start.as_str(), targets.iter())];
        while let Some((from, targets)) = path.last_mut() {
            let from = *from;
            let Some(to) = targets.next() else {
                is_done.insert(from, true);
                path.pop();
                continue;
            };
            match is_done.get(to.as_str()) {
                Some(true) => {}
                Some(false) => _ = cut.insert((from, to.as_str())),
                None => {
                    is_done.insert(to, false);
                    path.extend(direct.get(to).map(|targets| (to.as_str(), targets.iter())));
                }
            }
        }
    }
    for (name, schema) in components {
        let from = reference(name);
        visit(schema, is_direct, &mut |members| {
            let to = members.get("$ref").and_then(Value::as_str);
            if to.is_some_and(|to| cut.contains(&(from.as_str(), to))) {
                members.shift_remove("$ref");
            }
        });
    }
}

#[cfg(test)]
mod tests;
