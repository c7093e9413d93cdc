//! What a handler may know of the request beyond its input.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything of `req` but the body and the caller. Never credentials, payment or addresses.
#[derive(Debug, Clone, Serialize)]
pub struct RequestHead {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// As the caller asked for it.
    pub url: String,
    /// Without the query.
    pub path: String,
    /// Of a name that is repeated, the last value.
    pub query: BTreeMap<String, String>,
    /// Lower-case names; only those of [`RequestHead::HEADERS`].
    pub headers: BTreeMap<&'static str, String>,
}

impl RequestHead {
    /// The headers that a handler sees.
    pub const HEADERS: &'static [&'static str] = &["accept", "accept-language", "content-type", "user-agent", "traceparent", "tracestate"];
}
