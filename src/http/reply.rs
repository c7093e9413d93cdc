//! Responses to calls.

use axum::{
    body::Body,
    http::{HeaderName, header::InvalidHeaderValue},
};
use tollhouse_call::{CompletedCall, bodiless};
use tollhouse_front::{header_names, settlement};

use crate::{HeaderValue, Response, StatusCode, header};

/// Returns the response of `/tools/{slug}`: the bare result, with receipt and settlement in headers.
pub(super) fn without_body(done: &CompletedCall) -> Response {
    let answer = &done.answer;
    let mut response = Response::new(Body::from(answer.body.clone()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    if !bodiless(answer.status) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), header_value(value)) {
            headers.insert(name, value);
        }
    }
    mark(&mut response, done);
    response
}

/// Converts a value that a handler set. Each character is a byte, as in handlers (Web IDL, ByteString).
fn header_value(value: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let bytes: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
    HeaderValue::from_bytes(bytes.as_deref().unwrap_or(value.as_bytes()))
}

/// Adds receipt and settlement headers, and isolates the tool's content from the host's origin: its documents run no
/// scripts and read nothing of this origin.
pub(super) fn mark(response: &mut Response, done: &CompletedCall) {
    let answer = &done.answer;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    if let Ok(value) = HeaderValue::from_str(&answer.receipt_id)
        && !answer.receipt_id.is_empty()
    {
        headers.insert(&header_names::RECEIPT_ID, value);
    }
    if let Some(payment) = &done.payment
        && let Ok(value) = HeaderValue::from_str(payment.as_str())
    {
        headers.insert(&header_names::PAYMENT_ID, value);
    }
    if let Some(settled) = &answer.settlement {
        settlement(headers, settled);
    }
}
