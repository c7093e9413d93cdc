//! The policy for builders, and the policy for content.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_protocol::Tier;
use tollhouse_tool::{Capabilities, Slug, finding::Severity};

use crate::{Limits, True};

/// The rules for builders.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyResponse {
    pub ok: True,
    /// The policy.
    pub policy: Policy,
}

/// The whole policy to set. Absent fields get their defaults.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
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

/// Effects of a policy on existing tools.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyCheckResponse {
    pub ok: True,
    /// Immediate effects on existing tools of builders.
    pub narrows: Narrowing,
}

/// The tools that a policy would restrict.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
    pub slugs: Vec<Slug>,
}

/// The policy for content.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SafetyPolicyResponse {
    pub ok: True,
    /// The policy.
    pub policy: SafetyPolicy,
}

/// The rules for the content of tools, and what follows from a match.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct SafetyPolicy {
    /// Version of the rules.
    pub version: String,
    /// The builder's attestation.
    pub attestation: Attestation,
    /// The fields of an upload that are scanned.
    pub scanned: Vec<Cow<'static, str>>,
    /// Consequences of each outcome.
    pub outcomes: ScanOutcomes,
    /// The rules.
    pub rules: Vec<SafetyRule>,
    /// How admins review content.
    pub review: ReviewProcess,
    /// How to report abuse.
    pub abuse: AbuseReports,
    /// The limits of the scan.
    pub limits: Vec<Cow<'static, str>>,
}

/// The builder's attestation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Attestation {
    /// The field of an upload.
    pub field: Cow<'static, str>,
    /// The statement that the builder accepts.
    pub statement: Cow<'static, str>,
}

/// Consequences of each outcome of a scan.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ScanOutcomes {
    /// The upload passes.
    pub pass: Cow<'static, str>,
    /// An admin decides.
    pub review: Cow<'static, str>,
    /// The upload is refused.
    pub block: Cow<'static, str>,
}

/// A rule of the scan.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct SafetyRule {
    /// Name of the rule.
    pub id: String,
    /// The family that it belongs to.
    pub family: String,
    /// Its severity.
    pub severity: Severity,
    /// Its description.
    pub description: String,
}

/// How admins review content.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ReviewProcess {
    /// The decision.
    pub process: Cow<'static, str>,
    /// When tools are scanned again.
    pub rescan: Cow<'static, str>,
    /// How tools are taken down.
    pub takedown: Cow<'static, str>,
}

/// How to report abuse.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct AbuseReports {
    /// The contact, if there is one.
    pub contact: Option<String>,
    /// The content of a report.
    pub report: Cow<'static, str>,
}
