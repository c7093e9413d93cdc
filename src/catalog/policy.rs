//! The admin's policy: what builders may do without approval, and their limits.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_protocol::{Limits, Tier, limits::TABLE};
use tollhouse_tool::Capabilities;

use super::{PublishError, limits::limits_over};

/// Default maximum of endpoints per builder.
const MAX_ENDPOINTS_PER_BUILDER: u64 = 100;

/// The rules for builders. They apply to future changes: removing a capability from
/// `builder_capabilities` revokes nothing that was granted before. Only lower ceilings and a
/// stricter tier apply to existing endpoints at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// Capabilities that builders get on request. Default: kv and logs.
    pub builder_capabilities: Capabilities,
    /// Ceilings of builders' limits. Default: the highest of the table.
    pub limits: Limits,
    /// The least strict tier of builders' endpoints. Default: jit.
    #[serde(default)]
    pub tier: Tier,
    /// Whether every upload of a builder is held back until an admin has approved it. Default:
    /// false.
    pub require_review: bool,
    /// Maximum number of endpoints per builder. Default: 100.
    pub max_endpoints_per_builder: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            builder_capabilities: Capabilities { kv: true, logs: true, ..Capabilities::default() },
            limits: Limits::ceilings(),
            tier: Tier::default(),
            require_review: false,
            max_endpoints_per_builder: MAX_ENDPOINTS_PER_BUILDER,
        }
    }
}

/// The body of `PUT /ai/admin/policy`: the complete policy. Missing fields get their defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PolicyDraft {
    builder_capabilities: Option<Capabilities>,
    limits: Map<String, Value>,
    tier: Tier,
    require_review: bool,
    max_endpoints_per_builder: Option<u64>,
}

impl PolicyDraft {
    pub(super) fn check(self) -> Result<Policy, PublishError> {
        let default = Policy::default();
        Ok(Policy {
            builder_capabilities: self.builder_capabilities.unwrap_or(default.builder_capabilities),
            limits: limits_over(default.limits, &self.limits, &Limits::ceilings())?,
            tier: self.tier,
            require_review: self.require_review,
            max_endpoints_per_builder: self.max_endpoints_per_builder.unwrap_or(default.max_endpoints_per_builder),
        })
    }
}

/// The policy in force with its revision, which is 0 before it is first set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInForce {
    /// Counts changes. It is the `ETag` of the record.
    pub revision: u64,
    pub policy: Policy,
}

impl Policy {
    /// Returns the record for admins, with every ceiling by name.
    pub fn record(&self) -> Value {
        let limits: Map<_, _> = TABLE.iter().filter_map(|row| Some((row.name.to_owned(), json!(self.limits.get(row.name)?)))).collect();
        json!({
            "builderCapabilities": self.builder_capabilities,
            "limits": limits,
            "tier": self.tier,
            "requireReview": self.require_review,
            "maxEndpointsPerBuilder": self.max_endpoints_per_builder,
        })
    }
}
