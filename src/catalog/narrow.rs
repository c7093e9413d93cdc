//! What a policy would take from endpoints that are there, were it in force: nothing is changed.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Serialize;
use tollhouse_protocol::limits::TABLE;
use tollhouse_tool::{Owner, Slug};

use super::{Catalog, PolicyDraft, PublishError, entry::Asked, limits::limits_in_force};

/// Endpoints that are looked at before others have a turn on the thread: about a millisecond where each asks for something of its own.
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

/// What becomes of all endpoints that ask for the same.
struct Lowered {
    asked: Asked,
    /// The limits that would be lower.
    limits: Vec<&'static str>,
    /// Whether they would stop being long-running.
    ends: bool,
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
        let (all, before) = (self.all(), self.policy());
        // Many ask for the same.
        let mut known: HashMap<Option<Arc<String>>, Lowered> = HashMap::new();
        for (number, entry) in all.values().enumerate() {
            if number % SLICE == SLICE - 1 {
                tokio::task::yield_now().await;
            }
            if *entry.owner == Owner::Platform {
                continue;
            }
            // What is lowered is the same for all builders.
            let Lowered { asked, limits: lowered, ends } = known.entry(entry.asked.clone()).or_insert_with(|| {
                let asked = entry.asked();
                let under = |ceilings| limits_in_force(&asked.own_limits, &entry.owner, ceilings, &asked.limit_caps);
                let (now, then) = (under(&before.policy.limits), under(&policy.limits));
                let lowered: Vec<_> = TABLE.iter().map(|row| row.name).filter(|name| then.get(name) < now.get(name)).collect();
                Lowered { asked, limits: lowered, ends: now.wall_ms > long_running_ms && then.wall_ms <= long_running_ms }
            });
            let is_stricter = policy.tier > self.tier_under(before.policy.tier, &entry.owner, asked.tier_cap);
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
