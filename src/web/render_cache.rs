//! Cache of rendered documents, by name and text.

use std::{collections::HashMap, sync::Arc};

use tollhouse_base::lock::Lock;

use crate::HeaderValue;

/// The last rendering of each document, by name.
#[derive(Debug, Default)]
pub struct RenderCache(Lock<HashMap<String, (HeaderValue, Arc<RenderedDoc>)>>);

/// A document rendered as part of a page.
#[derive(Debug)]
pub(super) struct RenderedDoc {
    pub(super) title: String,
    /// Content as HTML.
    pub(super) main: String,
}

impl RenderCache {
    /// Returns the rendering of a document if its text still has this tag.
    pub(super) fn get(&self, name: &str, tag: &HeaderValue) -> Option<Arc<RenderedDoc>> {
        let stored = self.0.lock();
        stored.get(name).filter(|(known, _)| known == tag).map(|(_, rendered)| Arc::clone(rendered))
    }

    /// Stores the rendering of an existing document. So there are at most as many as the host has
    /// documents.
    pub(super) fn put(&self, name: &str, tag: HeaderValue, rendered: RenderedDoc) -> Arc<RenderedDoc> {
        let rendered = Arc::new(rendered);
        self.0.lock().insert(name.to_owned(), (tag, Arc::clone(&rendered)));
        rendered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_returns_only_the_same_text() {
        let (stored, tag) = (RenderCache::default(), HeaderValue::from_static);
        assert!(stored.get("a", &tag("\"1\"")).is_none());
        let rendered = stored.put("a", tag("\"1\""), RenderedDoc { title: "A".to_owned(), main: "<p>a</p>".to_owned() });
        assert!(Arc::ptr_eq(&rendered, &stored.get("a", &tag("\"1\"")).unwrap()), "rendered once");
        assert!(stored.get("a", &tag("\"2\"")).is_none() && stored.get("b", &tag("\"1\"")).is_none());
    }
}
