//! The admin's policy: what builders may do without approval, and their limits.

use serde::{Deserialize, Serialize};
use tollhouse_api::PolicyDraft;
use tollhouse_protocol::{Limits, Tier};
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

impl Policy {
    /// Returns the policy of a draft, in which missing fields get their defaults.
    pub(super) fn of(draft: PolicyDraft) -> Result<Self, PublishError> {
        let default = Self::default();
        Ok(Self {
            builder_capabilities: draft.builder_capabilities.unwrap_or(default.builder_capabilities),
            limits: limits_over(default.limits, &draft.limits, &Limits::ceilings())?,
            tier: draft.tier,
            require_review: draft.require_review,
            max_endpoints_per_builder: draft.max_endpoints_per_builder.unwrap_or(default.max_endpoints_per_builder),
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
