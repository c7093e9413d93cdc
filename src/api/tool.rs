//! The vocabulary of tools: states, prices, handlers, limits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of code that answers calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum HandlerType {
    /// The host's own: echoes the request and its receipt.
    ReceiptEcho,
    /// A static JSON response.
    StaticJson,
    /// The host's own: inspects the x402 metadata behind a URL.
    #[serde(rename = "x402_readiness_check")]
    X402ReadinessCheck,
    /// A builder's code.
    JsRequestResponse,
}

/// Where the code of a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Runtime {
    /// In the host.
    #[serde(rename = "managed_builtin_handler")]
    ManagedBuiltin,
    /// In the sandbox.
    #[serde(rename = "admin_gated_js_request_response_v1")]
    AdminGatedJs,
}

/// The owner's setting of whether a tool accepts calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Status {
    /// It accepts calls.
    #[default]
    Active,
    /// It accepts no calls.
    Paused,
}

/// The state of a tool. If several apply, it is the most severe one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum EndpointState {
    /// It accepts calls.
    Active,
    /// Its owner paused it.
    Paused,
    /// An admin suspended its owner.
    Suspended,
    /// It is held until an admin decides.
    Held,
    /// An admin rejected it.
    Rejected,
    /// An admin took it down.
    TakenDown,
}

/// How a call is priced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PricingMode {
    /// Free.
    FreePublicUtility,
    /// A fixed price.
    FixedPriceSuccessReceipt,
    /// A price set by the handler, up to a maximum.
    MeteredPriceSuccessReceipt,
}

/// When a call is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SettleTime {
    /// After its handler has succeeded.
    #[default]
    After,
    /// Before its handler runs.
    Before,
}

/// Present if a call is charged before its handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SettleBefore {
    /// Before its handler runs.
    Before,
}

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum PostMethod {
    /// `POST`.
    Post,
}

/// Who made a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum VersionAuthor {
    /// The owner.
    Owner,
    /// An admin.
    Admin,
    /// The host, from its shipped catalog.
    Host,
}

/// The interface through which a tool was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Interface {
    /// The API.
    Http,
    /// The dashboard.
    Dashboard,
    /// The command line.
    Cli,
}

/// The capabilities that calls can use, by name: the members of `ctx`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities(pub BTreeMap<String, bool>);

/// Limits by name. The page of limits lists all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits(pub BTreeMap<String, u64>);

/// A JSON Schema, in dialect 2020-12 unless it names another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JsonSchema", extend("type" = ["object", "boolean"]))]
pub struct SchemaDocument(pub Value);
