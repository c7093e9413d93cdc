//! Tools, as callers, owners and admins see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_protocol::{Isolation, Tier};

use crate::{
    account::BuilderRef,
    constant::True,
    metrics::RecentUsage,
    money::MicroUsd,
    present::present,
    review::Review,
    safety::ContentSafety,
    time::Timestamp,
    tool::{
        Capabilities, HandlerType, Interface, Limits, PostMethod, PricingMode, Runtime, SchemaDocument, SettleBefore, SettleTime, Status,
        VersionAuthor,
    },
};

/// The fields of a tool that everyone can see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EndpointCommon {
    /// Its name in `/tools/{slug}`.
    pub slug: String,
    /// Its id, never reused, unlike the slug.
    pub id: String,
    /// Title for people.
    pub title: String,
    /// Description, for people and for models that choose a tool.
    pub description: String,
    /// Whether it accepts calls.
    pub status: Status,
    /// Price of a call. 0 is free.
    pub price_usd: MicroUsd,
    /// The kind of code that answers.
    pub handler_type: HandlerType,
    /// Where its code runs.
    pub runtime: Runtime,
    /// How a call is priced.
    pub pricing_mode: PricingMode,
    /// The URL to call.
    pub url: String,
    /// The method to call it with.
    pub method: PostMethod,
    /// Tags for search.
    pub tags: Vec<String>,
    /// Schema of its input.
    pub input_schema: SchemaDocument,
    /// Schema of its output.
    pub output_schema: SchemaDocument,
    /// Granted capabilities.
    pub capabilities: Capabilities,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A tool, as everyone sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The fields that everyone can see.
    #[serde(flatten)]
    pub common: EndpointCommon,
    /// Its recent calls. Absent in the older form of the catalog, and while a host that has just started still counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<RecentUsage>,
    /// Its builder. Absent for tools of the host, and in the older form of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder: Option<BuilderRef>,
    /// Maximum price of a call, if its handler sets the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price_usd: Option<MicroUsd>,
    /// Present if a call is charged before the handler runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<SettleBefore>,
    /// Result of the scan of a builder's upload. Absent in the older form of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub content_safety: Option<Option<ContentSafety>>,
}

/// A tool, as its owner and admins see it: everything but the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnEndpoint {
    /// The fields that everyone can see.
    #[serde(flatten)]
    pub common: EndpointCommon,
    /// Hash of the current version.
    pub version: String,
    /// The versions that it can be rolled back to, newest first.
    pub versions: Vec<Version>,
    /// Number of the change, and the `ETag` of the record.
    pub revision: u64,
    /// `platform`, or a builder's id.
    pub owner: String,
    /// Capabilities that were requested and not granted yet.
    pub requested_capabilities: Capabilities,
    /// The hosts that `httpGetJson` can reach.
    pub allowed_hosts: Vec<String>,
    /// Hosts that were requested and not granted yet.
    pub requested_hosts: Vec<String>,
    /// The limits in force that differ from the defaults.
    pub limits: Limits,
    /// The limits that its owner set and that differ from the defaults.
    pub own_limits: Limits,
    /// The limits that an admin set.
    pub limit_caps: Limits,
    /// How its code runs.
    pub tier: Tier,
    /// The least strict tier that an admin set.
    pub tier_cap: Tier,
    /// Whether a process may serve several calls.
    pub isolation: Isolation,
    /// Accepted networks or tokens. Empty means all of the host's.
    pub accepts: Vec<String>,
    /// When a call is charged.
    pub settle: SettleTime,
    /// What an admin has decided, or has to decide.
    pub review: Review,
    /// Maximum price of a call, if its handler sets the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price_usd: Option<MicroUsd>,
    /// Result of the scan of a builder's upload. Absent in the older form of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub content_safety: Option<Option<ContentSafety>>,
}

/// A version of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Version {
    /// Hash of the version.
    pub version: String,
    /// When it first ran.
    pub created_at: Timestamp,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<VersionAuthor>,
    /// The interface through which it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Interface>,
    /// The author's note.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A tool, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnEndpointResponse {
    /// Always true.
    pub ok: True,
    /// The tool.
    pub endpoint: OwnEndpoint,
}

/// A tool, as far as the caller can see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointResponse {
    /// Always true.
    pub ok: True,
    /// The tool.
    pub endpoint: EndpointView,
}

/// A tool, as its owner or everyone sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum EndpointView {
    /// For its owner and admins.
    Own(Box<OwnEndpoint>),
    /// For everyone else.
    Public(Box<Endpoint>),
}
