//! Settings: flags over environment over `tollhouse.toml` over defaults. The only reader of the
//! environment.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::{NonZeroU8, NonZeroU32},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Resource, getrlimit};
use serde::Deserialize;

use crate::{
    account::audit,
    call::{HistorySettings, MetricsSettings},
    capability::LogSettings,
    catalog::safety::{ListError, OperatorLists},
    event::EventSettings,
    money::{
        FacilitatorKind,
        receipt::FreeReceiptSettings,
        sale::{FeeBps, WHOLE_BPS},
    },
    tool::MicroUsd,
};

/// What `tollhouse serve` accepts, each as a flag, as an environment variable and as a key of
/// `tollhouse.toml` (in kebab-case).
#[derive(Debug, Clone, Default, clap::Args, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Flags {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:4020]
    #[arg(long, env = "TOLLHOUSE_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Folder of the store, the files and the keys [default: ./data]
    #[arg(long, env = "TOLLHOUSE_DATA")]
    pub data: Option<PathBuf>,
    /// Public URL of this host, as it stands in records and payments [default: the listening address]
    #[arg(long, env = "TOLLHOUSE_BASE_URL")]
    pub base_url: Option<String>,
    /// Admin token [default: made on first start, in the file `admin-token` of the data folder]
    #[arg(long, env = "TOLLHOUSE_ADMIN_TOKEN", hide_env_values = true)]
    pub admin_token: Option<String>,
    /// Master key of secrets, 32 bytes in base64 or hex, or several with the current one first [default: made on first start, in the file `master-key` of the data folder]
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY", hide_env_values = true)]
    pub master_key: Option<Hidden>,
    /// Master keys that only open what is sealed under them still, comma-separated
    #[arg(long, env = "TOLLHOUSE_MASTER_KEY_OLD", hide_env_values = true)]
    pub master_key_old: Option<Hidden>,
    /// Who verifies and settles payments: `simulated` or `http` [default: simulated]
    #[arg(long, env = "TOLLHOUSE_FACILITATOR")]
    pub facilitator: Option<FacilitatorKind>,
    /// Base URL of the x402 facilitator, for `http`
    #[arg(long, env = "X402_FACILITATOR_URL")]
    pub facilitator_url: Option<String>,
    /// Address that payments go to; required with a real facilitator
    #[arg(long, env = "TOLLHOUSE_PAY_TO")]
    pub pay_to: Option<String>,
    /// Network that payments are made on, CAIP-2 [default: eip155:84532, Base Sepolia]
    #[arg(long, env = "TOLLHOUSE_NETWORK")]
    pub network: Option<String>,
    /// JSON-RPC URL of a node of the network, to look settlements up when the facilitator did not say
    #[arg(long, env = "TOLLHOUSE_RPC_URL", hide_env_values = true)]
    pub rpc_url: Option<String>,
    /// Let the simulated facilitator serve an address other than loopback
    #[arg(long, env = "TOLLHOUSE_ALLOW_SIMULATED_PUBLIC", num_args = 0..=1, default_missing_value = "true")]
    pub allow_simulated_public: Option<bool>,
    /// Path of the `tollhouse-worker` binary [default: beside this one]
    #[arg(long, env = "TOLLHOUSE_WORKER")]
    pub worker: Option<PathBuf>,
    /// Blank workers kept ready [default: 2]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_SPARES")]
    pub sandbox_spares: Option<usize>,
    /// Handlers that compute at once [default: cores x 2]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_RUNNING")]
    pub sandbox_running: Option<usize>,
    /// Calls sent ahead to a worker that is at another one, of handlers that take microseconds; 0 sends none [default: 16]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_PIPELINE")]
    pub sandbox_pipeline: Option<usize>,
    /// Worker processes at once [default: as many as half of the memory holds]
    #[arg(long, env = "TOLLHOUSE_SANDBOX_PROCESSES")]
    pub sandbox_processes: Option<usize>,
    /// Memory that the store caches, in bytes [default: 67108864]
    #[arg(long, env = "TOLLHOUSE_STORE_CACHE_BYTES")]
    pub store_cache_bytes: Option<u64>,
    /// Wall limit above which an endpoint is long-running, in ms [default: 10000]
    #[arg(long, env = "TOLLHOUSE_LONG_RUNNING_MS")]
    pub long_running_ms: Option<u64>,
    /// Requests per second of one client address; 0 is no limit [default: 100, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_RATE_LIMIT")]
    pub rate_limit: Option<u32>,
    /// Share of all processor time that one client address may use while others want it and none is left over, in percent; 0 is no limit [default: 3]
    #[arg(long, env = "TOLLHOUSE_ADDRESS_CPU_PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub address_cpu_percent: Option<u8>,
    /// Wrong credentials per minute of one client address, before all of its are refused for a while; 0 is no limit [default: 60]
    #[arg(long, env = "TOLLHOUSE_AUTH_FAILURES")]
    pub auth_failures: Option<u32>,
    /// Checks and dry runs of one builder at once, or of all admins [default: 4]
    #[arg(long, env = "TOLLHOUSE_DRY_RUNS")]
    pub dry_runs: Option<usize>,
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
    /// Time that calls under way have to end after SIGTERM, in ms [default: 30000]
    #[arg(long, env = "TOLLHOUSE_DRAIN_MS")]
    pub drain_ms: Option<u64>,
    /// Hosts that `httpGetJson` may reach although they are private or plain http, `host:port`, comma-separated
    #[arg(long, env = "TOLLHOUSE_GUARD_ALLOW", value_delimiter = ',')]
    #[serde(default)]
    pub guard_allow: Vec<String>,
    /// Names that `/ai/mcp` answers to in the `Host` header, comma-separated; `*` is any [default: loopback's and the base URL's when listening on loopback, else any]
    #[arg(long, env = "TOLLHOUSE_MCP_HOSTS", value_delimiter = ',')]
    #[serde(default)]
    pub mcp_hosts: Vec<String>,
    /// Web origins that may use `/ai/mcp`, such as `https://app.example.com:443`, comma-separated; `*` is any [default: loopback's and the base URL's]
    #[arg(long, env = "TOLLHOUSE_MCP_ORIGINS", value_delimiter = ',')]
    #[serde(default)]
    pub mcp_origins: Vec<String>,
    /// MCP calls per second of one address and tool; 0 is no limit [default: 20, and none when listening on loopback]
    #[arg(long, env = "TOLLHOUSE_MCP_RATE_LIMIT")]
    pub mcp_rate_limit: Option<u32>,
    /// Most members of a JSON-RPC batch, which MCP's revision 2025-03-26 has [default: 20]
    #[arg(long, env = "TOLLHOUSE_MCP_BATCH")]
    pub mcp_batch: Option<usize>,
    /// Time between progress notifications of an MCP call, in ms [default: 15000]
    #[arg(long, env = "TOLLHOUSE_MCP_PROGRESS_MS")]
    pub mcp_progress_ms: Option<u64>,
    /// Folder of the conformance suite's tools, in place of the catalogue; on loopback only
    #[arg(long, env = "TOLLHOUSE_MCP_CONFORMANCE_TOOLS", hide = true)]
    pub mcp_conformance_tools: Option<PathBuf>,
    /// File of SHA-256 hashes of known illegal or licensed material, one a line; uploads that hold it are refused
    #[arg(long, env = "TOLLHOUSE_SAFETY_HASHES")]
    pub safety_hashes: Option<PathBuf>,
    /// File of terms that uploads are reviewed or refused for, in TOML
    #[arg(long, env = "TOLLHOUSE_SAFETY_TERMS")]
    pub safety_terms: Option<PathBuf>,
    /// Where to report abuse, shown in the content safety policy: an address or a URL
    #[arg(long, env = "TOLLHOUSE_ABUSE_CONTACT")]
    pub abuse_contact: Option<String>,
    /// Folder whose tools are published on first start [default: the catalogue shipped in the binary]
    #[arg(long, env = "TOLLHOUSE_TOOLS")]
    pub tools: Option<PathBuf>,
    /// What it costs to become a builder, in USD; 0 is nothing [default: 1]
    #[arg(long, env = "TOLLHOUSE_REGISTRATION_PRICE_USD", value_parser = usd)]
    pub registration_price_usd: Option<MicroUsd>,
    /// What the host keeps of each sale, in basis points of the price [default: 500]
    #[arg(long, env = "TOLLHOUSE_FEE_BPS", value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub fee_bps: Option<u16>,
    /// Events kept of each owner [default: 100000]
    #[arg(long, env = "TOLLHOUSE_EVENTS_KEPT")]
    pub events_kept: Option<u64>,
    /// Days that events are kept [default: 90]
    #[arg(long, env = "TOLLHOUSE_EVENT_DAYS")]
    pub event_days: Option<u32>,
    /// Log lines kept of each endpoint [default: 5000]
    #[arg(long, env = "TOLLHOUSE_LOG_LINES_KEPT")]
    pub log_lines_kept: Option<u64>,
    /// Days that log lines are kept [default: 7]
    #[arg(long, env = "TOLLHOUSE_LOG_DAYS")]
    pub log_days: Option<u32>,
    /// Receipts of free calls kept; those of paid calls stay [default: 5000000]
    #[arg(long, env = "TOLLHOUSE_FREE_RECEIPTS_KEPT")]
    pub free_receipts_kept: Option<u64>,
    /// Days that receipts of free calls are kept [default: 7]
    #[arg(long, env = "TOLLHOUSE_FREE_RECEIPT_DAYS")]
    pub free_receipt_days: Option<u32>,
    /// Calls kept of each endpoint, for its owner's list [default: 10000]
    #[arg(long, env = "TOLLHOUSE_CALLS_KEPT")]
    pub calls_kept: Option<u64>,
    /// Days that calls are kept [default: 30]
    #[arg(long, env = "TOLLHOUSE_CALL_DAYS")]
    pub call_days: Option<u32>,
    /// Days that metrics of calls are kept by the hour; by the minute it is 2 [default: 90]
    #[arg(long, env = "TOLLHOUSE_METRIC_DAYS")]
    pub metric_days: Option<u32>,
    /// Days that entries of the audit trail are kept [default: 400]
    #[arg(long, env = "TOLLHOUSE_AUDIT_DAYS")]
    pub audit_days: Option<u32>,
    /// Log filter, as `tracing` reads it [default: info,rmcp=warn]
    #[arg(long, env = "TOLLHOUSE_LOG")]
    pub log: Option<String>,
}

/// The settings in force.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Folder of the store, the files and the keys.
    pub data: PathBuf,
    /// Public URL. Default: the listening address.
    pub base_url: Option<String>,
    /// Default: made on first start, and kept in the data folder.
    pub admin_token: Option<String>,
    /// Master keys.
    pub secrets: SecretSettings,
    /// Who settles, and to whom.
    pub payment: PaymentSettings,
    /// Worker processes.
    pub sandbox: SandboxSettings,
    /// Memory that the store caches.
    pub store_cache_bytes: u64,
    /// An endpoint with a wall limit above this is long-running.
    pub long_running_ms: u64,
    /// Requests per second of one client address.
    pub rate_limit: Option<NonZeroU32>,
    /// Percent of all processor time that one client address may use while others want it.
    pub address_cpu_percent: Option<NonZeroU8>,
    /// Wrong credentials per minute of one client address.
    pub auth_failures: Option<NonZeroU32>,
    /// Checks and dry runs of one owner at once.
    pub dry_runs: usize,
    /// What comes in, and how long it may take.
    pub intake: IntakeSettings,
    /// Between `progress` events of a streamed call.
    pub progress: Duration,
    /// For calls under way to end in after SIGTERM.
    pub drain: Duration,
    /// What the guard lets through, as `host:port`.
    pub guard_allow: Vec<String>,
    /// The MCP front.
    pub mcp: McpSettings,
    /// What the operator adds to the content safety policy.
    pub safety: SafetySettings,
    /// Folder of the tools that are published on first start. Default: the shipped ones.
    pub tools: Option<PathBuf>,
    /// What it costs to become a builder.
    pub registration_price: MicroUsd,
    /// What the host keeps of each sale.
    pub fee: FeeBps,
    /// How long events are kept.
    pub events: EventSettings,
    /// How long log lines are kept.
    pub logs: LogSettings,
    /// How long receipts of free calls are kept.
    pub free_receipts: FreeReceiptSettings,
    /// How long records of calls are kept.
    pub history: HistorySettings,
    /// How long metrics are kept.
    pub metrics: MetricsSettings,
    /// Age at which an entry of the audit trail goes, in milliseconds.
    pub audit_age_ms: u64,
    /// Filter, as `tracing` reads it.
    pub log: String,
}

/// What an operator adds to the content safety policy.
#[derive(Debug, Clone, Default)]
pub struct SafetySettings {
    /// Hashes and terms that uploads are held against.
    pub lists: OperatorLists,
    /// Where to report abuse: an address or a URL.
    pub abuse_contact: Option<String>,
}

/// The master keys of secrets, where they are given.
#[derive(Debug, Clone, Default)]
pub struct SecretSettings {
    /// The one that seals, or several with it first. Default: the file in the data folder.
    pub master_key: Option<Hidden>,
    /// Those that only open what is sealed under them still.
    pub master_key_old: Option<Hidden>,
}

/// A setting that is shown to nobody, and wiped from memory in the end.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Hidden(zeroize::Zeroizing<String>);

impl Hidden {
    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden")
    }
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

/// How the MCP front is reached.
#[derive(Debug, Clone)]
pub struct McpSettings {
    /// As given; empty is the default.
    pub hosts: Vec<String>,
    /// As given; empty is the default.
    pub origins: Vec<String>,
    /// Calls per second of one address and tool.
    pub rate_limit: Option<NonZeroU32>,
    /// Most members of a batch.
    pub batch: usize,
    /// Between progress notifications of a call.
    pub progress: Duration,
    /// In place of the catalogue, with the names that the conformance suite wants.
    pub conformance_tools: Option<PathBuf>,
}

/// Who verifies and settles, and where payments go.
#[derive(Debug, Clone)]
pub struct PaymentSettings {
    /// Which of them.
    pub facilitator: FacilitatorKind,
    /// Its address, for `http`.
    pub facilitator_url: Option<String>,
    /// Address that payments go to.
    pub pay_to: String,
    /// CAIP-2 name of the network that payments are made on.
    pub network: String,
    /// A node of that network, to look settlements up at.
    pub rpc_url: Option<String>,
}

/// How worker processes are kept. `None` is the pool's own default.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Path of the `tollhouse-worker` binary.
    pub worker: PathBuf,
    /// Blank workers kept ready.
    pub spares: Option<usize>,
    /// Handlers that compute at once.
    pub running: Option<usize>,
    /// Calls sent ahead to a worker that is at another one.
    pub pipeline: Option<usize>,
    /// Worker processes at once.
    pub processes: Option<usize>,
}

/// Settings that cannot work.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum SettingsError {
    #[error("`{path}` cannot be read")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{path}` is not a settings file")]
    Parse { path: PathBuf, source: toml::de::Error },
    #[error("the facilitator `http` needs its address in `X402_FACILITATOR_URL`")]
    NoFacilitatorUrl,
    #[error("the facilitator `http` takes real money: set `TOLLHOUSE_PAY_TO` to the address it should go to")]
    NoPayTo,
    #[error(
        "the simulated facilitator accepts play money, so it listens on loopback only; `{0}` is not. Set `TOLLHOUSE_FACILITATOR=http`, or `--allow-simulated-public` if you mean it"
    )]
    SimulatedInPublic(SocketAddr),
    #[error("the fee is {0} basis points; it is at most {WHOLE_BPS}, the whole price")]
    Fee(u16),
    #[error("the conformance suite's tools are for tests, so they are served on loopback only; `{0}` is not")]
    ConformanceInPublic(SocketAddr),
    #[error("the content safety lists do not read: {0}")]
    SafetyLists(#[from] ListError),
    #[error("no worker at `{0}`: build it with `cargo xtask serve`, or name it in `TOLLHOUSE_WORKER`")]
    NoWorker(PathBuf),
}

/// Address that simulated payments go to when none is set: nobody's.
const SIMULATED_PAY_TO: &str = "0x70110e5e70110e5e70110e5e70110e5e70110e5e";

/// What the host keeps of each sale when nothing else is set, in basis points.
const DEFAULT_FEE_BPS: u16 = 500;

/// Percent of all processor time for one address when nothing else is set.
const ADDRESS_CPU_PERCENT: u8 = 3;

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

/// What it costs to become a builder when nothing else is set.
const REGISTRATION_PRICE: MicroUsd = MicroUsd(1_000_000);

/// The file read when it is there.
pub const FILE: &str = "tollhouse.toml";

impl Flags {
    /// These flags, with what `file` says where a flag is absent. A missing file says nothing.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or has a key that does not exist.
    pub fn over_file(self, file: &Path) -> Result<Self, SettingsError> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(source) => return Err(SettingsError::Read { path: file.to_owned(), source }),
        };
        let file: Self = toml::from_str(&text).map_err(|source| SettingsError::Parse { path: file.to_owned(), source })?;
        Ok(self.over(file))
    }

    fn over(self, below: Self) -> Self {
        Self {
            listen: self.listen.or(below.listen),
            data: self.data.or(below.data),
            base_url: self.base_url.or(below.base_url),
            admin_token: self.admin_token.or(below.admin_token),
            master_key: self.master_key.or(below.master_key),
            master_key_old: self.master_key_old.or(below.master_key_old),
            facilitator: self.facilitator.or(below.facilitator),
            facilitator_url: self.facilitator_url.or(below.facilitator_url),
            pay_to: self.pay_to.or(below.pay_to),
            network: self.network.or(below.network),
            rpc_url: self.rpc_url.or(below.rpc_url),
            allow_simulated_public: self.allow_simulated_public.or(below.allow_simulated_public),
            worker: self.worker.or(below.worker),
            sandbox_spares: self.sandbox_spares.or(below.sandbox_spares),
            sandbox_running: self.sandbox_running.or(below.sandbox_running),
            sandbox_pipeline: self.sandbox_pipeline.or(below.sandbox_pipeline),
            sandbox_processes: self.sandbox_processes.or(below.sandbox_processes),
            store_cache_bytes: self.store_cache_bytes.or(below.store_cache_bytes),
            long_running_ms: self.long_running_ms.or(below.long_running_ms),
            rate_limit: self.rate_limit.or(below.rate_limit),
            address_cpu_percent: self.address_cpu_percent.or(below.address_cpu_percent),
            auth_failures: self.auth_failures.or(below.auth_failures),
            dry_runs: self.dry_runs.or(below.dry_runs),
            connections: self.connections.or(below.connections),
            address_connections: self.address_connections.or(below.address_connections),
            head_ms: self.head_ms.or(below.head_ms),
            head_bytes: self.head_bytes.or(below.head_bytes),
            idle_ms: self.idle_ms.or(below.idle_ms),
            body_ms: self.body_ms.or(below.body_ms),
            body_stall_ms: self.body_stall_ms.or(below.body_stall_ms),
            body_bytes_held: self.body_bytes_held.or(below.body_bytes_held),
            address_body_bytes_held: self.address_body_bytes_held.or(below.address_body_bytes_held),
            write_stall_ms: self.write_stall_ms.or(below.write_stall_ms),
            http2_streams: self.http2_streams.or(below.http2_streams),
            progress_ms: self.progress_ms.or(below.progress_ms),
            drain_ms: self.drain_ms.or(below.drain_ms),
            guard_allow: if self.guard_allow.is_empty() { below.guard_allow } else { self.guard_allow },
            mcp_hosts: if self.mcp_hosts.is_empty() { below.mcp_hosts } else { self.mcp_hosts },
            mcp_origins: if self.mcp_origins.is_empty() { below.mcp_origins } else { self.mcp_origins },
            mcp_rate_limit: self.mcp_rate_limit.or(below.mcp_rate_limit),
            mcp_conformance_tools: self.mcp_conformance_tools.or(below.mcp_conformance_tools),
            mcp_batch: self.mcp_batch.or(below.mcp_batch),
            mcp_progress_ms: self.mcp_progress_ms.or(below.mcp_progress_ms),
            safety_hashes: self.safety_hashes.or(below.safety_hashes),
            safety_terms: self.safety_terms.or(below.safety_terms),
            abuse_contact: self.abuse_contact.or(below.abuse_contact),
            tools: self.tools.or(below.tools),
            registration_price_usd: self.registration_price_usd.or(below.registration_price_usd),
            fee_bps: self.fee_bps.or(below.fee_bps),
            events_kept: self.events_kept.or(below.events_kept),
            event_days: self.event_days.or(below.event_days),
            log_lines_kept: self.log_lines_kept.or(below.log_lines_kept),
            log_days: self.log_days.or(below.log_days),
            free_receipts_kept: self.free_receipts_kept.or(below.free_receipts_kept),
            free_receipt_days: self.free_receipt_days.or(below.free_receipt_days),
            calls_kept: self.calls_kept.or(below.calls_kept),
            call_days: self.call_days.or(below.call_days),
            metric_days: self.metric_days.or(below.metric_days),
            audit_days: self.audit_days.or(below.audit_days),
            log: self.log.or(below.log),
        }
    }

    /// The settings in force, checked.
    ///
    /// # Errors
    ///
    /// What cannot work together, each with what to do about it.
    pub fn resolve(self) -> Result<Settings, SettingsError> {
        let listen = self.listen.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4020));
        let intake = self.intake(listen.ip());
        let facilitator = self.facilitator.unwrap_or_default();
        let pay_to = match (facilitator, self.pay_to) {
            (_, Some(pay_to)) => pay_to,
            (FacilitatorKind::Simulated, None) => SIMULATED_PAY_TO.to_owned(),
            (FacilitatorKind::Http, None) => return Err(SettingsError::NoPayTo),
        };
        if facilitator == FacilitatorKind::Http && self.facilitator_url.is_none() {
            return Err(SettingsError::NoFacilitatorUrl);
        }
        let in_public = !listen.ip().is_loopback() && !self.allow_simulated_public.unwrap_or(false);
        if facilitator == FacilitatorKind::Simulated && in_public {
            return Err(SettingsError::SimulatedInPublic(listen));
        }
        if self.mcp_conformance_tools.is_some() && !listen.ip().is_loopback() {
            return Err(SettingsError::ConformanceInPublic(listen));
        }
        let worker = self.worker.unwrap_or_else(beside_this_binary);
        if !worker.is_file() {
            return Err(SettingsError::NoWorker(worker));
        }
        let fee = self.fee_bps.unwrap_or(DEFAULT_FEE_BPS);
        if fee > WHOLE_BPS {
            return Err(SettingsError::Fee(fee));
        }
        let (events, logs) = (EventSettings::default(), LogSettings::default());
        let (free_receipts, history, metrics) = (FreeReceiptSettings::default(), HistorySettings::default(), MetricsSettings::default());
        Ok(Settings {
            listen,
            data: self.data.unwrap_or_else(|| PathBuf::from("data")),
            base_url: self.base_url.map(|url| url.trim_end_matches('/').to_owned()),
            admin_token: self.admin_token,
            secrets: SecretSettings { master_key: self.master_key, master_key_old: self.master_key_old },
            payment: PaymentSettings {
                facilitator,
                facilitator_url: self.facilitator_url,
                pay_to,
                network: self.network.unwrap_or_else(|| "eip155:84532".to_owned()),
                rpc_url: self.rpc_url,
            },
            sandbox: SandboxSettings {
                worker,
                spares: self.sandbox_spares,
                running: self.sandbox_running,
                pipeline: self.sandbox_pipeline,
                processes: self.sandbox_processes,
            },
            store_cache_bytes: self.store_cache_bytes.unwrap_or(64 << 20),
            long_running_ms: self.long_running_ms.unwrap_or(10_000),
            rate_limit: NonZeroU32::new(self.rate_limit.unwrap_or(if listen.ip().is_loopback() { 0 } else { 100 })),
            address_cpu_percent: NonZeroU8::new(self.address_cpu_percent.unwrap_or(ADDRESS_CPU_PERCENT)),
            auth_failures: NonZeroU32::new(self.auth_failures.unwrap_or(AUTH_FAILURES)),
            dry_runs: self.dry_runs.unwrap_or(4).max(1),
            intake,
            progress: Duration::from_millis(self.progress_ms.unwrap_or(5_000).max(1)),
            drain: Duration::from_millis(self.drain_ms.unwrap_or(30_000)),
            guard_allow: self.guard_allow,
            mcp: McpSettings {
                hosts: self.mcp_hosts,
                origins: self.mcp_origins,
                rate_limit: NonZeroU32::new(self.mcp_rate_limit.unwrap_or(if listen.ip().is_loopback() { 0 } else { 20 })),
                conformance_tools: self.mcp_conformance_tools,
                batch: self.mcp_batch.unwrap_or(20).max(1),
                progress: Duration::from_millis(self.mcp_progress_ms.unwrap_or(15_000).max(1)),
            },
            safety: SafetySettings {
                lists: operator_lists(self.safety_hashes.as_deref(), self.safety_terms.as_deref())?,
                abuse_contact: self.abuse_contact,
            },
            tools: self.tools,
            registration_price: self.registration_price_usd.unwrap_or(REGISTRATION_PRICE),
            fee: FeeBps(fee),
            events: EventSettings {
                count: self.events_kept.unwrap_or(events.count),
                age_ms: self.event_days.map_or(events.age_ms, days_ms),
            },
            logs: LogSettings {
                lines: self.log_lines_kept.unwrap_or(logs.lines),
                age_ms: self.log_days.map_or(logs.age_ms, days_ms),
                ..logs
            },
            free_receipts: FreeReceiptSettings {
                count: self.free_receipts_kept.unwrap_or(free_receipts.count),
                age_ms: self.free_receipt_days.map_or(free_receipts.age_ms, days_ms),
            },
            history: HistorySettings {
                count: self.calls_kept.unwrap_or(history.count),
                age_ms: self.call_days.map_or(history.age_ms, days_ms),
            },
            metrics: MetricsSettings { hours_ms: self.metric_days.map_or(metrics.hours_ms, days_ms), ..metrics },
            audit_age_ms: days_ms(self.audit_days.unwrap_or(audit::DEFAULT_DAYS)),
            log: self.log.unwrap_or_else(|| "info,rmcp=warn".to_owned()),
        })
    }

    /// Who listens on loopback listens to one address, be it tests or a proxy: it has no limits of its own unless told so.
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

fn days_ms(days: u32) -> u64 {
    u64::from(days) * 24 * 3_600 * 1_000
}

/// An amount of USD, as a flag.
fn usd(text: &str) -> Result<MicroUsd, String> {
    let usd = text.parse().map_err(|_| "a number of US dollars".to_owned())?;
    MicroUsd::from_usd(usd).map_err(|error| error.to_string())
}

fn operator_lists(hashes: Option<&Path>, terms: Option<&Path>) -> Result<OperatorLists, SettingsError> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|source| SettingsError::Read { path: path.to_owned(), source });
    let (hashes, terms) = (hashes.map(read).transpose()?, terms.map(read).transpose()?);
    Ok(OperatorLists::parse(hashes.as_deref(), terms.as_deref())?)
}

fn beside_this_binary() -> PathBuf {
    let mut path = std::env::current_exe().unwrap_or_default();
    path.set_file_name("tollhouse-worker");
    path
}
