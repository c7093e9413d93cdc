//! Tools in lists of owners and admins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_protocol::Tier;

use crate::{
    constant::True,
    money::MicroUsd,
    review::DecisionRecord,
    time::Timestamp,
    tool::{Capabilities, EndpointState, HandlerType, PricingMode, Status},
};

/// The main fields of a tool, for lists of owners and admins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSummary {
    /// Its name in `/tools/{slug}`.
    pub slug: String,
    /// Its id, never reused, unlike the slug.
    pub id: String,
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
    /// The hosts that `httpGetJson` can reach.
    pub allowed_hosts: Vec<String>,
    /// Hosts that were requested and not granted yet.
    pub requested_hosts: Vec<String>,
    /// The version that an admin approved last.
    pub approved_version: Option<String>,
    /// Since when it waits for an admin.
    pub since: Option<Timestamp>,
    /// The last decision of an admin.
    pub decision: Option<DecisionRecord>,
    /// How much longer its calls are refused, in milliseconds, because its code was stopped repeatedly.
    pub held_for_ms: Option<u64>,
    /// Whether it has secrets that no key of the host decrypts. Its calls are refused.
    pub secrets_unreadable: bool,
}

/// A page of tools, by slug.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSummaryPage {
    /// Always true.
    pub ok: True,
    /// The tools.
    pub endpoints: Vec<EndpointSummary>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
