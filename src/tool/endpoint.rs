//! The hosted endpoint record: what a tool is, who owns it, what it may touch.

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

/// A hosted endpoint as it is stored. [`Endpoint::public`] is what everyone may see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// What it is called by.
    pub slug: Slug,
    /// Never given twice, unlike the slug.
    pub id: EndpointId,
    /// For people.
    pub title: String,
    /// For people and for models that choose a tool.
    pub description: String,
    /// What its owner wants. Whether it takes calls: [`Endpoint::availability`].
    pub status: Status,
    /// What one call costs.
    pub price_usd: MicroUsd,
    /// What one call costs at most, where the handler says what it does; nothing where the price is fixed.
    #[serde(default, skip_serializing_if = "MicroUsd::is_nothing")]
    pub max_price_usd: MicroUsd,
    /// What kind of code answers.
    pub handler_type: HandlerType,
    /// For who searches.
    pub tags: Vec<String>,
    /// What an input must fit.
    pub input_schema: Arc<Value>,
    /// What an answer must fit.
    pub output_schema: Arc<Value>,
    /// What calls may use now.
    pub capabilities: Capabilities,
    /// What the owner asked for and an admin has not granted yet.
    #[serde(default)]
    pub requested_capabilities: Capabilities,
    /// What an admin took away: its owner gets it back by an admin's grant only, whatever the policy says.
    #[serde(default)]
    pub withheld_capabilities: Capabilities,
    /// Hosts that `httpGetJson` may reach: exact names, or `*.example.com`.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Hosts that the owner asked for and an admin has not granted yet.
    #[serde(default)]
    pub requested_hosts: Vec<String>,
    /// Hosts that an admin took away.
    #[serde(default)]
    pub withheld_hosts: Vec<String>,
    /// The limits in force: the lowest of the owner's, the policy's ceilings and [`Endpoint::limit_caps`].
    /// Made when the endpoint is shown, never stored.
    #[serde(skip)]
    pub limits: Limits,
    /// The limits that the owner asked for.
    #[serde(default, rename = "limits")]
    pub own_limits: Limits,
    /// Limits that an admin set for this endpoint, by name.
    #[serde(default)]
    pub limit_caps: BTreeMap<String, u64>,
    /// How its code runs: the strictest of what the host, the policy, its owner's record and [`Endpoint::tier_cap`] say.
    /// Made when the endpoint is shown, never stored.
    #[serde(skip)]
    pub tier: Tier,
    /// The tier that an admin set for this endpoint; the first of them sets nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tier_cap: Tier,
    /// Whether a process may serve more than one call.
    #[serde(default)]
    pub isolation: Isolation,
    /// What it is paid in, of what the host takes: networks, or tokens on them. All if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// Whether a call is charged before its handler runs, or after.
    #[serde(default, skip_serializing_if = "SettleTime::is_after")]
    pub settle: SettleTime,
    /// What the scan of its content found; `None` where nothing was scanned.
    pub content_safety: Option<ContentSafety>,
    /// What waits for an admin, and what one decided.
    #[serde(default)]
    pub review: Review,
    /// What the last decision about its content and requests was made on, until either changes: to undo it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_on: Option<DecidedOn>,
    /// Whose it is.
    pub owner: Owner,
    /// Whether an admin suspended its owner. Made when the endpoint is shown, never stored.
    #[serde(skip)]
    pub owner_suspended: bool,
    /// What answers a call.
    pub handler: Handler,
    /// SHA-256 of what runs, in hex: handler source and language, or the static response.
    pub version: String,
    /// The versions that can be rolled back to, newest first, the one that runs among them.
    #[serde(default)]
    pub versions: Vec<Version>,
    /// Counts changes; the `ETag` of the record.
    pub revision: u64,
    /// When its slug was published.
    pub created_at: Timestamp,
    /// When its revision was made.
    pub updated_at: Timestamp,
}

fn is_default(tier: &Tier) -> bool {
    *tier == Tier::default()
}

/// Versions that an endpoint keeps; older ones leave its record.
const MAX_VERSIONS: usize = 50;

/// Content and requests as an admin found them who decided about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedOn {
    /// What was asked for then.
    pub requested_capabilities: Capabilities,
    /// Hosts that were asked for then.
    pub requested_hosts: Vec<String>,
    /// How its content was held back.
    pub hold: Option<Hold>,
    /// Whether its content had been rejected.
    pub refused: bool,
    /// `None` where nothing was scanned.
    pub outcome: Option<ScanOutcome>,
    /// The version that had been approved before.
    pub approved_version: Option<String>,
    /// And what had changed behind that approval, as it was then.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub approved_fields: Map<String, Value>,
}

/// Whether an endpoint takes calls, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It takes calls.
    Active,
    /// By its owner.
    Paused,
    /// An admin suspended its owner.
    OwnerSuspended,
    /// Its content waits for an admin's decision, or was refused.
    UnderReview,
    /// By an admin.
    TakenDown,
}

/// Where an endpoint stands, as lists are narrowed to it: the gravest of what holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// It takes calls.
    Active,
    /// By its owner.
    Paused,
    /// With its owner, by an admin.
    Suspended,
    /// Until an admin decides.
    Held,
    /// By an admin, until it is reopened.
    Rejected,
    /// By an admin, until it is restored.
    TakenDown,
}

/// Whether an endpoint takes calls, as far as its owner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It takes calls.
    Active,
    /// It does not.
    Paused,
}

/// When the payment for a call is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettleTime {
    /// After the handler has succeeded: a failed call costs nothing.
    #[default]
    After,
    /// Before the handler runs: a failed call is paid, and can be repeated with the same payment.
    Before,
}

impl SettleTime {
    /// Whether nothing is charged before the handler has succeeded.
    #[must_use]
    pub fn is_after(&self) -> bool {
        *self == Self::After
    }

    /// As records and receipts write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::After => "after",
            Self::Before => "before",
        }
    }
}

/// How a call is priced. Follows from the price, and from the most that one may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PricingMode {
    /// Nothing.
    FreePublicUtility,
    /// A fixed price, and a receipt of each success.
    FixedPriceSuccessReceipt,
    /// What the handler says, up to a most that is asked for before; and a receipt of each success.
    MeteredPriceSuccessReceipt,
}

impl Availability {
    /// What of all that keeps an endpoint from taking calls is the gravest.
    #[must_use]
    pub fn of(taken_down: bool, held: bool, owner_suspended: bool, status: Status) -> Self {
        match (taken_down, held, owner_suspended, status) {
            (true, _, _, _) => Self::TakenDown,
            (_, true, _, _) => Self::UnderReview,
            (_, _, true, _) => Self::OwnerSuspended,
            (_, _, _, Status::Paused) => Self::Paused,
            (_, _, _, Status::Active) => Self::Active,
        }
    }

    /// Whether an admin holds the endpoint back.
    #[must_use]
    pub fn held_back(self) -> bool {
        matches!(self, Self::OwnerSuspended | Self::UnderReview | Self::TakenDown)
    }
}

impl EndpointState {
    /// Where an endpoint stands whose content an admin has refused, or has not.
    #[must_use]
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
    /// The mode of a price.
    #[must_use]
    pub fn of(price: MicroUsd) -> Self {
        if price.is_zero() { Self::FreePublicUtility } else { Self::FixedPriceSuccessReceipt }
    }
}

/// Whose endpoint it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// Shipped with the host, or created with the admin token.
    Platform,
    /// Whoever registered under this id.
    Builder(BuilderId),
}

impl Owner {
    /// The name under which the sandbox shares its slots.
    #[must_use]
    pub fn share(&self) -> &str {
        match self {
            Self::Platform => "platform",
            Self::Builder(id) => id.as_str(),
        }
    }
}

impl Endpoint {
    /// How a call is priced.
    #[must_use]
    pub fn pricing_mode(&self) -> PricingMode {
        if self.metered() { PricingMode::MeteredPriceSuccessReceipt } else { PricingMode::of(self.price_usd) }
    }

    /// Whether the handler says what a call costs.
    #[must_use]
    pub fn metered(&self) -> bool {
        !self.max_price_usd.is_zero()
    }

    /// What one call costs at most.
    #[must_use]
    pub fn most_usd(&self) -> MicroUsd {
        self.price_usd.max(self.max_price_usd)
    }

    /// True when its wall limit is above `threshold_ms`, so that `/ai/invoke` wants streaming.
    #[must_use]
    pub fn long_running(&self, threshold_ms: u64) -> bool {
        self.limits.wall_ms > threshold_ms
    }

    /// Whether it takes calls.
    #[must_use]
    pub fn availability(&self) -> Availability {
        Availability::of(self.review.taken_down.is_some(), self.review.hold.is_some(), self.owner_suspended, self.status)
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> EndpointState {
        EndpointState::of(self.availability(), self.rejected())
    }

    /// Whether an admin has refused the content that it has now.
    #[must_use]
    pub fn rejected(&self) -> bool {
        self.review.refused && self.review.hold.as_ref().is_some_and(|hold| hold.kind == HoldKind::ContentBlocked)
    }

    /// Whether an admin holds it back: then nothing that it does reaches anything.
    #[must_use]
    pub fn held_back(&self) -> bool {
        self.availability().held_back()
    }

    /// Whether everyone may see it: not while an admin holds it back.
    #[must_use]
    pub fn listed(&self) -> bool {
        !self.held_back()
    }

    /// Whether an admin has something to decide about what it may touch.
    #[must_use]
    pub fn asks(&self) -> bool {
        let reaches_out = self.capabilities.union(self.requested_capabilities).http_get_json;
        self.requested_capabilities.any() || (reaches_out && !self.requested_hosts.is_empty())
    }

    /// Makes `version` the one that runs; one that is kept stays as it was made. The oldest go when there are more than are kept.
    pub fn run_version(&mut self, version: Version) {
        self.version.clone_from(&version.version);
        if self.versions.iter().all(|kept| kept.version != version.version) {
            self.versions.insert(0, version);
            self.versions.truncate(MAX_VERSIONS);
        }
    }

    /// Has the version that runs among those that are kept, where a record was written without it.
    pub fn list_running(&mut self) {
        self.run_version(Version::new(self.version.clone(), self.updated_at));
    }

    /// What is said of the version that runs; nothing, where that is empty.
    pub fn note(&mut self, note: &str) {
        let running = self.versions.iter_mut().find(|kept| kept.version == self.version);
        running.into_iter().for_each(|kept| kept.note = Some(note.to_owned()).filter(|note| !note.is_empty()));
    }

    /// Whether `version` can be rolled back to: also the one that was approved last, however old.
    #[must_use]
    pub fn keeps(&self, version: &str) -> bool {
        self.review.approved_version.as_deref() == Some(version) || self.versions.iter().any(|kept| kept.version == version)
    }

    /// The versions whose handlers have to be there: those that can be rolled back to, and the one that runs.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let kept = self.versions.iter().map(|kept| kept.version.as_str());
        kept.chain(self.review.approved_version.as_deref()).chain([self.version.as_str()])
    }
}
