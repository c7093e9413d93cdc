//! The health of a host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{constant::True, present::present, time::Timestamp};

/// The health of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Always true.
    pub ok: True,
    /// Version of the host.
    pub version: String,
    /// What is wrong with this machine's clock, if it differs from the database's by more than a second. The host is not ready then.
    pub clock: Option<String>,
    /// The hosts of the store, including those that ended within the last hour. Null while the store is unavailable.
    pub replicas: Option<Vec<Replica>>,
    /// Workers and queues of the sandbox.
    pub sandbox: Map<String, Value>,
    /// The ways to pay that the host accepts.
    pub payment: Map<String, Value>,
    /// The state of the only facilitator.
    pub facilitator: Value,
    /// The state of each facilitator.
    pub facilitators: Value,
    /// Number of settlements that have begun and not ended.
    pub open_settlements: u64,
    /// Number of settlements whose outcome was unknown when the host stopped asking, up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub unresolved_settlements: Option<Option<u64>>,
    /// Number of settled payments whose transaction is no longer in any block, up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub reorganized_settlements: Option<Option<u64>>,
    /// Resources that were used without payment.
    pub unpaid: UnpaidHealth,
    /// Sizes of the store.
    pub stored: Map<String, Value>,
    /// Free disk space.
    pub disk: Value,
    /// Connections and bodies in memory.
    pub intake: Value,
    /// What an operator should look at, for example a proxy that is not trusted to name the client's address.
    pub warnings: Vec<HealthWarning>,
}

/// A host of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Replica {
    /// Id of the process.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The newest format of stored rows that it reads. Every change of a format has a number.
    #[schemars(range(min = 1))]
    pub formats: u64,
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

/// Resources that were used without payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UnpaidHealth {
    /// Uncharged runs within the last minute.
    pub runs_last_minute: u64,
    /// Gas of transactions that brought no money.
    pub gas: GasHealth,
    /// What an operator should look at.
    pub warnings: Vec<String>,
}

/// Gas of transactions that brought no money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct HealthWarning {
    /// Code for programs.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}
