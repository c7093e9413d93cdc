//! What a handler may know of the request beyond its input.

use serde::Serialize;
use serde_json::Value;

/// Everything of `req` but the body and the caller. Never credentials, payment or addresses.
#[derive(Debug, Clone, Serialize)]
pub struct RequestHead {
    pub method: &'static str,
    pub url: String,
    pub path: String,
    /// Names to strings, or to lists of strings where a name is repeated.
    pub query: Value,
    /// Lower-case names; only those of [`RequestHead::HEADERS`].
    pub headers: Vec<(String, String)>,
}

impl RequestHead {
    /// The headers that a handler sees.
    pub const HEADERS: &'static [&'static str] = &["accept", "accept-language", "content-type", "user-agent", "traceparent", "tracestate"];
}
