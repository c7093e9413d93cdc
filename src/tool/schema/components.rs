//! A schema as components of an OpenAPI document.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    keyword::KeywordValue,
    pointer::{encoded, escaped},
    portable::{as_object, portable, rewrite_references},
};

/// Splits a schema into components of a document, named `name` and `name_DEFINITION`. Code generators make types from
/// components, and few follow a reference into one.
pub fn components(schema: &Value, name: &str) -> Vec<(String, Value)> {
    let root = format!("#/components/schemas/{name}");
    let mut whole = as_object(portable(schema, &root));
    let mut moving = Moving { components: vec![(name.to_owned(), Value::Null)], moved: HashMap::new(), taken: HashSet::new() };
    moving.definitions_of(&mut whole, "", name);
    let Moving { mut components, moved, .. } = moving;
    components[0].1 = whole;
    // Use the definition closest to the end of the reference.
    let follow = |to: &str| {
        let below = to.strip_prefix(&root).unwrap_or_default();
        let ends = below.match_indices('/').map(|(at, _)| at).chain([below.len()]).collect::<Vec<_>>();
        let nearest = ends.into_iter().rev().find_map(|end| Some((moved.get(&below[..end])?, end)));
        Some(nearest.map_or_else(|| to.to_owned(), |(component, end)| format!("#/components/schemas/{component}{}", &below[end..])))
    };
    components.iter_mut().for_each(|(_, schema)| rewrite_references(schema, &follow));
    components
}

/// Moves definitions to components.
struct Moving {
    components: Vec<(String, Value)>,
    /// Component names by the former JSON Pointer of each definition, in fragment form.
    moved: HashMap<String, String>,
    taken: HashSet<String>,
}

impl Moving {
    /// Moves the definitions out of a schema at `pointer`, which is a part of the component `name`.
    fn definitions_of(&mut self, schema: &mut Value, pointer: &str, name: &str) {
        let Value::Object(members) = schema else { return };
        for holder in ["$defs", "definitions"] {
            let Some(Value::Object(definitions)) = members.shift_remove(holder) else { continue };
            for (definition, mut schema) in definitions {
                let plain: String = definition.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect();
                let mut component = format!("{name}_{plain}");
                if self.taken.contains(&component) {
                    component = format!("{component}_{}", self.components.len());
                }
                self.taken.insert(component.clone());
                let at = format!("{pointer}/{holder}/{}", escaped(&definition));
                self.moved.insert(encoded(&at), component.clone());
                let position = self.components.len();
                self.components.push((component.clone(), Value::Null));
                self.definitions_of(&mut schema, &at, &component);
                self.components[position].1 = schema;
            }
        }
        for (member, value) in members.iter_mut() {
            let at = format!("{pointer}/{}", escaped(member));
            match (KeywordValue::of(member, value), value) {
                (KeywordValue::Schema, value) => self.definitions_of(value, &at, name),
                (KeywordValue::Schemas, Value::Array(items)) => {
                    items.iter_mut().enumerate().for_each(|(position, item)| self.definitions_of(item, &format!("{at}/{position}"), name));
                }
                (KeywordValue::Named, Value::Object(named)) => {
                    named.iter_mut().for_each(|(key, schema)| self.definitions_of(schema, &format!("{at}/{}", escaped(key)), name));
                }
                (KeywordValue::Schemas | KeywordValue::Named | KeywordValue::Values | KeywordValue::Plain, _) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
