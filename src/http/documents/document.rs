//! A document, ready to send.

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::{HeaderMap, HeaderValue, IntoResponse, Response, StatusCode, header};

/// A document, ready to send. Cloning it is cheap.
#[derive(Debug, Clone)]
pub(super) struct Document {
    media: &'static str,
    body: Bytes,
    etag: HeaderValue,
}

impl Document {
    pub(super) fn json(value: &impl Serialize) -> Self {
        Self::of("application/json", serde_json::to_vec(value).expect("documents have text keys"))
    }

    pub(super) fn of(media: &'static str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&body)[..16]));
        Self { media, etag: HeaderValue::from_str(&etag).expect("hex digits in quotes"), body }
    }

    /// Returns the response, or 304 if the client already has the document.
    pub(super) fn respond(self, headers: &HeaderMap) -> Response {
        let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
        let own = self.etag.to_str().unwrap_or_default();
        // A compressed document has a weak tag with the same text.
        let known = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == own));
        let reported = [(header::ETAG, self.etag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"))];
        if known {
            return (StatusCode::NOT_MODIFIED, reported).into_response();
        }
        (reported, [(header::CONTENT_TYPE, HeaderValue::from_static(self.media))], self.body).into_response()
    }

    /// Returns the body as text.
    pub(super) fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("documents are text")
    }
}
