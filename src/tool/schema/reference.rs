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
        for (at, part) in subschemas(schema) {
            let base = Self::base(part, self.draft, base);
            self.gather(part, format!("{pointer}{at}"), &base, false);
        }
    }

    /// Resolves a reference to a JSON Pointer. Returns `None` if the target is not in this schema, or depends on the
    /// path to the reference.
    pub(super) fn resolve(&self, keyword: &str, to: &str, base: &Url) -> Option<String> {
        let address = base.join(to).ok()?;
        let fragment = decoded(address.fragment().unwrap_or_default());
        if keyword == "$dynamicRef"
            && let Some(positions) = self.dynamic.get(fragment.as_str())
        {
            // The target would be the outermost on the path, which differs between paths.
            return <&[String; 1]>::try_from(positions.as_slice()).ok().map(|[only]| only.clone());
        }
        let resource = self.resources.get(&bare(&address))?;
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = format!("{resource}{fragment}");
            return self.root.pointer(&pointer).map(|_| canonical(&pointer));
        }
        self.anchors.get(&(bare(&address), fragment.as_str())).cloned()
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
