//! Reviews: what admins decide about tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_base::clock::Timestamp;
use tollhouse_protocol::Tier;
use tollhouse_tool::{Capabilities, HoldKind, ReviewAction, ReviewRecord, Slug, finding::Finding};

use crate::{BuilderRef, RecentUsage, True};

/// The admin's decisions about a tool, made and pending.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// The state of the review.
    pub state: ReviewState,
    /// Since when it waits.
    pub since: Option<Timestamp>,
    /// Findings of the scan.
    pub findings: Vec<Finding>,
    /// The last decision.
    pub decision: Option<ReviewRecord>,
    /// The version that an admin approved last.
    pub approved_version: Option<String>,
    /// The approved value of each field that has changed since. Does not contain the version.
    pub approved_fields: Map<String, Value>,
}

/// The part of a tool that waits for an admin's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ReviewState {
    /// Nothing.
    None,
    /// Its requests for capabilities or hosts.
    CapabilitiesRequested,
    /// Its content.
    ContentReview,
    /// Its content was rejected.
    ContentBlocked,
    /// Its owner is suspended.
    OwnerSuspended,
    /// It was taken down.
    TakenDown,
}

/// A tool that waits for a decision.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingReview {
    /// The tool.
    pub slug: Slug,
    /// Its title.
    pub title: String,
    /// `platform`, or a builder's id.
    pub owner: String,
    /// Hash of the current version.
    pub version: String,
    /// The version that an admin approved last.
    pub approved_version: Option<String>,
    /// Number of the change.
    pub revision: u64,
    /// How its code runs.
    pub tier: Tier,
    /// Granted capabilities.
    pub capabilities: Capabilities,
    /// The hosts that `fetch` and `httpGetJson` can reach.
    pub allowed_hosts: Vec<String>,
    /// Capabilities that were requested and not granted yet.
    pub requested_capabilities: Capabilities,
    /// Hosts that were requested and not granted yet.
    pub requested_hosts: Vec<String>,
    /// How its content is held. Null if it is not.
    pub content: Option<HoldKind>,
    /// Findings of the scan. Null if nothing was scanned.
    pub findings: Option<Vec<Finding>>,
    /// Since when it waits.
    pub since: Option<Timestamp>,
    /// Its recent calls. Absent while a host that has just started still counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<RecentUsage>,
    /// Its builder. Absent for tools of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder: Option<BuilderRef>,
}

/// A page of tools that wait for a decision, longest waiting first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewPage {
    pub ok: True,
    /// The tools.
    pub reviews: Vec<PendingReview>,
    /// Number of all tools that wait.
    pub total: usize,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An admin's decision about a tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewVerdict {
    /// The decision.
    pub decision: ReviewAction,
    /// With `approve`, the capabilities to grant. With `revoke`, the capabilities to revoke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// With `approve`, the hosts to grant. With `revoke`, the hosts to revoke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_hosts: Option<Vec<String>>,
    /// Limits to set, by name. `null` removes one.
    #[serde(default)]
    pub limits: Map<String, Value>,
    /// How the code of the tool runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// The reason, shown to the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The result of a new scan of all tools.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RescanResponse {
    pub ok: True,
    /// The number of tools by outcome.
    pub rescan: RescanCounts,
}

/// The number of tools in a new scan, by outcome.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct RescanCounts {
    /// All tools.
    pub endpoints: u64,
    /// Tools that are held now.
    pub review: u64,
    /// Tools that are blocked now.
    pub blocked: u64,
}
