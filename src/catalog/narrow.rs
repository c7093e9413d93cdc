//! What a policy would take from endpoints that are there, were it in force: nothing is changed.

use std::collections::BTreeMap;

use serde::Serialize;
use tollhouse_protocol::limits::TABLE;

use super::{Catalog, PolicyDraft, PublishError, limits::limits_in_force};
use crate::tool::{Owner, Slug};

/// Endpoints that are looked at before others have a turn on the thread: about a millisecond.
const SLICE: usize = 200;
/// Endpoints that are named.
const NAMED: usize = 20;

/// What becomes of builders' endpoints at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Narrowing {
    /// Endpoints of which anything would be less than it is.
    pub endpoints: u64,
    /// Limit → endpoints of which it would be lower.
    pub limits: BTreeMap<&'static str, u64>,
    /// Endpoints that would run in a stricter tier.
    pub tier: u64,
    /// Endpoints that would stop being long-running.
    pub long_running: u64,
    /// The first of all of them, by slug.
    pub slugs: Vec<Slug>,
}

impl Catalog {
    /// What the policy of a draft would narrow; with a wall limit above `long_running_ms` an endpoint is long-running.
    ///
    /// # Errors
    ///
    /// A field that cannot be.
    pub async fn would_narrow(&self, draft: PolicyDraft, long_running_ms: u64) -> Result<Narrowing, PublishError> {
        let policy = draft.check()?;
        let mut found = Narrowing::default();
        let all = self.all();
        for (number, live) in all.values().enumerate() {
            if number % SLICE == SLICE - 1 {
                tokio::task::yield_now().await;
            }
            let endpoint = &live.endpoint;
            if endpoint.owner == Owner::Platform {
                continue;
            }
            let then = limits_in_force(&endpoint.own_limits, &endpoint.owner, &policy.limits, &endpoint.limit_caps);
            let lowered: Vec<_> = TABLE.iter().filter(|row| then.get(row.name) < endpoint.limits.get(row.name)).collect();
            let is_stricter = policy.tier > endpoint.tier;
            if lowered.is_empty() && !is_stricter {
                continue;
            }
            lowered.iter().for_each(|row| *found.limits.entry(row.name).or_default() += 1);
            let ends = endpoint.long_running(long_running_ms) && then.wall_ms <= long_running_ms;
            found.long_running += u64::from(ends);
            found.tier += u64::from(is_stricter);
            found.endpoints += 1;
            if found.slugs.len() < NAMED {
                found.slugs.push(endpoint.slug.clone());
            }
        }
        Ok(found)
    }
}
