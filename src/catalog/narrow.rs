//! Preview of the restrictions that a policy would impose on existing endpoints, without any
//! change.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tollhouse_base::boxed;

use tollhouse_api::{Limits, Narrowing, PolicyDraft};
use tollhouse_protocol::limits::TABLE;
use tollhouse_tool::Owner;

use super::{Catalog, Policy, PublishError, entry::RequestedLimits, limits::limits_in_force};

/// Endpoints per time slice of the thread: about a millisecond if each has limits of its own.
const SLICE: usize = 200;
/// Maximum named endpoints.
const NAMED: usize = 20;

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
    pub async fn would_narrow(&self, draft: PolicyDraft, long_running_ms: u64) -> Result<Narrowing, PublishError> {
        let policy = Policy::of(draft)?;
        let (mut endpoints, mut tier, mut long_running, mut slugs) = (0, 0, 0, Vec::new());
        let mut limits = BTreeMap::<&str, u64>::new();
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
            lowered.iter().for_each(|name| *limits.entry(name).or_default() += 1);
            long_running += u64::from(*ends);
            tier += u64::from(is_stricter);
            endpoints += 1;
            if slugs.len() < NAMED {
                slugs.push(entry.slug.clone());
            }
        }
        let limits = Limits(limits.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect());
        Ok(Narrowing { endpoints, limits, tier, long_running, slugs })
    }
}
