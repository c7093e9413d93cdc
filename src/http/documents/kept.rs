//! Documents that are made once for each change of what they tell.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The documents as they were made last.
#[derive(Debug, Default)]
pub struct Documents {
    pub(super) openapi: Kept,
    pub(super) well_known: Kept,
}

/// How long a page is kept, here and by who has read it: what facilitators say of themselves comes and changes without the catalogue.
const KEPT: Duration = Duration::from_secs(60);

/// The first page of a document, after how many changes of the catalogue it was made, and when.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Option<(u64, Instant, Document)>>);

/// A document as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Document {
    body: Bytes,
    etag: HeaderValue,
}

impl Kept {
    /// The first page after so many changes: as it was made for them not long ago, or made now.
    pub(super) fn first(&self, changes: u64, now: Instant, make: impl FnOnce() -> Value) -> Document {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = |made: u64, at: Instant| made == changes && now.saturating_duration_since(at) < KEPT;
        if let Some((.., document)) = last().as_ref().filter(|(made, at, _)| current(*made, *at)) {
            return document.clone();
        }
        let document = Document::of(&make());
        *last() = Some((changes, now, document.clone()));
        document
    }
}

impl Document {
    pub(super) fn of(value: &Value) -> Self {
        let body = value.to_string();
        let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&body)[..16]));
        Self { etag: HeaderValue::from_str(&etag).expect("hex digits in quotes"), body: Bytes::from(body) }
    }

    /// To who may have it already.
    pub(super) fn told(self, headers: &HeaderMap) -> Response {
        let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
        let own = self.etag.to_str().unwrap_or_default();
        // Compressed it has a weak tag of the same text.
        let known = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == own));
        let told = [(header::ETAG, self.etag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"))];
        if known {
            return (StatusCode::NOT_MODIFIED, told).into_response();
        }
        (told, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], self.body).into_response()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_is_made_anew_after_a_change_and_after_a_minute() {
        let (kept, now) = (Kept::default(), Instant::now());
        let made = |changes, later: Duration, value: u64| kept.first(changes, now + later, || json!(value)).body;
        assert_eq!(made(1, Duration::ZERO, 1), "1");
        assert_eq!(made(1, KEPT - Duration::from_millis(1), 2), "1");
        assert_eq!(made(1, KEPT, 3), "3");
        assert_eq!(made(2, KEPT, 4), "4");
    }
}
