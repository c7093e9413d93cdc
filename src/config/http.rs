//! What comes in over the network: how often, how much at once, and how long it may take.

use std::{
    net::IpAddr,
    num::{NonZeroU8, NonZeroU32},
    time::Duration,
};

use ipnet::IpNet;
use rustix::process::{Resource, getrlimit};
use serde::Deserialize;
use tollhouse_money::FailedRuns;

use super::{error::SettingsError, layered::flags};

/// Percent of all processor time for one address when nothing else is set.
const ADDRESS_CPU_PERCENT: u8 = 2;

/// Wrong credentials per minute of one address when nothing else is set.
const AUTH_FAILURES: u32 = 60;

/// The least that a request's head may be limited to, in bytes: what is read at once.
const LEAST_HEAD_BYTES: u32 = 8 << 10;

/// The same of its header fields: browsers and payers send up to 30.
const LEAST_HEAD_FIELDS: u32 = 32;

/// Connections at once when nothing else is set.
const CONNECTIONS: usize = 4_096;

/// Connections of one address when nothing else is set.
const ADDRESS_CONNECTIONS: usize = 256;

/// Streams at once that follow logs, calls or events, and those of one address, when nothing else is set.
const FOLLOWERS: usize = 1_024;
const ADDRESS_FOLLOWERS: usize = 64;

/// Bytes of bodies in memory at once when nothing else is set. A quarter of it is one address's.
const BODY_BYTES_HELD: usize = 128 << 20;

/// Bytes of answers that clients have not taken, in memory at once, when nothing else is set. A quarter of it is one address's.
const ANSWER_BYTES_HELD: usize = 64 << 20;

/// HTTP/2 frames per second of one address beyond those of its requests when nothing else is set.
const HTTP2_OVERHEAD_FRAMES: u32 = 500;

/// The header in which a proxy names the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

flags! {
/// Of the HTTP front.
pub struct HttpFlags {
    /// Requests per second of one client address; 0 is no limit [default: 100, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_RATE_LIMIT")]
    pub rate_limit: Option<u32>,
    /// Share of all processor time that one client address may use while others want it and none is left over, in percent; 0 is no limit [default: 2]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_CPU_PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub address_cpu_percent: Option<u8>,
    /// Wrong credentials per minute of one client address, before all of its are refused for a while; 0 is no limit [default: 60]
    #[arg(long, env = "TOLLHOUSE_AUTH_FAILURES")]
    pub auth_failures: Option<u32>,
    /// Runs of one payer per minute that nobody pays for, those under way among them, before further runs get 429; 0 is no limit [default: 30]
    #[arg(long, env = "TOLLHOUSE_PAYER_FAILURES")]
    pub payer_failures: Option<u32>,
    /// The same from one client address, of all payers together; 0 is no limit [default: 60, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_FAILURES")]
    pub address_failures: Option<u32>,
    /// The same of one tool, by x402 payers who have not paid for that tool within an hour; 0 is no limit [default: 100]
    #[arg(long, env = "TOLLHOUSE_TOOL_FAILURES")]
    pub tool_failures: Option<u32>,
    /// Checks and dry runs of one builder at once, or of all admins [default: 4]
    #[arg(long, env = "TOLLHOUSE_DRY_RUNS")]
    pub dry_runs: Option<usize>,
    /// Questions at once that are asked elsewhere for one client address: of sellers by `/x402/quote`, and of whoever knows routes [default: 4]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_ASKING")]
    pub address_asking: Option<usize>,
    /// Connections at once; further ones are told 503, or closed; 0 is no limit [default: 4096, or as many as a quarter of the descriptors that the system allows]
    #[arg(long, env = "TOLLHOUSE_CONNECTIONS")]
    pub connections: Option<usize>,
    /// Connections of one client address at once; 0 is no limit [default: 256, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_CONNECTIONS")]
    pub address_connections: Option<usize>,
    /// Time to send the head of a request, in ms; 0 is no limit [default: 10000]
    #[arg(long, env = "TOLLHOUSE_HEAD_MS")]
    pub head_ms: Option<u64>,
    /// Largest head of a request, in bytes, at least 8192 [default: 65536]
    #[arg(long, env = "TOLLHOUSE_HEAD_BYTES", value_parser = clap::value_parser!(u32).range(i64::from(LEAST_HEAD_BYTES)..))]
    pub head_bytes: Option<u32>,
    /// Most header fields of a request, at least 32; one with more gets 431 [default: 100]
    #[arg(long, env = "TOLLHOUSE_HEAD_FIELDS", value_parser = clap::value_parser!(u32).range(i64::from(LEAST_HEAD_FIELDS)..))]
    pub head_fields: Option<u32>,
    /// Time that a connection may be idle between two requests, in ms; 0 is no limit [default: 30000]
    #[arg(long, env = "TOLLHOUSE_IDLE_MS")]
    pub idle_ms: Option<u64>,
    /// Time to send a body, in ms; 0 is no limit [default: 60000]
    #[arg(long, env = "TOLLHOUSE_BODY_MS")]
    pub body_ms: Option<u64>,
    /// Time in which nothing more of a body comes, in ms; 0 is no limit [default: 10000]
    #[arg(long, env = "TOLLHOUSE_BODY_STALL_MS")]
    pub body_stall_ms: Option<u64>,
    /// Bytes of bodies held in memory at once, of all requests; further ones are told 503; 0 is no limit [default: 134217728]
    #[arg(long, env = "TOLLHOUSE_BODY_BYTES_HELD")]
    pub body_bytes_held: Option<usize>,
    /// Of these, bytes of one client address; 0 is no limit [default: 33554432, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_BODY_BYTES_HELD")]
    pub address_body_bytes_held: Option<usize>,
    /// Bytes of answers held in memory that clients have not taken yet, of all requests; beyond it long unpaid answers get 503; 0 is no limit [default: 67108864]
    #[arg(long, env = "TOLLHOUSE_ANSWER_BYTES_HELD")]
    pub answer_bytes_held: Option<usize>,
    /// Of these, bytes of one client address, whose further requests get 503; 0 is no limit [default: 16777216, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_ANSWER_BYTES_HELD")]
    pub address_answer_bytes_held: Option<usize>,
    /// Time in which a client takes nothing of an answer that waits for it, in ms; 0 is no limit [default: 30000]
    #[arg(long, env = "TOLLHOUSE_WRITE_STALL_MS")]
    pub write_stall_ms: Option<u64>,
    /// Requests under way at once on one HTTP/2 connection [default: 100]
    #[arg(long, env = "TOLLHOUSE_HTTP2_STREAMS", value_parser = clap::value_parser!(u32).range(1..))]
    pub http2_streams: Option<u32>,
    /// HTTP/2 frames per second of one client address that belong to no request or answer, before its connections are closed; 0 is no limit [default: 500]
    #[arg(long, env = "TOLLHOUSE_HTTP2_OVERHEAD_FRAMES")]
    pub http2_overhead_frames: Option<u32>,
    /// Streams at once that follow logs, calls or events, each also one of the connections; further ones get 503; 0 is no limit [default: 1024]
    #[arg(long, env = "TOLLHOUSE_FOLLOWERS")]
    pub followers: Option<usize>,
    /// Of these, streams of one client address, whose further ones get 429; 0 is no limit [default: 64, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_FOLLOWERS")]
    pub address_followers: Option<usize>,
    /// Addresses or networks of proxies that are believed when they name the client's address, such as `127.0.0.1,10.0.0.0/8`, comma-separated
    #[arg(long, env = "TOLLHOUSE_TRUSTED_PROXIES", value_delimiter = ',')]
    pub trusted_proxies: Vec<String>,
    /// Header in which they name it [default: x-forwarded-for]
    #[arg(long, env = "TOLLHOUSE_FORWARDED_HEADER")]
    pub forwarded_header: Option<ForwardedHeader>,
    /// Time between `progress` events of a streamed call, in ms [default: 5000]
    #[arg(long, env = "TOLLHOUSE_PROGRESS_MS")]
    pub progress_ms: Option<u64>,
}
}

/// What the HTTP front lets in.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Requests per second of one client address.
    pub rate_limit: Option<NonZeroU32>,
    /// Percent of all processor time that one client address may use while others want it.
    pub address_cpu_percent: Option<NonZeroU8>,
    /// Wrong credentials per minute of one client address.
    pub auth_failures: Option<NonZeroU32>,
    /// Runs that may fail in a minute, uncharged.
    pub failed_runs: FailedRuns,
    /// Checks and dry runs of one owner at once.
    pub dry_runs: usize,
    /// Questions at once that are asked elsewhere for one client address.
    pub asking: usize,
    /// What comes in, and how long it may take.
    pub intake: IntakeSettings,
    /// Proxies that are trusted to name the client's address.
    pub proxies: ProxySettings,
    /// Between `progress` events of a streamed call.
    pub progress: Duration,
}

/// What comes in, and how long it may take. `None` is no limit.
#[derive(Debug, Clone)]
pub struct IntakeSettings {
    /// Of connections and heads of requests.
    pub connections: ConnectionSettings,
    /// Of streams that follow logs, calls or events.
    pub followers: FollowerSettings,
    /// Of bodies.
    pub bodies: BodySettings,
    /// Of answers.
    pub answers: AnswerSettings,
}

/// How many streams follow logs, calls or events at once. `None` is no limit.
#[derive(Debug, Clone)]
pub struct FollowerSettings {
    /// In all.
    pub most: Option<usize>,
    /// Of one client address.
    pub most_of_address: Option<usize>,
}

/// Limits of the answers that clients have not taken yet. `None` is no limit.
#[derive(Debug, Clone)]
pub struct AnswerSettings {
    /// Bytes in memory at once.
    pub held: Option<usize>,
    /// Bytes in memory at once, of one client address.
    pub held_of_address: Option<usize>,
}

/// The proxies that are believed when they name the client's address.
#[derive(Debug, Clone, Default)]
pub struct ProxySettings {
    /// Their networks.
    pub trusted: Vec<IpNet>,
    /// The header that names it.
    pub header: ForwardedHeader,
}

/// What connections may take. `None` is no limit.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// At once.
    pub most: Option<usize>,
    /// At once, of one client address.
    pub most_of_address: Option<usize>,
    /// To send the head of a request.
    pub head: Option<Duration>,
    /// Largest head of a request.
    pub head_bytes: u32,
    /// Most header fields of a request.
    pub head_fields: u32,
    /// Between two requests.
    pub idle: Option<Duration>,
    /// In which nothing is taken of an answer that waits for its client.
    pub write_stall: Option<Duration>,
    /// Requests under way at once on one HTTP/2 connection.
    pub streams: u32,
    /// HTTP/2 frames per second of one client address that belong to no request or answer.
    pub overhead_frames: Option<NonZeroU32>,
}

/// What bodies of requests may take. `None` is no limit.
#[derive(Debug, Clone)]
pub struct BodySettings {
    /// To send all of it.
    pub time: Option<Duration>,
    /// In which nothing more of it comes.
    pub stall: Option<Duration>,
    /// Bytes in memory at once.
    pub held: Option<usize>,
    /// Bytes in memory at once, of one client address.
    pub held_of_address: Option<usize>,
}

impl HttpFlags {
    /// Whether all requests come from one address: on loopback, where tests ask, or a proxy that is not trusted to name the client's.
    pub(super) fn sees_one_address(&self, listen: IpAddr) -> bool {
        listen.is_loopback() && self.trusted_proxies.is_empty()
    }

    /// The settings in force. A host that sees one address has no limits for each address unless they are set.
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
        let of = |given: Option<u32>, most| given.map_or(most, NonZeroU32::new);
        let FailedRuns { of_payer, of_address, of_tool } = FailedRuns::default();
        FailedRuns {
            of_payer: of(self.payer_failures, of_payer),
            of_address: of(self.address_failures, of_address.filter(|_| !listen.is_loopback())),
            of_tool: of(self.tool_failures, of_tool),
        }
    }

    fn intake(&self, one_address: bool) -> IntakeSettings {
        let of_address = |given: Option<usize>, most: usize| some(given.unwrap_or(if one_address { 0 } else { most }));
        IntakeSettings {
            connections: ConnectionSettings {
                most: some(self.connections.unwrap_or_else(affordable_connections)),
                most_of_address: of_address(self.address_connections, ADDRESS_CONNECTIONS),
                head: some_ms(self.head_ms.unwrap_or(10_000)),
                head_bytes: self.head_bytes.unwrap_or(64 << 10).max(LEAST_HEAD_BYTES),
                head_fields: self.head_fields.unwrap_or(100).max(LEAST_HEAD_FIELDS),
                idle: some_ms(self.idle_ms.unwrap_or(30_000)),
                write_stall: some_ms(self.write_stall_ms.unwrap_or(30_000)),
                streams: self.http2_streams.unwrap_or(100).max(1),
                overhead_frames: NonZeroU32::new(self.http2_overhead_frames.unwrap_or(HTTP2_OVERHEAD_FRAMES)),
            },
            followers: FollowerSettings {
                most: some(self.followers.unwrap_or(FOLLOWERS)),
                most_of_address: of_address(self.address_followers, ADDRESS_FOLLOWERS),
            },
            bodies: BodySettings {
                time: some_ms(self.body_ms.unwrap_or(60_000)),
                stall: some_ms(self.body_stall_ms.unwrap_or(10_000)),
                held: some(self.body_bytes_held.unwrap_or(BODY_BYTES_HELD)),
                held_of_address: of_address(self.address_body_bytes_held, BODY_BYTES_HELD / 4),
            },
            answers: AnswerSettings {
                held: some(self.answer_bytes_held.unwrap_or(ANSWER_BYTES_HELD)),
                held_of_address: of_address(self.address_answer_bytes_held, ANSWER_BYTES_HELD / 4),
            },
        }
    }
}

/// A limit, of which 0 is none.
fn some(limit: usize) -> Option<usize> {
    (limit > 0).then_some(limit)
}

/// A time limit in milliseconds, of which 0 is none.
fn some_ms(limit: u64) -> Option<Duration> {
    (limit > 0).then(|| Duration::from_millis(limit))
}

/// The others of the process's descriptors are for workers, files and the store.
fn affordable_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CONNECTIONS.min(usize::try_from(descriptors / 4).unwrap_or(CONNECTIONS))
}

/// Length of the prefix of IPv4-mapped addresses, `::ffff:0:0/96` (RFC 4291, section 2.5.5.2).
const MAPPED: u8 = 96;

/// The IPv4 network that an IPv4-mapped one names; any other network as it is. Peers are compared in the same form.
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
    fn trusted_proxies_are_addresses_and_networks_and_bring_the_limits_of_addresses() {
        let resolve = |proxies: &[&str]| {
            let flags = HttpFlags { trusted_proxies: proxies.iter().map(ToString::to_string).collect(), ..HttpFlags::default() };
            flags.resolve(Ipv4Addr::LOCALHOST.into())
        };
        let alone = resolve(&[]).unwrap();
        assert_eq!((alone.rate_limit, alone.intake.answers.held_of_address), (None, None));
        let behind = resolve(&["127.0.0.1", " ::1", "10.0.0.0/8"]).unwrap();
        assert_eq!((behind.proxies.trusted.len(), behind.rate_limit.map(NonZeroU32::get)), (3, Some(100)));
        assert_eq!(behind.intake.answers.held_of_address, Some(ANSWER_BYTES_HELD / 4));
        let mapped = resolve(&["::ffff:10.0.0.0/104", "::ffff:127.0.0.1", "::ffff:0:0/96", "2001:db8::/32"]).unwrap();
        let trusted: Vec<_> = mapped.proxies.trusted.iter().map(ToString::to_string).collect();
        assert_eq!(trusted, ["10.0.0.0/8", "127.0.0.1/32", "0.0.0.0/0", "2001:db8::/32"]);
        for wrong in ["localhost", "10.0.0.0/33", "", "127.0.0.1:80"] {
            let error = resolve(&[wrong]).unwrap_err().to_string();
            assert!(error.contains("TOLLHOUSE_TRUSTED_PROXIES") && error.contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
