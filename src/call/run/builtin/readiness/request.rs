//! The requests of a check.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method,
    header::{CONTENT_TYPE, HeaderValue, USER_AGENT},
};
use tollhouse_capability::guard::Fetch;
use url::Url;

/// Time limit of the first request, and of all others together.
pub(super) const FIRST_WALL: Duration = Duration::from_millis(4_500);

pub(super) const REST_WALL: Duration = Duration::from_millis(3_500);

/// Maximum size of a document that is read, in bytes.
pub(super) const BODY_BYTES: usize = 2 << 20;

pub(crate) const AGENT: &str = concat!("tollhouse-readiness/", env!("CARGO_PKG_VERSION"));

pub(super) fn post_json(url: &str, body: Bytes) -> Fetch<'_> {
    let mut request = Fetch { method: Method::POST, body: Some(body), ..Fetch::get(url, REST_WALL, BODY_BYTES) };
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    with_agent(request)
}

/// Adds the `User-Agent` to a request, so that a check requested by a check stops.
pub(super) fn with_agent(mut request: Fetch<'_>) -> Fetch<'_> {
    request.headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    request
}

/// Returns whether two URLs have the same host.
pub(super) fn same_host(url: &str, other: &Url) -> bool {
    Url::parse(url).is_ok_and(|url| url.host() == other.host())
}
