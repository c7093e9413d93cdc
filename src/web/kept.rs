//! Documents as parts of pages: each is made once, and again only when its text is another one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::HeaderValue;

/// What was made of documents last, by their names.
#[derive(Debug, Default)]
pub struct Kept(Mutex<HashMap<String, (HeaderValue, Arc<Made>)>>);

/// A document as a part of a page.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) title: String,
    /// HTML.
    pub(super) main: String,
}

impl Kept {
    /// What was made of the document while its text had this tag.
    pub(super) fn get(&self, name: &str, tag: &HeaderValue) -> Option<Arc<Made>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(name).filter(|(known, _)| known == tag).map(|(_, made)| Arc::clone(made))
    }

    /// Keeps what was made of a document that there is: of as many names as the host has documents.
    pub(super) fn put(&self, name: &str, tag: HeaderValue, made: Made) -> Arc<Made> {
        let made = Arc::new(made);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), (tag, Arc::clone(&made)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_of_another_text_is_not_shown() {
        let (kept, tag) = (Kept::default(), HeaderValue::from_static);
        assert!(kept.get("a", &tag("\"1\"")).is_none());
        let made = kept.put("a", tag("\"1\""), Made { title: "A".to_owned(), main: "<p>a</p>".to_owned() });
        assert!(Arc::ptr_eq(&made, &kept.get("a", &tag("\"1\"")).unwrap()), "made once");
        assert!(kept.get("a", &tag("\"2\"")).is_none() && kept.get("b", &tag("\"1\"")).is_none());
    }
}
