//! The record of a hosted tool (endpoint): what it is, who owns it, what it may do.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, EndpointId},
};
use tollhouse_protocol::{Isolation, Limits, Tier};

use super::{
    Capabilities, Handler, HandlerType, MicroUsd, Slug, Version,
    review::{ContentSafety, Hold, HoldKind, Review},
};
use crate::finding::ScanOutcome;

tollhouse_store::json_values!(Endpoint);

/// The entry of `allowedHosts` for any public host, at the scheme's default port. Only an admin can grant it.
pub const ANY_PUBLIC_HOST: &str = "*";

/// A hosted tool as it is stored. [`Endpoint::public`] returns the part that everybody may see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    pub slug: Slug,
    /// Its id, never reused, unlike the slug.
    pub id: EndpointId,
    pub title: String,
    /// Description, for people and for models that choose a tool.
    pub description: String,
    /// The owner's setting. [`Endpoint::availability`] returns whether it accepts calls.
    pub status: Status,
    pub price_usd: MicroUsd,
    /// Maximum price of one call, if the handler sets the charge. Zero if the price is fixed.
    #[serde(default, skip_serializing_if = "MicroUsd::is_nothing")]
    pub max_price_usd: MicroUsd,
    pub handler_type: HandlerType,
    pub tags: Vec<String>,
    pub input_schema: Arc<Value>,
    pub output_schema: Arc<Value>,
    pub capabilities: Capabilities,
    /// Capabilities that the owner requested and an admin has not granted yet.
    pub requested_capabilities: Capabilities,
    /// Capabilities that an admin revoked. Only an admin can grant them again, whatever the policy says.
    pub withheld_capabilities: Capabilities,
    /// Hosts that `fetch` and `httpGetJson` may reach: exact names, `*.example.com`, or [`ANY_PUBLIC_HOST`].
    pub allowed_hosts: Vec<String>,
    /// Hosts that the owner requested and an admin has not granted yet.
    pub requested_hosts: Vec<String>,
    /// Hosts that an admin revoked.
    pub withheld_hosts: Vec<String>,
    /// The effective limits: the lowest of the owner's, the policy's and [`Endpoint::limit_caps`]. Computed when the
    /// tool is displayed, never stored.
    #[serde(skip)]
    pub limits: Limits,
    /// Limits that the owner requested.
    #[serde(rename = "limits")]
    pub own_limits: Limits,
    /// Limits that an admin set for this tool, by name.
    pub limit_caps: BTreeMap<String, u64>,
    /// The effective tier: the strictest of the host's, the policy's, the owner's and [`Endpoint::tier_cap`]. Computed
    /// when the tool is displayed, never stored.
    #[serde(skip)]
    pub tier: Tier,
    /// The tier that an admin set for this tool. The first tier imposes nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tier_cap: Tier,
    /// Whether a worker process may serve more than one call.
    pub isolation: Isolation,
    /// Accepted networks, or tokens on them, among those of the host. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// Whether a call is charged before its handler runs, or after.
    #[serde(default, skip_serializing_if = "SettleTime::is_after")]
    pub settle: SettleTime,
    /// Cron expressions, in UTC, at which the handler's `scheduled` runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// Media types of bodies that it takes beside JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_types: Vec<String>,
    /// Request headers that it sees in addition to those that every tool sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_headers: Vec<String>,
    /// Whether a call with developer credit is refunded if the tool breaks its streamed answer off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refund_broken_streams: bool,
    /// Result of the content scan. `None` if nothing was scanned.
    pub content_safety: Option<ContentSafety>,
    /// Pending reviews and past decisions of admins.
    pub review: Review,
    /// The state on which the last decision about content and requests was based, until either changes. Needed to undo
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_on: Option<DecidedOn>,
    pub owner: Owner,
    /// Whether an admin has suspended the owner. Computed when the tool is displayed, never stored.
    #[serde(skip)]
    pub owner_suspended: bool,
    pub handler: Handler,
    /// SHA-256 of what runs, in hex: handler source and language, or the static response.
    pub version: String,
    /// Versions that can be rolled back to, newest first, including the current one.
    pub versions: Vec<Version>,
    /// Number of the change; the `ETag` of the record.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

fn is_default(tier: &Tier) -> bool {
    *tier == Tier::default()
}

/// Maximum number of versions in a record. Older ones are dropped.
const MAX_VERSIONS: usize = 50;

/// The state of content and requests on which an admin based a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedOn {
    /// Capabilities requested at that time.
    pub requested_capabilities: Capabilities,
    /// Hosts requested at that time.
    pub requested_hosts: Vec<String>,
    /// How the content was held.
    pub hold: Option<Hold>,
    /// Whether the content had been rejected.
    pub refused: bool,
    /// Outcome of the scan. `None` if nothing was scanned.
    pub outcome: Option<ScanOutcome>,
    /// The version that had been approved before.
    pub approved_version: Option<String>,
    /// Approved values of the fields that had changed since that approval.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub approved_fields: Map<String, Value>,
}

/// Whether a tool accepts calls, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    Active,
    /// Its owner paused it.
    Paused,
    /// An admin suspended its owner.
    OwnerSuspended,
    /// Its content waits for an admin's decision or was rejected.
    UnderReview,
    /// An admin took it down.
    TakenDown,
}

/// The state of a tool, for filtering lists. If several apply, it is the most severe one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// An admin rejected it, until it is reopened.
    Rejected,
    /// An admin took it down, until it is restored.
    TakenDown,
}

/// The owner's setting of whether a tool accepts calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Status {
    /// It accepts calls.
    Active,
    /// It accepts no calls.
    Paused,
}

/// When the payment for a call is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SettleTime {
    /// After the handler has succeeded. A failed call costs nothing.
    #[default]
    After,
    /// Before the handler runs. A failed call is charged, and can be repeated with the same payment.
    Before,
}

impl SettleTime {
    /// Returns whether a call is charged only after its handler has succeeded.
    pub fn is_after(&self) -> bool {
        *self == Self::After
    }

    /// Returns its name in records and receipts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::After => "after",
            Self::Before => "before",
        }
    }
}

/// How a call is priced. It follows from the price and the maximum price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PricingMode {
    /// Every call is free.
    FreePublicUtility,
    /// A fixed price, with a receipt for each success.
    FixedPriceSuccessReceipt,
    /// A price set by the handler, up to a maximum that is agreed before, with a receipt for each success.
    MeteredPriceSuccessReceipt,
}

impl Availability {
    /// Returns the most severe of all reasons why a tool accepts no calls.
    pub fn of(taken_down: bool, held: bool, owner_suspended: bool, status: Status) -> Self {
        match (taken_down, held, owner_suspended, status) {
            (true, _, _, _) => Self::TakenDown,
            (_, true, _, _) => Self::UnderReview,
            (_, _, true, _) => Self::OwnerSuspended,
            (_, _, _, Status::Paused) => Self::Paused,
            (_, _, _, Status::Active) => Self::Active,
        }
    }

    /// Returns whether an admin's action prevents calls.
    pub fn held_back(self) -> bool {
        matches!(self, Self::OwnerSuspended | Self::UnderReview | Self::TakenDown)
    }
}

impl EndpointState {
    /// Returns the state of a tool. `rejected` says whether an admin rejected its content.
    pub fn of(availability: Availability, rejected: bool) -> Self {
        match availability {
            Availability::Active => Self::Active,
            Availability::Paused => Self::Paused,
            Availability::OwnerSuspended => Self::Suspended,
            Availability::TakenDown => Self::TakenDown,
            Availability::UnderReview if rejected => Self::Rejected,
            Availability::UnderReview => Self::Held,
        }
    }
}

impl PricingMode {
    /// Returns the pricing mode of a fixed price.
    pub fn of(price: MicroUsd) -> Self {
        if price.is_zero() { Self::FreePublicUtility } else { Self::FixedPriceSuccessReceipt }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The host: the tool was shipped with it or created with the admin token.
    Platform,
    Builder(BuilderId),
}

impl Owner {
    /// Returns the name under which the sandbox counts the owner's share.
    pub fn share(&self) -> &str {
        match self {
            Self::Platform => "platform",
            Self::Builder(id) => id.as_str(),
        }
    }
}

impl Endpoint {
    pub fn pricing_mode(&self) -> PricingMode {
        if self.metered() { PricingMode::MeteredPriceSuccessReceipt } else { PricingMode::of(self.price_usd) }
    }

    /// Returns whether the handler sets the charge of a call.
    pub fn metered(&self) -> bool {
        !self.max_price_usd.is_zero()
    }

    /// Returns the maximum price of one call.
    pub fn max_usd(&self) -> MicroUsd {
        self.price_usd.max(self.max_price_usd)
    }

    /// Returns whether its wall limit exceeds `threshold_ms`, so that `/ai/invoke` requires streaming.
    pub fn long_running(&self, threshold_ms: u64) -> bool {
        self.limits.wall_ms > threshold_ms
    }

    /// Returns whether it accepts calls, and why not.
    pub fn availability(&self) -> Availability {
        Availability::of(self.review.taken_down.is_some(), self.review.hold.is_some(), self.owner_suspended, self.status)
    }

    pub fn state(&self) -> EndpointState {
        EndpointState::of(self.availability(), self.rejected())
    }

    /// Returns whether an admin has rejected its current content.
    pub fn rejected(&self) -> bool {
        self.review.refused && self.review.hold.as_ref().is_some_and(|hold| hold.kind == HoldKind::ContentBlocked)
    }

    /// Returns whether an admin's action prevents calls. It then has no effect on anything.
    pub fn held_back(&self) -> bool {
        self.availability().held_back()
    }

    /// Returns whether everybody may see it. An admin's action that prevents calls also hides it.
    pub fn listed(&self) -> bool {
        !self.held_back()
    }

    /// Returns the tier of the workers that run its code.
    pub fn worker_tier(&self) -> Tier {
        self.tier.with_wasm(self.capabilities.wasm)
    }

    /// Returns whether requests of the owner wait for an admin.
    pub fn asks(&self) -> bool {
        let reaches_out = self.capabilities.union(self.requested_capabilities).of_network().any();
        self.requested_capabilities.any() || (reaches_out && !self.requested_hosts.is_empty())
    }

    /// Makes `version` the current one and adds it to the versions, if it is new. If there are too many, the oldest are
    /// dropped.
    pub fn run_version(&mut self, version: Version) {
        self.version.clone_from(&version.version);
        if self.versions.iter().all(|stored| stored.version != version.version) {
            self.versions.insert(0, version);
            self.versions.truncate(MAX_VERSIONS);
        }
    }

    /// Sets the note of the current version, or removes it if `note` is empty.
    pub fn note(&mut self, note: &str) {
        let running = self.versions.iter_mut().find(|stored| stored.version == self.version);
        running.into_iter().for_each(|stored| stored.note = Some(note.to_owned()).filter(|note| !note.is_empty()));
    }

    /// Returns whether `version` can be rolled back to. The last approved version always can, however old it is.
    pub fn keeps(&self, version: &str) -> bool {
        self.review.approved_version.as_deref() == Some(version) || self.versions.iter().any(|stored| stored.version == version)
    }

    /// Returns the versions whose handlers must exist: those that can be rolled back to, and the current one.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let stored = self.versions.iter().map(|stored| stored.version.as_str());
        stored.chain(self.review.approved_version.as_deref()).chain([self.version.as_str()])
    }
}
