//! Documents that are made once for each change of what they tell.

use std::sync::{Mutex, PoisonError};

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

/// The first page of a document, and after how many changes of the catalogue it was made.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Option<(u64, Document)>>);

/// A document as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Document {
    body: Bytes,
    etag: HeaderValue,
}

impl Kept {
    /// The first page after so many changes: as it was made for them, or made now.
    pub(super) fn first(&self, changes: u64, make: impl FnOnce() -> Value) -> Document {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, document)) = last().as_ref().filter(|(made, _)| *made == changes) {
            return document.clone();
        }
        let document = Document::of(&make());
        *last() = Some((changes, document.clone()));
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
