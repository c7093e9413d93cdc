//! Resolves the references of a schema.

use std::collections::HashMap;

use serde_json::Value;
use url::Url;

use super::{
    keyword::subschemas,
    pointer::{decoded, escaped},
};

/// The address of a schema without one.
const NOWHERE: &str = "schema:///";

/// Maximum length of an `$id` that is used, in bytes, because all addresses below it become as long.
const MAX_ID: usize = 1 << 10;

/// The targets of references within one schema, as JSON Pointers from its root.
pub(super) struct References<'s> {
    root: &'s Value,
    draft: Draft,
    /// Targets of `$id` without a fragment.
    resources: HashMap<String, String>,
    /// Targets of `$anchor` and, in older drafts, of an `$id` that is a fragment.
    anchors: HashMap<(String, &'s str), String>,
    /// Targets of `$dynamicAnchor`.
    dynamic: HashMap<&'s str, Vec<String>>,
}

/// The draft of a schema, as far as references and bounds differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    /// Draft-04: uses `id`, and `exclusiveMinimum` is a boolean.
    Four,
    /// Draft-06 and draft-07: keywords next to a `$ref` are ignored.
    Seven,
    /// 2019-09 and later.
    Later,
}

impl Draft {
    pub(super) fn of(schema: &Value) -> Self {
        match schema["$schema"].as_str() {
            Some(text) if text.contains("draft-04") => Self::Four,
            Some(text) if text.contains("draft-06") || text.contains("draft-07") => Self::Seven,
            _ => Self::Later,
        }
    }

    fn id(self) -> &'static str {
        if self == Self::Four { "id" } else { "$id" }
    }
}

impl<'s> References<'s> {
    pub(super) fn of(root: &'s Value) -> Self {
        let (resources, anchors, dynamic) = Default::default();
        let mut references = Self { root, draft: Draft::of(root), resources, anchors, dynamic };
        let base = Self::base(root, references.draft, &Url::parse(NOWHERE).expect("it is a URL"));
        references.gather(root, String::new(), &base, true);
        references
    }

    pub(super) fn draft(&self) -> Draft {
        self.draft
    }

    /// Returns the base address of references in `schema`, which is within a schema at `around`.
    pub(super) fn base(schema: &Value, draft: Draft, around: &Url) -> Url {
        let id = schema.get(draft.id()).and_then(Value::as_str).filter(|id| !id.starts_with('#') && id.len() <= MAX_ID);
        let base = id.and_then(|id| around.join(id).ok());
        base.unwrap_or_else(|| around.clone())
    }

    /// Returns the base address of the root.
    pub(super) fn root_base(&self) -> Url {
        Self::base(self.root, self.draft, &Url::parse(NOWHERE).expect("it is a URL"))
    }

    fn gather(&mut self, schema: &'s Value, pointer: String, base: &Url, is_root: bool) {
        let id = schema.get(self.draft.id()).and_then(Value::as_str);
        if is_root || id.is_some_and(|id| !id.starts_with('#')) {
            self.resources.entry(bare(base)).or_insert_with(|| pointer.clone());
        }
        let named = id.and_then(|id| id.strip_prefix('#')).into_iter().chain(schema["$anchor"].as_str());
        for anchor in named.chain(schema["$dynamicAnchor"].as_str()) {
            self.anchors.entry((bare(base), anchor)).or_insert_with(|| pointer.clone());
        }
        if let Some(anchor) = schema["$dynamicAnchor"].as_str() {
            self.dynamic.entry(anchor).or_default().push(pointer.clone());
        }
        for part in subschemas(schema) {
            let base = Self::base(part.schema, self.draft, base);
            self.gather(part.schema, format!("{pointer}{}", part.pointer), &base, false);
        }
    }

    /// Resolves a reference to a JSON Pointer. Returns `None` if the target is not in this schema, or depends on the
    /// path to the reference.
    pub(super) fn resolve(&self, keyword: &str, to: &str, base: &Url) -> Option<String> {
        <[String; 1]>::try_from(self.targets(keyword, to, base)).ok().map(|[only]| only)
    }

    /// Resolves a reference to the JSON Pointers of all possible targets. There are several only for a `$dynamicRef`:
    /// its target is the outermost on the path to it, which differs between paths.
    pub(super) fn targets(&self, keyword: &str, to: &str, base: &Url) -> Vec<String> {
        let Ok(address) = base.join(to) else { return vec![] };
        let fragment = decoded(address.fragment().unwrap_or_default());
        if keyword == "$dynamicRef"
            && let Some(pointers) = self.dynamic.get(fragment.as_str())
        {
            return pointers.clone();
        }
        let only = if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = self.resources.get(&bare(&address)).map(|resource| format!("{resource}{fragment}"));
            pointer.filter(|pointer| self.root.pointer(pointer).is_some()).map(|pointer| canonical(&pointer))
        } else {
            self.anchors.get(&(bare(&address), fragment.as_str())).cloned()
        };
        only.into_iter().collect()
    }
}

/// Returns a pointer in this crate's canonical form.
fn canonical(pointer: &str) -> String {
    let names = pointer.split('/').map(|name| escaped(&name.replace("~1", "/").replace("~0", "~")));
    names.collect::<Vec<_>>().join("/")
}

fn bare(address: &Url) -> String {
    let mut address = address.clone();
    address.set_fragment(None);
    address.into()
}

/// Returns whether every reference in `schema` keeps its meaning one level deeper, with its definitions left at the
/// root.
pub fn nests(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(name, value)| match (name.as_str(), value) {
            ("$ref", Value::String(to)) => to.starts_with("#/$defs/") || to.starts_with("#/definitions/"),
            ("$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef", Value::String(_)) => false,
            _ => nests(value),
        }),
        Value::Array(items) => items.iter().all(nests),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_that_break_when_nested_are_found() {
        assert!(nests(&json!({ "properties": { "a": { "$ref": "#/$defs/a" } } })));
        assert!(nests(&json!({ "properties": { "$ref": { "type": "string" } } })));
        assert!(!nests(&json!({ "properties": { "a": { "$ref": "#" } } })));
        assert!(!nests(&json!({ "properties": { "a": { "$ref": "#/properties/b" } } })));
        assert!(!nests(&json!({ "$id": "https://example.com/a" })));
    }
}
