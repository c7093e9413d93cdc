//! Settings of network input: rates, sizes, concurrency, and timeouts.

use std::{
    net::IpAddr,
    num::{NonZeroU8, NonZeroU32},
    time::Duration,
};

use ipnet::IpNet;
use rustix::process::{Resource, getrlimit};
use serde::Deserialize;
use tollhouse_call::{JoinLimits, StreamSettings};
use tollhouse_money::FailedRuns;

use super::{error::SettingsError, layered::flags};

/// Default share of all processor time for one address, in percent.
const ADDRESS_CPU_PERCENT: u8 = 2;

/// Default limit on failed authentications per minute for one address.
const AUTH_FAILURES: u32 = 60;

/// Minimum setting for the size of a request's head, in bytes: the size of one read.
const LEAST_HEAD_BYTES: u32 = 8 << 10;

/// Minimum setting for the number of header fields. Browsers and payers send up to 30.
const LEAST_HEAD_FIELDS: u32 = 32;

/// Default limit on concurrent connections.
const CONNECTIONS: usize = 4_096;

/// Default limit on concurrent connections of one address.
const ADDRESS_CONNECTIONS: usize = 256;

/// Default limits on concurrent streams that follow logs, calls or events: in all, and of one address.
const FOLLOWERS: usize = 1_024;
const ADDRESS_FOLLOWERS: usize = 64;

/// Default limits on requests that wait for running calls: for the run of one payment, and of one address.
const PAYMENT_JOINS: usize = 16;
const ADDRESS_JOINS: usize = 64;

/// Default limit on answers that are being streamed to one address.
const ADDRESS_STREAMS: usize = 64;

/// Default size up to which a streamed answer is kept for its payment, in bytes.
const STREAM_KEPT_BYTES: usize = 256 << 10;

/// Default limit on bytes of request bodies in memory. One address may use a quarter of it.
const BODY_BYTES_HELD: usize = 128 << 20;

/// Default limit on bytes on disk of long request bodies that are not JSON. One address may use a quarter of it.
const SPOOL_BYTES: usize = 1 << 30;

/// Default limit on bytes in memory of responses that clients have not read yet. One address may use a quarter of it.
const ANSWER_BYTES_HELD: usize = 64 << 20;

/// Default limit on HTTP/2 frames per second of one address, beyond those of its requests.
const HTTP2_OVERHEAD_FRAMES: u32 = 500;

/// The header in which a proxy names the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239)
    Forwarded,
}

flags! {
/// Flags for the HTTP front end.
pub struct HttpFlags {
    /// Requests per second from one client address; 0 means no limit [default: 100, and none when listening on loopback]
    pub rate_limit: Option<u32> = "TOLLHOUSE_RATE_LIMIT",
    /// Processor share of one client address while others wait, in percent; 0 means no limit [default: 2]
    pub address_cpu_percent: Option<u8> = "TOLLHOUSE_ADDRESS_CPU_PERCENT" (value_parser = clap::value_parser!(u8).range(0..=100)),
    /// Wrong credentials per minute from one client address before 429; 0 means no limit [default: 60]
    pub auth_failures: Option<u32> = "TOLLHOUSE_AUTH_FAILURES",
    /// Uncharged runs per minute by one payer; further ones get 429; 0 means no limit [default: 30]
    pub payer_failures: Option<u32> = "TOLLHOUSE_PAYER_FAILURES",
    /// Uncharged runs per minute from one client address, all payers together; 0 means no limit [default: 60, and none when listening on loopback]
    pub address_failures: Option<u32> = "TOLLHOUSE_ADDRESS_FAILURES",
    /// Uncharged runs of one tool per minute, by new payers; 0 means no limit [default: 100]
    pub tool_failures: Option<u32> = "TOLLHOUSE_TOOL_FAILURES",
    /// x402 payments per minute from one address that begin no run; 0 means no limit [default: 60, and none when listening on loopback]
    pub address_refused_payments: Option<u32> = "TOLLHOUSE_ADDRESS_REFUSED_PAYMENTS",
    /// Concurrent checks and dry runs of one builder, or of all admins [default: 4]
    pub dry_runs: Option<usize> = "TOLLHOUSE_DRY_RUNS",
    /// Concurrent requests to sellers and route services, on behalf of one client address [default: 4]
    pub address_asking: Option<usize> = "TOLLHOUSE_ADDRESS_ASKING",
    /// Requests that wait for the result of one payment's running call; further ones get 409 [default: 16]
    pub payment_joins: Option<usize> = "TOLLHOUSE_PAYMENT_JOINS",
    /// Requests from one address that wait for running calls; 0 means no limit [default: 64, and none when listening on loopback]
    pub address_joins: Option<usize> = "TOLLHOUSE_ADDRESS_JOINS",
    /// Answers that are being streamed to one address; 0 means no limit [default: 64, and none when listening on loopback]
    pub address_streams: Option<usize> = "TOLLHOUSE_ADDRESS_STREAMS",
    /// Size up to which a streamed answer is kept for its payment, in bytes [default: 262144]
    pub stream_kept_bytes: Option<usize> = "TOLLHOUSE_STREAM_KEPT_BYTES",
    /// Time after which a streamed answer that its caller does not read ends, in ms [default: 30000]
    pub stream_stall_ms: Option<u64> = "TOLLHOUSE_STREAM_STALL_MS",
    /// Time between comments in a silent stream of a tool's events, in ms [default: 15000]
    pub stream_heartbeat_ms: Option<u64> = "TOLLHOUSE_STREAM_HEARTBEAT_MS",
    /// Concurrent connections; further ones get 503 or are closed; 0 means no limit [default: 4096, or as many as a quarter of the descriptors that the system allows]
    pub connections: Option<usize> = "TOLLHOUSE_CONNECTIONS",
    /// Concurrent connections from one client address; 0 means no limit [default: 256, and none when listening on loopback]
    pub address_connections: Option<usize> = "TOLLHOUSE_ADDRESS_CONNECTIONS",
    /// Maximum time to send the head of a request, in ms; 0 means no limit [default: 10000]
    pub head_ms: Option<u64> = "TOLLHOUSE_HEAD_MS",
    /// Maximum size of a request's head, in bytes, at least 8192 [default: 65536]
    pub head_bytes: Option<u32> = "TOLLHOUSE_HEAD_BYTES" (value_parser = clap::value_parser!(u32).range(i64::from(LEAST_HEAD_BYTES)..)),
    /// Maximum number of header fields of a request, at least 32; more get 431 [default: 100]
    pub head_fields: Option<u32> = "TOLLHOUSE_HEAD_FIELDS" (value_parser = clap::value_parser!(u32).range(i64::from(LEAST_HEAD_FIELDS)..)),
    /// Maximum idle time of a connection between two requests, in ms; 0 means no limit [default: 30000]
    pub idle_ms: Option<u64> = "TOLLHOUSE_IDLE_MS",
    /// Maximum time to send a request body, in ms; 0 means no limit [default: 60000]
    pub body_ms: Option<u64> = "TOLLHOUSE_BODY_MS",
    /// Maximum pause while a request body is sent, in ms; 0 means no limit [default: 10000]
    pub body_stall_ms: Option<u64> = "TOLLHOUSE_BODY_STALL_MS",
    /// Bytes of request bodies in memory; further requests get 503; 0 means no limit [default: 134217728]
    pub body_bytes_held: Option<usize> = "TOLLHOUSE_BODY_BYTES_HELD",
    /// Bytes of request bodies in memory from one client address; 0 means no limit [default: 33554432, and none when listening on loopback]
    pub address_body_bytes_held: Option<usize> = "TOLLHOUSE_ADDRESS_BODY_BYTES_HELD",
    /// Bytes of long non-JSON bodies on disk; further ones get 503; 0 means no limit [default: 1073741824]
    pub spool_bytes: Option<usize> = "TOLLHOUSE_SPOOL_BYTES",
    /// Bytes of long non-JSON bodies on disk from one client address; 0 means no limit [default: 268435456, and none when listening on loopback]
    pub address_spool_bytes: Option<usize> = "TOLLHOUSE_ADDRESS_SPOOL_BYTES",
    /// Bytes of unread responses; above that, long unpaid calls get 503; 0 means no limit [default: 67108864]
    pub answer_bytes_held: Option<usize> = "TOLLHOUSE_ANSWER_BYTES_HELD",
    /// Unread response bytes per address; above this limit, requests get 503; 0 means no limit [default: 16777216, and none when listening on loopback]
    pub address_answer_bytes_held: Option<usize> = "TOLLHOUSE_ADDRESS_ANSWER_BYTES_HELD",
    /// Maximum time that a response can stay unread, in ms; 0 means no limit [default: 30000]
    pub write_stall_ms: Option<u64> = "TOLLHOUSE_WRITE_STALL_MS",
    /// Concurrent requests on one HTTP/2 connection [default: 100]
    pub http2_streams: Option<u32> = "TOLLHOUSE_HTTP2_STREAMS" (value_parser = clap::value_parser!(u32).range(1..)),
    /// HTTP/2 frames outside requests, per second from one client address; 0 means no limit [default: 500]
    pub http2_overhead_frames: Option<u32> = "TOLLHOUSE_HTTP2_OVERHEAD_FRAMES",
    /// Streams that follow logs, calls or events; further ones get 503; 0 means no limit [default: 1024]
    pub followers: Option<usize> = "TOLLHOUSE_FOLLOWERS",
    /// Streams of logs, calls and events to one address; 0 means no limit [default: 64, and none when listening on loopback]
    pub address_followers: Option<usize> = "TOLLHOUSE_ADDRESS_FOLLOWERS",
    /// Addresses or networks of trusted proxies, for example `127.0.0.1,10.0.0.0/8`
    pub trusted_proxies: Vec<String> = "TOLLHOUSE_TRUSTED_PROXIES" (value_delimiter = ','),
    /// Header in which trusted proxies send the client's address [default: x-forwarded-for]
    pub forwarded_header: Option<ForwardedHeader> = "TOLLHOUSE_FORWARDED_HEADER",
    /// Time between `progress` events of a streamed call, in ms [default: 5000]
    pub progress_ms: Option<u64> = "TOLLHOUSE_PROGRESS_MS",
}
}

/// Settings of the HTTP front end.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Limit on requests per second for each client address.
    pub rate_limit: Option<NonZeroU32>,
    /// Share of all processor time for each client address while others need it, in percent.
    pub address_cpu_percent: Option<NonZeroU8>,
    /// Limit on failed authentications per minute for each client address.
    pub auth_failures: Option<NonZeroU32>,
    /// Limits on uncharged runs per minute.
    pub failed_runs: FailedRuns,
    /// Limit on concurrent checks and dry runs of one owner.
    pub dry_runs: usize,
    /// Limit on concurrent outgoing requests for one client address.
    pub asking: usize,
    /// Limits on requests that wait for running calls of their payments.
    pub joins: JoinLimits,
    /// Limits on streamed answers. The number of all of them follows from that of the worker processes.
    pub streams: StreamSettings,
    /// Limits on connections, bodies and responses.
    pub intake: IntakeSettings,
    /// Trusted proxies.
    pub proxies: ProxySettings,
    /// Interval between `progress` events of a streamed call.
    pub progress: Duration,
}

/// Limits on connections, bodies and responses. `None` means no limit.
#[derive(Debug, Clone)]
pub struct IntakeSettings {
    /// Limits on connections and request heads.
    pub connections: ConnectionSettings,
    /// Limits on streams that follow logs, calls or events.
    pub followers: QuotaSettings,
    /// Limits on request bodies.
    pub bodies: BodySettings,
    /// Bytes of responses that clients have not read yet.
    pub answers: QuotaSettings,
}

/// Limits on the use of something. `None` means no limit.
#[derive(Debug, Clone, Copy)]
pub struct QuotaSettings {
    /// Maximum for all addresses together.
    pub max: Option<usize>,
    /// Maximum of one client address.
    pub max_per_address: Option<usize>,
}

/// The proxies that are trusted to name the client's address.
#[derive(Debug, Clone, Default)]
pub struct ProxySettings {
    /// Their networks.
    pub trusted: Vec<IpNet>,
    /// The header that contains the client's address.
    pub header: ForwardedHeader,
}

/// Limits on connections. `None` means no limit.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// Open connections.
    pub open: QuotaSettings,
    /// Time to send the head of a request.
    pub head: Option<Duration>,
    /// Maximum size of a request's head, in bytes.
    pub head_bytes: u32,
    /// Maximum number of header fields in a request.
    pub head_fields: u32,
    /// Idle time between two requests.
    pub idle: Option<Duration>,
    /// Time in which a client reads nothing of a waiting response.
    pub write_stall: Option<Duration>,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// Maximum number of HTTP/2 frames per second of one client address that belong to no request or response.
    pub overhead_frames: Option<NonZeroU32>,
}

/// Limits on request bodies. `None` means no limit.
#[derive(Debug, Clone)]
pub struct BodySettings {
    /// Time to send the whole body.
    pub time: Option<Duration>,
    /// Time without any further data.
    pub stall: Option<Duration>,
    /// Bytes in memory.
    pub held: QuotaSettings,
    /// Bytes on disk, of long bodies that are not JSON.
    pub spooled: QuotaSettings,
}

impl HttpFlags {
    /// Returns whether all requests appear to come from one address: on loopback, where tests run, or behind a proxy
    /// that is not trusted to name the client's address.
    pub(super) fn sees_one_address(&self, listen: IpAddr) -> bool {
        listen.is_loopback() && self.trusted_proxies.is_empty()
    }

    /// Returns the effective settings. If all requests appear to come from one address, limits per address apply only
    /// if they are set.
    ///
    /// # Errors
    ///
    /// A trusted proxy that is not an address or a network.
    pub(super) fn resolve(self, listen: IpAddr) -> Result<HttpSettings, SettingsError> {
        let one_address = self.sees_one_address(listen);
        let proxies = self.proxies()?;
        Ok(HttpSettings {
            rate_limit: NonZeroU32::new(self.rate_limit.unwrap_or(if one_address { 0 } else { 100 })),
            address_cpu_percent: NonZeroU8::new(self.address_cpu_percent.unwrap_or(ADDRESS_CPU_PERCENT)),
            auth_failures: NonZeroU32::new(self.auth_failures.unwrap_or(AUTH_FAILURES)),
            failed_runs: self.failed_runs(listen),
            dry_runs: self.dry_runs.unwrap_or(4).max(1),
            asking: self.address_asking.unwrap_or(4).max(1),
            progress: Duration::from_millis(self.progress_ms.unwrap_or(5_000).max(1)),
            joins: JoinLimits {
                of_payment: self.payment_joins.unwrap_or(PAYMENT_JOINS).max(1),
                of_address: some(self.address_joins.unwrap_or(if one_address { 0 } else { ADDRESS_JOINS })),
            },
            streams: StreamSettings {
                places: 1,
                of_address: some(self.address_streams.unwrap_or(if one_address { 0 } else { ADDRESS_STREAMS })),
                kept: self.stream_kept_bytes.unwrap_or(STREAM_KEPT_BYTES),
                stall: Duration::from_millis(self.stream_stall_ms.unwrap_or(30_000).max(1)),
                heartbeat: Duration::from_millis(self.stream_heartbeat_ms.unwrap_or(15_000).max(1)),
            },
            intake: self.intake(one_address),
            proxies,
        })
    }

    fn proxies(&self) -> Result<ProxySettings, SettingsError> {
        let network = |text: &String| {
            let text = text.trim();
            let one = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
            text.parse::<IpNet>().map(canonical).or_else(|_| one()).map_err(|_| SettingsError::TrustedProxy(text.to_owned()))
        };
        let trusted = self.trusted_proxies.iter().map(network).collect::<Result<_, _>>()?;
        Ok(ProxySettings { trusted, header: self.forwarded_header.unwrap_or_default() })
    }

    fn failed_runs(&self, listen: IpAddr) -> FailedRuns {
        let of = |given: Option<u32>, max| given.map_or(max, NonZeroU32::new);
        let FailedRuns { of_payer, of_address, of_tool, refused_of_address } = FailedRuns::default();
        let one_address = self.sees_one_address(listen);
        FailedRuns {
            of_payer: of(self.payer_failures, of_payer),
            of_address: of(self.address_failures, of_address.filter(|_| !one_address)),
            of_tool: of(self.tool_failures, of_tool),
            refused_of_address: of(self.address_refused_payments, refused_of_address.filter(|_| !one_address)),
        }
    }

    fn intake(&self, one_address: bool) -> IntakeSettings {
        let quota = |max: usize, of_address: Option<usize>, default: usize| QuotaSettings {
            max: some(max),
            max_per_address: some(of_address.unwrap_or(if one_address { 0 } else { default })),
        };
        IntakeSettings {
            connections: ConnectionSettings {
                open: quota(self.connections.unwrap_or_else(affordable_connections), self.address_connections, ADDRESS_CONNECTIONS),
                head: some_ms(self.head_ms.unwrap_or(10_000)),
                head_bytes: self.head_bytes.unwrap_or(64 << 10).max(LEAST_HEAD_BYTES),
                head_fields: self.head_fields.unwrap_or(100).max(LEAST_HEAD_FIELDS),
                idle: some_ms(self.idle_ms.unwrap_or(30_000)),
                write_stall: some_ms(self.write_stall_ms.unwrap_or(30_000)),
                streams: self.http2_streams.unwrap_or(100).max(1),
                overhead_frames: NonZeroU32::new(self.http2_overhead_frames.unwrap_or(HTTP2_OVERHEAD_FRAMES)),
            },
            followers: quota(self.followers.unwrap_or(FOLLOWERS), self.address_followers, ADDRESS_FOLLOWERS),
            bodies: BodySettings {
                time: some_ms(self.body_ms.unwrap_or(60_000)),
                stall: some_ms(self.body_stall_ms.unwrap_or(10_000)),
                held: quota(self.body_bytes_held.unwrap_or(BODY_BYTES_HELD), self.address_body_bytes_held, BODY_BYTES_HELD / 4),
                spooled: quota(self.spool_bytes.unwrap_or(SPOOL_BYTES), self.address_spool_bytes, SPOOL_BYTES / 4),
            },
            answers: quota(self.answer_bytes_held.unwrap_or(ANSWER_BYTES_HELD), self.address_answer_bytes_held, ANSWER_BYTES_HELD / 4),
        }
    }
}

/// Converts a limit, of which 0 means none.
fn some(limit: usize) -> Option<usize> {
    (limit > 0).then_some(limit)
}

/// Converts a time limit in milliseconds, of which 0 means none.
fn some_ms(limit: u64) -> Option<Duration> {
    (limit > 0).then(|| Duration::from_millis(limit))
}

/// Returns the default number of connections: a quarter of the process's file descriptors at most. The others are for
/// workers, files and the store.
fn affordable_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CONNECTIONS.min(usize::try_from(descriptors / 4).unwrap_or(CONNECTIONS))
}

/// Length of the prefix of IPv4-mapped addresses, `::ffff:0:0/96` (RFC 4291, section 2.5.5.2).
const MAPPED: u8 = 96;

/// Converts an IPv4-mapped network to the IPv4 network, and leaves others as they are. Peer addresses are compared in
/// the same form.
fn canonical(network: IpNet) -> IpNet {
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(MAPPED)) {
        (IpAddr::V4(address), Some(length)) if network.addr().is_ipv6() => IpNet::new_assert(address.into(), length),
        _ => network,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn trusted_proxies_enable_limits_per_address() {
        let resolve = |proxies: &[&str]| {
            let flags = HttpFlags { trusted_proxies: proxies.iter().map(ToString::to_string).collect(), ..HttpFlags::default() };
            flags.resolve(Ipv4Addr::LOCALHOST.into())
        };
        let alone = resolve(&[]).unwrap();
        assert_eq!((alone.rate_limit, alone.intake.answers.max_per_address), (None, None));
        assert_eq!(alone.failed_runs.refused_of_address, None);
        let behind = resolve(&["127.0.0.1", " ::1", "10.0.0.0/8"]).unwrap();
        assert_eq!((behind.proxies.trusted.len(), behind.rate_limit.map(NonZeroU32::get)), (3, Some(100)));
        assert_eq!(behind.intake.answers.max_per_address, Some(ANSWER_BYTES_HELD / 4));
        assert_eq!(behind.failed_runs.refused_of_address.map(NonZeroU32::get), Some(60));
        assert_eq!((alone.failed_runs.of_address, behind.failed_runs.of_address.map(NonZeroU32::get)), (None, Some(60)));
        assert_eq!((alone.joins.of_address, behind.joins.of_address), (None, Some(ADDRESS_JOINS)));
        let mapped = resolve(&["::ffff:10.0.0.0/104", "::ffff:127.0.0.1", "::ffff:0:0/96", "2001:db8::/32"]).unwrap();
        let trusted: Vec<_> = mapped.proxies.trusted.iter().map(ToString::to_string).collect();
        assert_eq!(trusted, ["10.0.0.0/8", "127.0.0.1/32", "0.0.0.0/0", "2001:db8::/32"]);
        for wrong in ["localhost", "10.0.0.0/33", "", "127.0.0.1:80"] {
            let error = resolve(&[wrong]).unwrap_err().to_string();
            assert!(error.contains("TOLLHOUSE_TRUSTED_PROXIES") && error.contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
