//! Server-Sent Events: content negotiation, and the settings of every stream.

use std::{convert::Infallible, time::Duration};

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::Stream;

use super::accept;

/// Interval of comments on a silent stream, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const EVENTS: &str = "text/event-stream";

/// Returns whether the client prefers an event stream to JSON. A client that gives both the same weight reads either,
/// and gets JSON.
pub fn requested(headers: &HeaderMap) -> bool {
    accepts(headers) && accept::weight(headers, EVENTS) > accept::weight(headers, "application/json")
}

/// Returns whether the client explicitly accepts an event stream.
pub fn accepts(headers: &HeaderMap) -> bool {
    accept::is_named(headers, EVENTS)
}

/// Returns a response that streams events. Caches do not store it and proxies do not buffer it.
pub fn response(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_sent_to_clients_that_prefer_it() {
        for (accept, streams) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/*"), false),
            (Some("application/json, text/event-stream"), false),
            (Some("application/json;q=0.9, text/event-stream"), true),
            (Some("*/*;q=0.5, text/event-stream;q=0"), false),
            (Some("text/event-stream"), true),
            (Some("text/html, Text/Event-Stream"), true),
            (Some("text/event-stream, */*;q=0.1"), true),
            (Some("text/event-stream-x"), false),
        ] {
            let headers = accept.map(|accept| (header::ACCEPT, HeaderValue::from_static(accept))).into_iter().collect();
            assert_eq!(requested(&headers), streams, "{accept:?}");
        }
    }
}
