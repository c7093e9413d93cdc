//! Descriptions of a host: catalog, manifest, documents for programs.

use std::borrow::Cow;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_tool::Capabilities;

use crate::{Endpoint, Limits, True};

/// A page of the catalog.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Catalog {
    /// Everything but the tools.
    #[serde(flatten)]
    pub envelope: CatalogEnvelope,
    /// The tools.
    pub endpoints: Vec<Endpoint>,
}

/// A page of the catalog without its tools, whose records are encoded already.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CatalogEnvelope {
    pub ok: True,
    /// Name and version of this format.
    pub schema: Cow<'static, str>,
    /// URL of the dashboard.
    pub dashboard: String,
    /// URL to publish tools at.
    pub create_endpoint: String,
    /// How a tool is published and changed.
    #[schemars(with = "BTreeMap<String, String>")]
    pub lifecycle: Map<String, Value>,
    /// The rights of builders over their tools.
    #[schemars(with = "BTreeMap<String, String>")]
    pub builder_controls: Map<String, Value>,
    /// Handler types, each with a description.
    #[schemars(with = "BTreeMap<String, String>")]
    pub supported_handler_types: Map<String, Value>,
    /// A note about the catalog.
    pub note: Cow<'static, str>,
    /// The rules for the content of tools. Absent in the older form of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_safety: Option<ContentSafetyRules>,
    /// Number of tools that the query matches.
    pub total: usize,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The rules for the content of tools.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ContentSafetyRules {
    /// The policy.
    pub policy: String,
    /// The rule for tools that builders publish themselves.
    pub self_serve_rule: Cow<'static, str>,
}

/// The manifest of a host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Manifest")]
pub struct Manifest<P = PaymentInfo> {
    pub ok: True,
    /// Name, version and URLs of the host.
    pub service: ServiceInfo,
    /// How to pay.
    #[schemars(with = "Map<String, Value>")]
    pub payment: P,
    /// How to connect with MCP.
    pub mcp: McpInfo,
    /// How to find and call tools.
    pub endpoints: EndpointsInfo,
    /// How to get quotes.
    pub quotes: QuotesInfo,
    /// How to check receipts.
    pub receipts: ReceiptsInfo,
    /// Limits and capabilities that builders get without an admin.
    pub builders: BuilderRules,
    /// How the code of tools runs.
    #[schemars(with = "Map<String, Value>")]
    pub sandbox: Value,
}

/// Name, version and URLs of a host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ServiceInfo {
    /// Name of the program.
    pub name: Cow<'static, str>,
    /// Version of the program.
    pub version: Cow<'static, str>,
    /// Version of the interface.
    pub interface_version: Cow<'static, str>,
    /// Description of the program.
    pub description: Cow<'static, str>,
    /// URL of the host.
    pub url: String,
}

/// How to connect to a host with MCP.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct McpInfo {
    /// URL of the server.
    pub url: String,
    /// Its transport.
    pub transport: Cow<'static, str>,
}

/// How to find and call the tools of a host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct EndpointsInfo {
    /// URL of the catalog.
    pub catalog: String,
    /// URL to call a tool by its slug.
    pub invoke: String,
    /// Template of the URL of a tool.
    pub call: String,
    /// Number of tools.
    pub count: usize,
    /// Number of paid tools.
    pub paid: usize,
    /// Calls within 24 hours. Absent while a host that has just started still counts.
    #[serde(rename = "calls24h", skip_serializing_if = "Option::is_none")]
    pub calls24h: Option<u64>,
}

/// How to get quotes from a host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct QuotesInfo {
    /// URL for quotes of tools.
    pub url: String,
    /// URL for routes to an accepted token.
    pub conversion: String,
    /// URL for prices of other sellers.
    pub external: String,
    /// MCP tool for quotes.
    pub mcp_tool: Cow<'static, str>,
    /// Header that names a quote.
    pub header: Cow<'static, str>,
    /// Field of `_meta` that names a quote.
    pub mcp_meta: Cow<'static, str>,
}

/// How to check receipts of a host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ReceiptsInfo {
    /// Template of the URL of a receipt.
    pub url: String,
    /// Template of the URL of a payment.
    pub payments: String,
    /// URL of the public keys.
    pub keys: String,
    /// How receipts are signed.
    pub signature: Cow<'static, str>,
    /// Command that verifies a receipt.
    pub verify: Cow<'static, str>,
    /// Key id of signed offers.
    pub offers: Value,
}

/// How to pay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PaymentInfo {
    /// Whether money is simulated.
    pub simulated: bool,
    /// The first network, as CAIP-2.
    pub network: String,
    /// Name of the first network.
    pub network_v1: String,
    /// The first token.
    pub asset: TokenInfo,
    /// All accepted tokens.
    pub accepts: Vec<AcceptedToken>,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A token on a network, which the host accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct AcceptedToken {
    /// The network, as CAIP-2.
    pub network: String,
    /// Name of the network.
    pub network_v1: String,
    /// The token.
    pub asset: TokenInfo,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TokenInfo {
    /// Its address.
    pub address: String,
    /// Its symbol.
    pub symbol: String,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Limits and capabilities that builders get without an admin.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
    pub fee_bps: u16,
}

/// The paid resources of the host, for x402 discovery.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Version of this format.
    #[schemars(extend("const" = 1))]
    pub version: u64,
    /// Version of x402.
    #[serde(rename = "x402Version")]
    #[schemars(extend("const" = 2))]
    pub x402_version: u64,
    /// URLs of the paid resources.
    pub resources: Vec<String>,
    /// The ways to pay that the host accepts.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub accepts: Vec<Value>,
    /// URL of the OpenAPI document.
    pub openapi: String,
    /// URL of the manifest.
    pub manifest: String,
    /// URL of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A JSON Web Key Set.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct JsonWebKeySet {
    /// The keys.
    pub keys: Vec<Map<String, Value>>,
}

/// An MCP message in JSON-RPC 2.0, or several in an array.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("type" = ["object", "array"], "items" = {}))]
pub struct JsonRpcMessage(pub Value);

/// An OpenAPI 3.1 document.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenApiDocument(pub Map<String, Value>);

/// The input of a tool, as its `inputSchema` describes it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ToolInput(pub Value);

/// Success, without further data.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OkResponse {
    pub ok: True,
}

/// The result of a search over the documentation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DocsSearchResponse {
    pub ok: True,
    /// The query.
    pub query: String,
    /// The best section of each page that matches, best first. At most 20.
    pub results: Vec<DocsMatch>,
}

/// A section of the documentation that matches a search.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DocsMatch {
    /// Name of the page in its URL.
    pub name: String,
    /// Title of the page.
    pub title: String,
    /// Part of the table of contents that the page belongs to.
    pub group: String,
    /// Heading of the section. Absent if the match is before the first heading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// URL of the section.
    pub url: String,
    /// Text around the match, without markup.
    pub excerpt: String,
}
