//! JSON bodies, parsed where a long one holds up nobody.

use axum::{
    extract::{FromRequest, Request},
    http::{StatusCode, header},
};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::error::ApiError;
use crate::aside::aside;

/// The body of a request that says it is JSON.
pub(super) async fn text<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    let media = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.and_then(|media| media.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase();
    if media != "application/json" && !(media.starts_with("application/") && media.ends_with("+json")) {
        let message = "a body is JSON, and its `Content-Type` is `application/json`";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", rejection.body_text()),
        _ => ApiError::bad_request(rejection.body_text()),
    })
}

/// `body` as JSON of the form `T`.
pub(super) async fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    let parsed = aside(body.len(), || serde_json::from_slice(body)).await;
    parsed.map_err(|error| match error.classify() {
        Category::Data => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", format!("the body does not fit: {error}")),
        Category::Io | Category::Syntax | Category::Eof => {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is not JSON: {error}"))
        }
    })
}
