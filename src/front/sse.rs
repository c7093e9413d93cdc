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

use super::accept;

/// How often a silent stream sends a comment, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const EVENTS: &str = "text/event-stream";

/// Whether the caller prefers a stream of events to JSON. Clients that name both with one weight read either, and get JSON.
pub fn wanted(headers: &HeaderMap) -> bool {
    taken(headers) && accept::weight(headers, EVENTS) > accept::weight(headers, "application/json")
}

/// Whether the caller names a stream of events among what it takes.
pub fn taken(headers: &HeaderMap) -> bool {
    accept::is_named(headers, EVENTS) && accept::weight(headers, EVENTS).is_some_and(|weight| weight > 0.0)
}

/// An answer that is a stream of events, for one reader alone and held back by no proxy.
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
    fn a_stream_is_sent_to_those_who_prefer_it() {
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
            assert_eq!(wanted(&headers), streams, "{accept:?}");
        }
    }
}
