//! The health of a host.

use std::borrow::Cow;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_base::{clock::Timestamp, id::ReplicaId};
use tollhouse_protocol::Tier;

use crate::True;

/// The health of the host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Health")]
pub struct Health<U = UnpaidHealth, S = SandboxHealth> {
    pub ok: True,
    /// Version of the host.
    pub version: Cow<'static, str>,
    /// The hosts of the store, including those that ended within the last hour. Null while the store is unavailable.
    pub replicas: Option<Vec<Replica>>,
    /// Error of this machine's clock, if it differs from the database's by more than a second. The host is not ready then.
    pub clock: Option<String>,
    /// Workers and queues of the sandbox.
    #[schemars(with = "Map<String, Value>")]
    pub sandbox: S,
    /// The ways to pay that the host accepts.
    #[schemars(with = "Map<String, Value>")]
    pub payment: Value,
    /// The state of the only facilitator.
    pub facilitator: Option<Value>,
    /// The state of each facilitator, by network: `status`, and its last answers `lastVerify` and `lastSettle`.
    pub facilitators: Value,
    /// Number of settlements in progress.
    pub open_settlements: usize,
    /// Number of settlements whose outcome was unknown when the host stopped asking, up to 10,000. Null while the store is unavailable.
    pub unresolved_settlements: Option<usize>,
    /// Number of settled payments whose transaction is no longer in any block, up to 10,000. Null while the store is unavailable.
    pub reorganized_settlements: Option<usize>,
    /// Resources that were used without payment.
    pub unpaid: U,
    /// Sizes of the store.
    pub stored: StoredHealth,
    /// Free disk space.
    pub disk: Value,
    /// Connections and bodies in memory.
    pub intake: Value,
    /// Problems for the operator, for example a proxy that is not trusted to name the client's address.
    pub warnings: Vec<HealthWarning>,
}

/// The answer of a host that takes calls.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    pub ok: True,
    /// Problems that affect only some tools, for example `objects_missing`. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<HealthWarning>,
}

/// Sizes of the store, and its condition.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct StoredHealth {
    /// Keys by kind.
    #[serde(flatten)]
    pub kinds: BTreeMap<Cow<'static, str>, StoredSize>,
    /// Receipts of free calls.
    pub free_receipts: StoredSize,
    /// Name of the backend.
    pub backend: Cow<'static, str>,
    /// False while a store is being counted.
    pub complete: bool,
    /// Number of syncs of commits since the start.
    pub syncs: u64,
    /// Why an oversized tree could not be replaced. Null unless the last attempt failed.
    pub renewal_fails: Option<String>,
    /// Damage to files of the store. Null while all checked files are intact.
    pub damage: Option<String>,
}

/// A number of entries and their size.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct StoredSize {
    /// Number of entries.
    pub count: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// A host of the store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Replica {
    /// Id of the process.
    pub id: ReplicaId,
    /// Its version.
    pub version: String,
    /// The newest format of stored rows that it reads. Every change of a format has a number.
    #[schemars(range(min = 1))]
    pub formats: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// When its lease ends. Null if the store has only one host.
    pub lease_until: Option<Timestamp>,
    /// Whether its lease has not ended.
    pub lives: bool,
    /// Number of changes of other hosts that it has not applied yet.
    pub behind: u64,
    /// Whether it is the host that answers.
    pub own: bool,
}

/// Workers and queues of the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SandboxHealth {
    /// Calls that compute.
    pub running: u64,
    /// Calls that wait for an answer.
    pub waiting_in_ops: u64,
    /// Calls in the queue.
    pub queued: u64,
    /// Workers with a handler.
    pub workers: u64,
    /// Workers with a handler that run no call.
    pub idle: u64,
    /// Workers without a handler.
    pub spares: u64,
    /// Processes of the sandbox.
    pub processes: u64,
    /// Processes that workers are forked from.
    pub zygotes: u64,
    /// Memory of all processes, in bytes.
    pub process_bytes: u64,
    /// Why no worker can be started. Null if workers can.
    pub starts_fail: Option<String>,
    /// Layers of the jail that are missing in any tier.
    pub jail_refused: Vec<RefusedLayer>,
    /// The tiers that have started a worker.
    pub tiers: Vec<TierHealth>,
    /// Activity since the process started.
    pub totals: SandboxTotals,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A layer of the jail that the system refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct RefusedLayer {
    /// Name of the layer.
    pub layer: String,
    /// The error of the system.
    pub error: String,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The jail of one tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TierHealth {
    /// The tier.
    pub tier: Tier,
    /// Layers of the jail in force.
    pub jail: Vec<String>,
    /// Layers of the jail that are missing.
    pub jail_refused: Vec<RefusedLayer>,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Activity of the sandbox since the process started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SandboxTotals {
    /// Calls that ran, whatever their outcome.
    pub calls: u64,
    /// Calls that had to load their handler first.
    pub cold_calls: u64,
    /// Calls that were sent to a worker before it was free.
    pub pipelined: u64,
    /// Calls that got no place.
    pub refused: u64,
    /// Calls that were stopped at a limit.
    pub stops: u64,
    /// Workers that the watchdog killed.
    pub kills: u64,
    /// Workers that crashed.
    pub crashes: u64,
    /// Calls whose callers gave up.
    pub cancels: u64,
    /// Processes that were started.
    pub started: u64,
    /// Processes that were forked.
    pub forked: u64,
    /// Failed starts.
    pub failed_starts: u64,
    /// Idle workers that were found dead or sending.
    pub idle_faults: u64,
    /// Processes that were replaced.
    pub replaced: u64,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Resources that were used without payment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UnpaidHealth {
    /// Uncharged runs within the last minute.
    pub runs_last_minute: u64,
    /// Gas of transactions that brought no money.
    pub gas: GasHealth,
    /// Problems for the operator.
    pub warnings: Vec<String>,
}

/// Gas of transactions that brought no money.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct GasHealth {
    /// Gas within the last hour.
    pub burned_last_hour: u64,
    /// Gas of settlements below `--least-settlement-usd` within the last hour.
    pub underpaid_last_hour: u64,
    /// Reverted transactions within the last hour.
    pub reverted_last_hour: u64,
    /// Maximum gas per hour. Null if there is no limit.
    pub limit_per_hour: Option<u64>,
    /// Cost, in wei, of the gas since the process started and in the hour before it.
    pub burned_wei: String,
}

/// A warning for operators.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct HealthWarning {
    /// Code for programs.
    pub code: Cow<'static, str>,
    /// Message for people.
    pub message: String,
    /// The fix.
    pub remedy: Cow<'static, str>,
}
