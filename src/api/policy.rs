//! The policy for builders, and the policy for content.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_protocol::Tier;

use crate::{
    constant::True,
    tool::{Capabilities, Limits},
};

/// The rules for builders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Capabilities that builders get on request.
    pub builder_capabilities: Capabilities,
    /// Maximum limits that builders can set.
    pub limits: Limits,
    /// The least strict tier of builders' tools.
    pub tier: Tier,
    /// Whether every upload of a builder waits for an admin.
    pub require_review: bool,
    /// Maximum number of tools per builder.
    pub max_endpoints_per_builder: u64,
}

/// The rules for builders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyResponse {
    /// Always true.
    pub ok: True,
    /// The policy.
    pub policy: Policy,
}

/// The whole policy to set. Absent fields get their defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyDraft {
    /// Capabilities that builders get on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder_capabilities: Option<Capabilities>,
    /// Maximum limits that builders can set, by name.
    #[serde(default)]
    pub limits: Map<String, Value>,
    /// The least strict tier of builders' tools.
    #[serde(default)]
    pub tier: Tier,
    /// Whether every upload of a builder waits for an admin.
    #[serde(default)]
    pub require_review: bool,
    /// Maximum number of tools per builder. Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_endpoints_per_builder: Option<u64>,
}

/// What a policy would change for existing tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCheckResponse {
    /// Always true.
    pub ok: True,
    /// What would change at once for existing tools of builders.
    pub narrows: Narrowing,
}

/// The tools that a policy would restrict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Narrowing {
    /// Number of tools that would be restricted in any way.
    pub endpoints: u64,
    /// Number of tools that would get a lower limit, by limit.
    pub limits: Limits,
    /// Number of tools that would run in a stricter tier.
    pub tier: u64,
    /// Number of tools that would no longer be long-running.
    pub long_running: u64,
    /// The first of these tools.
    pub slugs: Vec<String>,
}

/// The policy for content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SafetyPolicyResponse {
    /// Always true.
    pub ok: True,
    /// The policy.
    pub policy: Map<String, Value>,
}
