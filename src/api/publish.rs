//! Publishing: drafts, changes, sources and checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_base::id::EndpointId;
use tollhouse_protocol::{Isolation, Language};
use tollhouse_tool::{
    Capabilities, MicroUsd, SettleTime, StaticResponse, Status,
    finding::{Finding, ScanOutcome},
};

use crate::{HandlerType, Limits, OwnEndpoint, SchemaDocument, True};

/// A tool to publish.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointDraft {
    /// Its name in `/tools/{slug}`.
    pub slug: String,
    /// Title for people.
    pub title: String,
    /// The kind of code that answers.
    pub handler_type: HandlerType,
    /// Description, for people and for models that choose a tool.
    #[serde(default)]
    pub description: String,
    /// Whether it accepts calls.
    #[serde(default = "active")]
    pub status: Status,
    /// Price of a call. Default: 0.
    #[serde(default)]
    pub price_usd: MicroUsd,
    /// Maximum price of a call, if the handler sets the price with `ctx.charge`.
    #[serde(default)]
    pub max_price_usd: MicroUsd,
    /// Tags for search.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Schema of the input. Default: any object.
    #[serde(default = "any_object")]
    pub input_schema: SchemaDocument,
    /// Schema of the output. Default: anything.
    #[serde(default = "anything")]
    pub output_schema: SchemaDocument,
    /// Requested capabilities.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The handler. Absent for built-in ones.
    pub handler: Option<Handler>,
    /// Limits by name, up to their ceilings.
    #[serde(default)]
    pub limits: Map<String, Value>,
    /// The hosts that `fetch` and `httpGetJson` can reach.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Whether a process may serve several calls.
    #[serde(default)]
    pub isolation: Isolation,
    /// Accepted networks or tokens. Default: all of the host's.
    #[serde(default)]
    pub accepts: Vec<String>,
    /// When a call is charged. Default: after its handler has succeeded.
    #[serde(default)]
    pub settle: SettleTime,
    /// Cron expressions with five fields, in UTC, at which the handler's `scheduled` runs.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub schedules: Vec<String>,
    /// Media types of bodies that it takes beside JSON, for example `text/csv` or `image/*`.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub request_types: Vec<String>,
    /// Request headers that it sees, for example `stripe-signature`. Never credentials or payments.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub request_headers: Vec<String>,
    /// Whether a call with developer credit is refunded if the tool breaks its streamed answer off.
    #[serde(default)]
    pub refund_broken_streams: bool,
    /// Note about this version, for its owner and admins.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub note: String,
    /// A builder's attestation.
    pub safety_attestation: Option<SafetyAttestation>,
}

fn active() -> Status {
    Status::Active
}

fn any_object() -> SchemaDocument {
    SchemaDocument(json!({ "type": "object" }))
}

fn anything() -> SchemaDocument {
    SchemaDocument(json!({}))
}

/// Changes of a tool. Only the fields that are present change.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointPatch {
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, for people and for models that choose a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it accepts calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Price of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_usd: Option<MicroUsd>,
    /// Maximum price of a call, if the handler sets the price with `ctx.charge`. 0 makes the price fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price_usd: Option<MicroUsd>,
    /// Tags for search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Schema of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<SchemaDocument>,
    /// Schema of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<SchemaDocument>,
    /// Requested capabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// The handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<Handler>,
    /// Limits by name, up to their ceilings. They replace all previous ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Map<String, Value>>,
    /// The hosts that `fetch` and `httpGetJson` can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_hosts: Option<Vec<String>>,
    /// Whether a process may serve several calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Accepted networks or tokens. Empty means all of the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepts: Option<Vec<String>>,
    /// When a call is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<SettleTime>,
    /// Cron expressions with five fields, in UTC. They replace all previous ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub schedules: Option<Vec<String>>,
    /// Media types of bodies that it takes beside JSON. They replace all previous ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub request_types: Option<Vec<String>>,
    /// Request headers that it sees. They replace all previous ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub request_headers: Option<Vec<String>>,
    /// Whether a call with developer credit is refunded if the tool breaks its streamed answer off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund_broken_streams: Option<bool>,
    /// Note about the new version, for its owner and admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub note: Option<String>,
    /// A builder's attestation for a new handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_attestation: Option<SafetyAttestation>,
    /// An earlier version to roll back to, in place of `handler`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A handler: `{source, language?}` or `{response}`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Handler {
    /// Source of one module, whose default export is `async (req, ctx) => …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub source: Option<String>,
    /// Language of the source. Default: `js`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// The response to each call of a `static_json` tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
}

/// A builder's attestation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SafetyAttestation {
    /// Whether the tool is lawful, and the builder has the right to publish it.
    pub accepted: bool,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl SafetyAttestation {
    /// Returns an attestation without further fields.
    #[must_use]
    pub fn accepted() -> Self {
        Self { accepted: true, more: Map::new() }
    }
}

/// A changed tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EndpointChangeResponse")]
pub struct EndpointChangeResponse<E = OwnEndpoint> {
    pub ok: True,
    /// The tool.
    pub endpoint: E,
    /// Warnings, for example about capabilities that its handler uses and does not have.
    pub warnings: Vec<String>,
}

/// A deleted tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeleteEndpointResponse {
    pub ok: True,
    /// Always true.
    pub deleted: True,
    /// Slug of the deleted tool.
    pub slug: String,
    /// Id of the deleted tool.
    pub id: EndpointId,
}

/// The source of a tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EndpointSourceResponse {
    pub ok: True,
    /// The handler.
    pub handler: UploadedHandler,
}

/// A handler as it was uploaded.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct UploadedHandler {
    /// Hash of the version.
    pub version: String,
    /// The source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// The response of a `static_json` tool, which can be `null`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::present_value")]
    #[schemars(with = "Option<Value>")]
    pub response: Option<StaticResponse>,
}

/// The request to check an upload: the body of create, whole or in parts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EndpointCheckRequest(pub Map<String, Value>);

/// The result of checking an upload.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EndpointCheckResponse {
    pub ok: True,
    /// The result of a publication of the upload.
    pub check: EndpointCheck,
}

/// The result that a publication would have.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EndpointCheck {
    /// Hash of the version.
    pub version: String,
    /// Whether the caller already has a tool with this slug.
    pub existing: bool,
    /// Capabilities that would be granted.
    pub granted: Grants,
    /// Capabilities that would wait for an admin.
    pub requested: Grants,
    /// Whether the upload would wait for an admin.
    pub needs_review: bool,
    /// Outcome of the scan. Null if nothing is scanned.
    pub outcome: Option<ScanOutcome>,
    /// Findings of the scan.
    pub findings: Vec<Finding>,
    /// The limits that would be in force.
    pub limits: Limits,
    /// Warnings, for example about capabilities that the handler uses and does not have.
    pub warnings: Vec<String>,
}

/// Capabilities and hosts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Grants {
    /// Capabilities.
    pub capabilities: Capabilities,
    /// Hosts for `fetch` and `httpGetJson`.
    pub hosts: Vec<String>,
}
