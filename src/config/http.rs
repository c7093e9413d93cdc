//! What comes in over the network: how often, how much at once, and how long it may take.

use std::{
    net::IpAddr,
    num::{NonZeroU8, NonZeroU32},
    time::Duration,
};

use rustix::process::{Resource, getrlimit};

use super::layered::flags;
use crate::money::FailedRuns;

/// Percent of all processor time for one address when nothing else is set.
const ADDRESS_CPU_PERCENT: u8 = 2;

/// Wrong credentials per minute of one address when nothing else is set.
const AUTH_FAILURES: u32 = 60;

/// The least that a request's head may be limited to, in bytes: what is read at once.
const LEAST_HEAD_BYTES: u32 = 8 << 10;

/// Connections at once when nothing else is set.
const CONNECTIONS: usize = 4_096;

/// Connections of one address when nothing else is set.
const ADDRESS_CONNECTIONS: usize = 256;

/// Bytes of bodies in memory at once when nothing else is set. A quarter of it is one address's.
const BODY_BYTES_HELD: usize = 128 << 20;

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
    /// Time in which a client takes nothing of an answer that waits for it, in ms; 0 is no limit [default: 30000]
    #[arg(long, env = "TOLLHOUSE_WRITE_STALL_MS")]
    pub write_stall_ms: Option<u64>,
    /// Requests under way at once on one HTTP/2 connection [default: 100]
    #[arg(long, env = "TOLLHOUSE_HTTP2_STREAMS", value_parser = clap::value_parser!(u32).range(1..))]
    pub http2_streams: Option<u32>,
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
    /// Between `progress` events of a streamed call.
    pub progress: Duration,
}

/// What comes in, and how long it may take. `None` is no limit.
#[derive(Debug, Clone)]
pub struct IntakeSettings {
    /// Of connections and heads of requests.
    pub connections: ConnectionSettings,
    /// Of bodies.
    pub bodies: BodySettings,
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
    /// Between two requests.
    pub idle: Option<Duration>,
    /// In which nothing is taken of an answer that waits for its client.
    pub write_stall: Option<Duration>,
    /// Requests under way at once on one HTTP/2 connection.
    pub streams: u32,
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
    /// Who listens on loopback listens to one address, be it tests or a proxy: it has no limits of its own unless told so.
    pub(super) fn resolve(self, listen: IpAddr) -> HttpSettings {
        HttpSettings {
            rate_limit: NonZeroU32::new(self.rate_limit.unwrap_or(if listen.is_loopback() { 0 } else { 100 })),
            address_cpu_percent: NonZeroU8::new(self.address_cpu_percent.unwrap_or(ADDRESS_CPU_PERCENT)),
            auth_failures: NonZeroU32::new(self.auth_failures.unwrap_or(AUTH_FAILURES)),
            failed_runs: self.failed_runs(listen),
            dry_runs: self.dry_runs.unwrap_or(4).max(1),
            asking: self.address_asking.unwrap_or(4).max(1),
            progress: Duration::from_millis(self.progress_ms.unwrap_or(5_000).max(1)),
            intake: self.intake(listen),
        }
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

    fn intake(&self, listen: IpAddr) -> IntakeSettings {
        let of_address = |given: Option<usize>, most: usize| some(given.unwrap_or(if listen.is_loopback() { 0 } else { most }));
        IntakeSettings {
            connections: ConnectionSettings {
                most: some(self.connections.unwrap_or_else(affordable_connections)),
                most_of_address: of_address(self.address_connections, ADDRESS_CONNECTIONS),
                head: some_ms(self.head_ms.unwrap_or(10_000)),
                head_bytes: self.head_bytes.unwrap_or(64 << 10).max(LEAST_HEAD_BYTES),
                idle: some_ms(self.idle_ms.unwrap_or(30_000)),
                write_stall: some_ms(self.write_stall_ms.unwrap_or(30_000)),
                streams: self.http2_streams.unwrap_or(100).max(1),
            },
            bodies: BodySettings {
                time: some_ms(self.body_ms.unwrap_or(60_000)),
                stall: some_ms(self.body_stall_ms.unwrap_or(10_000)),
                held: some(self.body_bytes_held.unwrap_or(BODY_BYTES_HELD)),
                held_of_address: of_address(self.address_body_bytes_held, BODY_BYTES_HELD / 4),
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
