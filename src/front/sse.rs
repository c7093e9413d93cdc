//! Server-Sent Events: who asks for them, and what every stream of them has.

use std::{convert::Infallible, time::Duration};

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::Stream;

/// How often a silent stream sends a comment, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// True when the caller asks for a stream.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|one| one.trim().starts_with("text/event-stream"))
}

/// An answer that is a stream of events, for one reader alone and held back by no proxy.
pub(crate) fn response(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
