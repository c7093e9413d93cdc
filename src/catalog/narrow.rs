//! Preview of the restrictions that a policy would impose on existing endpoints, without any
//! change.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tollhouse_base::boxed;

use serde::Serialize;
use tollhouse_protocol::limits::TABLE;
use tollhouse_tool::{Owner, Slug};

use super::{Catalog, PolicyDraft, PublishError, entry::RequestedLimits, limits::limits_in_force};

/// Endpoints per time slice of the thread: about a millisecond if each has limits of its own.
const SLICE: usize = 200;
/// Maximum named endpoints.
const NAMED: usize = 20;

/// The restrictions on builders' endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyImpact {
    /// Number of endpoints with any restriction.
    pub endpoints: u64,
    /// Limit → number of endpoints for which it would be lower.
    pub limits: BTreeMap<&'static str, u64>,
    /// Number of endpoints that would run in a stricter tier.
    pub tier: u64,
    /// Number of endpoints that would stop being long-running.
    pub long_running: u64,
    /// The first restricted endpoints by slug.
    pub slugs: Vec<Slug>,
}

/// The restrictions of all endpoints with the same own limits.
struct LoweredLimits {
    requested: RequestedLimits,
    /// The limits that would be lower.
    limits: Vec<&'static str>,
    /// Whether they would stop being long-running.
    ends: bool,
}

impl Catalog {
    /// Returns the restrictions of a draft policy. An endpoint with a wall limit above
    /// `long_running_ms` is long-running.
    #[boxed]
    pub async fn would_narrow(&self, draft: PolicyDraft, long_running_ms: u64) -> Result<PolicyImpact, PublishError> {
        let policy = draft.check()?;
        let mut found = PolicyImpact::default();
        let (all, before) = (self.all(), self.policy());
        // Many endpoints have the same own limits.
        let mut known: HashMap<Option<Arc<String>>, LoweredLimits> = HashMap::new();
        for (number, entry) in all.values().enumerate() {
            if number % SLICE == SLICE - 1 {
                tokio::task::yield_now().await;
            }
            if *entry.owner == Owner::Platform {
                continue;
            }
            // Lowered limits are the same for all builders.
            let LoweredLimits { requested: request, limits: lowered, ends } = known.entry(entry.requested.clone()).or_insert_with(|| {
                let request = entry.own_limits();
                let under = |ceilings| limits_in_force(&request.own_limits, &entry.owner, ceilings, &request.limit_caps);
                let (now, then) = (under(&before.policy.limits), under(&policy.limits));
                let lowered: Vec<_> = TABLE.iter().map(|row| row.name).filter(|name| then.get(name) < now.get(name)).collect();
                LoweredLimits {
                    requested: request,
                    limits: lowered,
                    ends: now.wall_ms > long_running_ms && then.wall_ms <= long_running_ms,
                }
            });
            let is_stricter = policy.tier > self.tier_under(before.policy.tier, &entry.owner, request.tier_cap);
            if lowered.is_empty() && !is_stricter {
                continue;
            }
            lowered.iter().for_each(|name| *found.limits.entry(name).or_default() += 1);
            found.long_running += u64::from(*ends);
            found.tier += u64::from(is_stricter);
            found.endpoints += 1;
            if found.slugs.len() < NAMED {
                found.slugs.push(entry.slug.clone());
            }
        }
        Ok(found)
    }
}
