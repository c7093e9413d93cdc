//! What the guard bounds.

use std::time::Duration;

/// Redirects that one request follows.
pub const MAX_REDIRECTS: usize = 3;

/// Longest URL, in bytes.
pub const URL_BYTES: usize = 4_096;

/// Longest that a name may take to resolve.
pub(super) const DNS_WALL: Duration = Duration::from_secs(2);

/// Longest that a connection and its TLS handshake may take.
pub(super) const CONNECT_WALL: Duration = Duration::from_secs(5);

/// Requests of the whole host under way at once; further ones wait within their own time.
pub(super) const OPEN_REQUESTS: usize = 512;
