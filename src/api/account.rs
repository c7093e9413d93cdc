//! Builders: registration, keys, and what admins decide about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, id::BuilderId};
use tollhouse_protocol::Tier;

use crate::{RevenueTotals, True};

/// The request to register as a builder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistrationRequest {
    /// The builder's name.
    pub name: String,
    /// How to reach the builder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
}

/// A builder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Builder {
    /// The builder's id.
    pub builder_id: BuilderId,
    /// The builder's name.
    pub name: String,
    /// How to reach the builder.
    pub contact: Option<String>,
    /// When the builder registered.
    pub created_at: Timestamp,
    /// When the current key was created.
    pub key_created_at: Timestamp,
    /// When and why an admin suspended the builder.
    pub suspended: Option<Suspension>,
    /// How the code of the builder's tools runs.
    pub tier: Tier,
    /// Hosts that an admin has granted to all tools of the builder: `*` for any public host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<String>,
}

/// When and why a builder was suspended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Suspension {
    /// When an admin suspended the builder.
    pub since: Timestamp,
    /// The reason for the suspension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A builder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BuilderResponse {
    pub ok: True,
    /// The builder.
    pub builder: Builder,
}

/// A builder in the list for admins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuilderListEntry {
    /// The builder.
    #[serde(flatten)]
    pub builder: Builder,
    /// Number of the builder's tools, in any state.
    pub endpoints: u64,
    /// Revenue of the last 30 UTC days.
    pub last30_days: RevenueTotals,
    /// When the key was last used, to about an hour.
    pub seen_at: Option<Timestamp>,
}

/// A page of builders, oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuilderPage {
    pub ok: True,
    /// The builders.
    pub builders: Vec<BuilderListEntry>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<BuilderId>,
}

/// A builder with a new key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuilderKeyResponse {
    pub ok: True,
    /// The builder's id.
    pub builder_id: BuilderId,
    /// The key. It is shown only once.
    pub builder_key: String,
    /// The builder.
    pub builder: Builder,
}

/// The result of a registration. The id of its receipt is in the header `X-Receipt-Id`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RegistrationResponse")]
pub struct RegistrationResponse<B = Builder> {
    pub ok: True,
    /// The builder's id.
    pub builder_id: BuilderId,
    /// The builder. Absent if a payment is repeated without the secret that only its payer knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder: Option<B>,
    /// The next step.
    pub note: String,
    /// The key. It is shown only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builder_key: Option<String>,
}

/// An admin's decision about a builder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuilderVerdict {
    /// The decision.
    pub decision: BuilderDecision,
    /// With `tier`, how the code of the builder's tools runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// With `grant` and `revoke`, the hosts: `*` for any public host.
    #[serde(default, rename = "allowedHosts", skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<String>,
    /// The reason, shown to the builder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An admin's decision about a builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum BuilderDecision {
    /// Suspends the builder.
    Suspend,
    /// Undoes a suspension.
    Restore,
    /// Sets the least strict tier.
    Tier,
    /// Lets the builder's tools list hosts without approval.
    Grant,
    /// Withdraws that for later publishes.
    Revoke,
}

/// The builder of a tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BuilderRef {
    /// The builder's id.
    pub id: BuilderId,
    /// The builder's name.
    pub name: String,
}

/// A link that signs in to the dashboard.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInLink {
    pub ok: True,
    /// A page of the dashboard. It signs in the first visitor.
    pub url: String,
    /// When the link expires.
    pub expires_at: Timestamp,
}
