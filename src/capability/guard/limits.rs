//! Limits of the guard.

use std::{ops::RangeInclusive, time::Duration};

/// Maximum number of redirects that one request follows.
pub const MAX_REDIRECTS: usize = 3;

/// Maximum length of a URL, in bytes.
pub const URL_BYTES: usize = 4_096;

/// Timeout for resolving a name, once the lookup has started.
pub(super) const DNS_WALL: Duration = Duration::from_secs(2);

/// Timeout for connecting, including the TLS handshake.
pub(super) const CONNECT_WALL: Duration = Duration::from_secs(5);

/// Maximum number of concurrent requests of the whole host. Further requests wait within their own timeout.
pub(super) const OPEN_REQUESTS: usize = 512;

/// Maximum number of idle connections to one host.
pub(super) const IDLE_CONNECTIONS: usize = 8;

/// How long an idle connection is kept.
pub(super) const IDLE_FOR: Duration = Duration::from_secs(30);

/// Maximum number of hosts with idle connections.
pub(super) const CACHED_HOSTS: usize = 128;

/// Time after the last request to a host when no connection to it is idle anymore. The client closes idle connections
/// every [`IDLE_FOR`].
pub(super) const CACHED_HOSTS_TTL: Duration = Duration::from_secs(120);

/// Maximum number of concurrent lookups. Further lookups wait within the connection's timeout.
pub(super) const LOOKUPS: usize = 64;

/// Number of threads for resolving exempt names through the system.
pub(super) const LOOKUP_THREADS: usize = 8;

/// Maximum number of addresses of one name that are checked and dialed. Others are ignored.
pub(super) const ADDRESSES: usize = 32;

/// Bounds on how long a name's addresses are cached, whatever their TTL.
pub(super) const CACHE_TTL: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(300);

/// Bounds on how long a nonexistent name is cached.
pub(super) const UNKNOWN_FOR: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);

/// Maximum size of all cached names, in bytes.
pub(super) const CACHED_NAMES_BYTES: u64 = 1 << 20;

/// Maximum number of headers in a response. More headers end the connection.
pub(super) const HEADERS: usize = 100;

/// Maximum total size of a response's headers and status text, in bytes. Payment offers are headers, and a seller can have many.
pub(super) const HEADER_BYTES: usize = 64 << 10;

/// Size of the client's read buffer, in bytes. A response head must fit into it.
pub(super) const BUFFER_BYTES: usize = 96 << 10;

/// Maximum number of bytes on a connection up to and including a response's head: a TLS handshake, interim heads (1xx),
/// and the part of the body that the client has read ahead into its buffers of [`BUFFER_BYTES`].
pub(super) const AWAITED_BYTES: usize = 512 << 10;

/// Maximum number of bytes on the wire for each byte of a body, allowing for the smallest chunks and TLS records.
pub(super) const WIRE_BYTES: usize = 32;
