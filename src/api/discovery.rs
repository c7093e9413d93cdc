//! What a host says about itself: catalog, manifest, documents for programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    constant::{Number, True},
    endpoint::Endpoint,
    tool::{Capabilities, Limits},
};

/// A page of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Catalog {
    /// Always true.
    pub ok: True,
    /// Name and version of this format.
    pub schema: String,
    /// URL of the dashboard.
    pub dashboard: String,
    /// URL to publish tools at.
    pub create_endpoint: String,
    /// How a tool is published and changed.
    pub lifecycle: BTreeMap<String, String>,
    /// What builders can do with their tools.
    pub builder_controls: BTreeMap<String, String>,
    /// Handler types, each with a description.
    pub supported_handler_types: BTreeMap<String, String>,
    /// A note about the catalog.
    pub note: String,
    /// Number of tools that the query matches.
    pub total: u64,
    /// The tools.
    pub endpoints: Vec<Endpoint>,
    /// The rules for the content of tools. Absent in the older form of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_safety: Option<ContentSafetyRules>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The rules for the content of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ContentSafetyRules {
    /// The policy.
    pub policy: String,
    /// The rule for tools that builders publish themselves.
    pub self_serve_rule: String,
}

/// The manifest of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always true.
    pub ok: True,
    /// Name, version and URLs of the host.
    pub service: Map<String, Value>,
    /// How to pay.
    pub payment: Map<String, Value>,
    /// How to connect with MCP.
    pub mcp: Map<String, Value>,
    /// How to find and call tools.
    pub endpoints: Map<String, Value>,
    /// How to get quotes.
    pub quotes: Map<String, Value>,
    /// How to check receipts.
    pub receipts: Map<String, Value>,
    /// What builders get without an admin.
    pub builders: BuilderRules,
    /// How the code of tools runs.
    pub sandbox: Map<String, Value>,
}

/// What builders get without an admin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct BuilderRules {
    /// Capabilities that builders get on request. An admin grants the others.
    pub capabilities: Capabilities,
    /// Maximum limits that builders can set.
    pub limits: Limits,
    /// Whether every upload waits for an admin.
    pub require_review: bool,
    /// Maximum number of tools per builder.
    pub max_endpoints: u64,
    /// The host's fee for each sale, in hundredths of a percent, rounded down to the micro-dollar.
    pub fee_bps: u64,
}

/// The paid resources of the host, for x402 discovery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Version of this format.
    pub version: Number<1>,
    /// Version of x402.
    #[serde(rename = "x402Version")]
    pub x402_version: Number<2>,
    /// URLs of the paid resources.
    pub resources: Vec<String>,
    /// The ways to pay that the host accepts.
    pub accepts: Vec<Map<String, Value>>,
    /// URL of the OpenAPI document.
    pub openapi: String,
    /// URL of the manifest.
    pub manifest: String,
    /// URL of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JsonWebKeySet {
    /// The keys.
    pub keys: Vec<Map<String, Value>>,
}

/// An MCP message in JSON-RPC 2.0, or several in an array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("type" = ["object", "array"]))]
pub struct JsonRpcMessage(pub Value);

/// An OpenAPI 3.1 document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenApiDocument(pub Map<String, Value>);

/// The input of a tool, as its `inputSchema` describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInput(pub Value);

/// Success, without further data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OkResponse {
    /// Always true.
    pub ok: True,
}
