//! Effects of decisions about builders. While a builder is suspended, their endpoints accept no
//! calls whatever their own state, and return to that state afterwards. They run in the tier that
//! was set for the builder, or a stricter one.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use serde_json::json;
use tollhouse_account::builder::{Builder, BuilderDecision, BuilderError, BuilderStanding, BuilderVerdict};
use tollhouse_base::{boxed, id::BuilderId};
use tollhouse_event::{Events, Kind};
use tollhouse_tool::Owner;

use super::{Catalog, ChangedBy, Entry, PublishError, granted};

/// Endpoints updated per time slice of the thread: about a millisecond.
const SLICE: usize = 200;

impl Catalog {
    /// Carries out an admin's decision about a builder. Changes of endpoints wait for it.
    #[boxed]
    pub async fn decide_builder(&self, id: &BuilderId, verdict: &BuilderVerdict) -> Result<Builder, BuilderError> {
        let _one = self.changing.lock().await;
        let owner = Owner::Builder(id.clone());
        let kind = match verdict.decision {
            BuilderDecision::Suspend => Kind::BuilderSuspended,
            BuilderDecision::Restore => Kind::BuilderRestored,
            BuilderDecision::Tier => Kind::BuilderTierSet,
            BuilderDecision::Grant => Kind::BuilderHostsGranted,
            BuilderDecision::Revoke => Kind::BuilderHostsRevoked,
        };
        let mut data = json!({ "reason": verdict.reason });
        if let Some(tier) = verdict.tier {
            data["tier"] = json!(tier);
        }
        if !verdict.allowed_hosts.is_empty() {
            data["hosts"] = json!(verdict.allowed_hosts);
        }
        let event = self.parts.events.event(kind, None, data);
        let decided = self.parts.builders.set_standing(id, verdict, Events::stored(&owner, &event)).await;
        // Even after an error, because the store may have committed it.
        self.follow_builder(id).await?;
        let builder = decided?;
        self.parts.events.announce(&owner, event);
        Ok(builder)
    }

    /// Updates the visible state to a builder's record. The caller holds the lock of showing.
    pub(super) async fn apply_builder(&self, builder: &Builder) {
        let mut all = HashMap::clone(&self.builder_standing.load());
        let now = builder.standing();
        let before = if now == BuilderStanding::default() { all.remove(&builder.id) } else { all.insert(builder.id.clone(), now) };
        if before.unwrap_or_default() == now {
            return;
        }
        self.builder_standing.store(Arc::new(all));
        self.rebuild.fetch_add(1, Ordering::SeqCst);
        let (owner, all) = (Owner::Builder(builder.id.clone()), self.all());
        let owned: Vec<_> = all.of_owner(&owner, "").cloned().collect();
        for some in owned.chunks(SLICE) {
            self.show(|snapshot| {
                for entry in some {
                    let mut entry = Entry::clone(entry);
                    entry.suspend_owner(now.suspended);
                    snapshot.put(entry, None);
                }
            });
            tokio::task::yield_now().await;
        }
        self.shown_cache.clear();
        // Endpoints that are not cached have no running calls and no workers.
        for live in self.ready.all().iter().filter(|live| live.endpoint.owner == owner) {
            let rebuilt = Arc::new(self.rebuild(live));
            match granted(&rebuilt.endpoint) {
                Ok(grants) => {
                    // Running calls share the grant.
                    rebuilt.grant.set(grants);
                    self.put_live(&rebuilt);
                    self.leave_tier(&live.endpoint, &rebuilt.endpoint);
                }
                Err(error) => tracing::error!(%error, endpoint.slug = %live.endpoint.slug, "the `allowedHosts` of a tool are invalid"),
            }
            if builder.suspended.is_some() {
                // Workers of the tool may hold values of its secrets.
                self.retire(live);
            }
        }
        self.changed();
    }

    /// Checks that a builder may change endpoints. The builder may have been suspended since
    /// showing the key.
    pub(super) fn may_publish(&self, owner: &Owner, by: ChangedBy) -> Result<(), PublishError> {
        match owner {
            Owner::Builder(_) if by == ChangedBy::Builder && self.builder_standing(owner).suspended => Err(PublishError::OwnerSuspended),
            Owner::Builder(_) | Owner::Platform => Ok(()),
        }
    }
}
