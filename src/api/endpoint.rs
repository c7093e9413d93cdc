//! Tools, as callers, owners and admins see them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_protocol::{Isolation, Tier};
use tollhouse_tool::{
    Capabilities, ContentSafety, EndpointState, MicroUsd, PricingMode, ReviewRecord, Runtime, SettleTime, Slug, Status, Version,
};

use crate::{BuilderRef, RecentUsage, Review, True};

/// The fields of a tool that everyone can see.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EndpointCommon {
    /// Its name in `/tools/{slug}`.
    pub slug: Slug,
    /// Its id, never reused, unlike the slug.
    pub id: EndpointId,
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
    /// Media types of bodies that it takes beside JSON. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_types: Vec<String>,
    /// Request headers that it sees beside those that every tool sees. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_headers: Vec<String>,
    /// Whether a call with developer credit is refunded if the tool breaks its streamed answer off. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refund_broken_streams: bool,
    /// Granted capabilities.
    pub capabilities: Capabilities,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A tool, as everyone sees it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
    /// The limits of a call that concern its caller. Absent in the older form of the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<CallLimits>,
    /// Result of the scan of a builder's upload. Absent in the older form of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::present_value")]
    #[schemars(extend("nullable" = true))]
    pub content_safety: Option<Option<ContentSafety>>,
}

/// The limits of a call that concern its caller.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CallLimits {
    /// Maximum time of a call, in milliseconds. A caller should wait longer than that.
    pub wall_ms: u64,
    /// Maximum size of a body that is not JSON, in bytes. Absent if the tool takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
}

/// A tool, as its owner and admins see it: everything but the source.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
    /// The hosts that `fetch` and `httpGetJson` can reach.
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
    /// Cron expressions, in UTC, at which it runs on its own. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// The admin's decisions, made and pending.
    pub review: Review,
    /// Maximum price of a call, if its handler sets the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price_usd: Option<MicroUsd>,
    /// Result of the scan of a builder's upload.
    pub content_safety: Option<ContentSafety>,
}

/// A tool, as its owner sees it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OwnEndpointResponse")]
pub struct OwnEndpointResponse<E = OwnEndpoint> {
    pub ok: True,
    /// The tool.
    pub endpoint: E,
}

/// A tool, as far as the caller can see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EndpointResponse")]
pub struct EndpointResponse<E = EndpointView> {
    pub ok: True,
    /// The tool.
    pub endpoint: E,
}

/// A tool, as its owner or everyone sees it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum EndpointView {
    /// For its owner and admins.
    Own(Box<OwnEndpoint>),
    /// For everyone else.
    Public(Box<Endpoint>),
}

impl EndpointView {
    /// Returns the fields that everyone can read.
    #[must_use]
    pub fn common(&self) -> &EndpointCommon {
        match self {
            Self::Own(own) => &own.common,
            Self::Public(public) => &public.common,
        }
    }

    /// Returns the maximum price of a call, if the handler sets the charge.
    #[must_use]
    pub fn max_price_usd(&self) -> Option<MicroUsd> {
        match self {
            Self::Own(own) => own.max_price_usd,
            Self::Public(public) => public.max_price_usd,
        }
    }

    /// Returns the outcome of the content scan.
    #[must_use]
    pub fn content_safety(&self) -> Option<&ContentSafety> {
        match self {
            Self::Own(own) => own.content_safety.as_ref(),
            Self::Public(public) => public.content_safety.as_ref()?.as_ref(),
        }
    }
}

/// The main fields of a tool, for lists of owners and admins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EndpointSummary")]
pub struct EndpointSummary<B = EndpointBrief> {
    /// The main fields.
    #[serde(flatten)]
    pub brief: B,
    /// How much longer its calls are refused, in milliseconds, because its code was stopped repeatedly.
    pub held_for_ms: Option<u64>,
    /// Whether it has secrets that no key of the host decrypts. Its calls are refused.
    pub secrets_unreadable: bool,
}

/// The main fields of a tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EndpointBrief {
    /// Its name in `/tools/{slug}`.
    pub slug: Slug,
    /// Its id, never reused, unlike the slug.
    pub id: EndpointId,
    /// Title for people.
    pub title: String,
    /// Description, for people and for models that choose a tool.
    pub description: String,
    /// Its owner's setting of whether it accepts calls.
    pub status: Status,
    /// Price of a call. 0 is free.
    pub price_usd: MicroUsd,
    /// How a call is priced.
    pub pricing_mode: PricingMode,
    /// The kind of code that answers.
    pub handler_type: HandlerType,
    /// The URL to call.
    pub url: String,
    /// Tags for search.
    pub tags: Vec<String>,
    /// Granted capabilities.
    pub capabilities: Capabilities,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Whether it accepts calls, and why not.
    pub state: EndpointState,
    /// Whether an admin suspended its owner.
    pub owner_suspended: bool,
    /// Maximum price of a call, if its handler sets the price.
    pub max_price_usd: Option<MicroUsd>,
    /// `platform`, or a builder's id.
    pub owner: String,
    /// Hash of the current version.
    pub version: String,
    /// Number of the change, and the `ETag` of the record.
    pub revision: u64,
    /// How its code runs.
    pub tier: Tier,
    /// Capabilities that were requested and not granted yet.
    pub requested_capabilities: Capabilities,
    /// The hosts that `fetch` and `httpGetJson` can reach.
    pub allowed_hosts: Vec<String>,
    /// Hosts that were requested and not granted yet.
    pub requested_hosts: Vec<String>,
    /// The version that an admin approved last.
    pub approved_version: Option<String>,
    /// Since when it waits for an admin.
    pub since: Option<Timestamp>,
    /// The last decision of an admin.
    pub decision: Option<ReviewRecord>,
}

/// A page of tools, by slug.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EndpointSummaryPage")]
pub struct EndpointSummaryPage<B = EndpointBrief> {
    pub ok: True,
    /// The tools.
    pub endpoints: Vec<EndpointSummary<B>>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The kind of code that answers calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Limits by name. The page of limits lists all of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Limits(#[schemars(with = "BTreeMap<String, u64>")] pub Map<String, Value>);

impl Limits {
    /// Returns a limit, if it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }
}

/// A JSON Schema, in dialect 2020-12 unless it names another.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JsonSchema", extend("type" = ["object", "boolean"]))]
pub struct SchemaDocument(pub Value);
