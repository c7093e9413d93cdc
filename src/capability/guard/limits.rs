//! What the guard bounds.

use std::{ops::RangeInclusive, time::Duration};

/// Redirects that one request follows.
pub const MAX_REDIRECTS: usize = 3;

/// Longest URL, in bytes.
pub const URL_BYTES: usize = 4_096;

/// Longest that a name may take to resolve, once it is asked for.
pub(super) const DNS_WALL: Duration = Duration::from_secs(2);

/// Longest that a connection and its TLS handshake may take.
pub(super) const CONNECT_WALL: Duration = Duration::from_secs(5);

/// Requests of the whole host under way at once; further ones wait within their own time.
pub(super) const OPEN_REQUESTS: usize = 512;

/// Connections to one host that are kept for a next request.
pub(super) const IDLE_CONNECTIONS: usize = 8;

/// How long one is kept.
pub(super) const IDLE_FOR: Duration = Duration::from_secs(30);

/// Hosts whose connections are kept.
pub(super) const KEPT_HOSTS: usize = 128;

/// Since the last request to a host began: by then none is kept any more. The client looks for those every [`IDLE_FOR`].
pub(super) const KEPT_HOSTS_FOR: Duration = Duration::from_secs(120);

/// Names that are asked for at once; further ones wait within the time of a connection.
pub(super) const LOOKUPS: usize = 64;

/// Threads of the system's that ask for names that settings exempt.
pub(super) const LOOKUP_THREADS: usize = 8;

/// Addresses of one name that are looked at, and dialled; further ones are as if they were not there.
pub(super) const ADDRESSES: usize = 32;

/// How long the addresses of a name are kept, whatever they say themselves.
pub(super) const KEPT_FOR: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(300);

/// The same for a name that does not exist.
pub(super) const UNKNOWN_FOR: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);

/// What names that are kept take together, in bytes.
pub(super) const KEPT_NAMES_BYTES: u64 = 1 << 20;

/// Headers of an answer. More end the connection.
pub(super) const HEADERS: usize = 100;

/// Bytes of an answer's headers together: offers of payment are headers, and a seller may have many.
pub(super) const HEADER_BYTES: usize = 64 << 10;

/// What the client reads at once, in bytes: a head is in it as a whole.
pub(super) const BUFFER_BYTES: usize = 96 << 10;

/// Bytes that a connection may bring before the head of an answer is there, that one included: a TLS handshake, heads that are
/// none yet (1xx), and as much of the body as the client has read ahead, in its buffers of [`BUFFER_BYTES`].
pub(super) const AWAITED_BYTES: usize = 512 << 10;

/// Bytes that a byte of a body may take on its way, in chunks and TLS records as small as they come.
pub(super) const WIRE_BYTES: usize = 32;
