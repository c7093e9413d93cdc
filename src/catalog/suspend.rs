//! Suspending builders: their endpoints take no calls, whatever their own state is, and come back in that state.

use std::{collections::HashSet, sync::Arc};

use serde_json::json;

use super::{By, Catalog, Live, PublishError, granted};
use crate::{
    account::builder::{self, Builder, BuilderError, Builders},
    base::id::BuilderId,
    event::{Events, Kind},
    tool::Owner,
};

/// Endpoints that are made anew before others have a turn on the thread: about a millisecond.
const SLICE: usize = 200;

impl Catalog {
    /// Carries out an admin's decision about a builder. Changes of endpoints wait for it, and see it.
    ///
    /// # Errors
    ///
    /// Those of [`Builders::judge`].
    pub async fn judge(&self, builders: &Builders, id: &BuilderId, verdict: &builder::Verdict) -> Result<Builder, BuilderError> {
        let _one = self.changing.lock().await;
        let owner = Owner::Builder(id.clone());
        let kind = match verdict.decision {
            builder::Decision::Suspend => Kind::BuilderSuspended,
            builder::Decision::Restore => Kind::BuilderRestored,
        };
        let event = self.events.event(kind, None, json!({ "reason": verdict.reason }));
        let judged = builders.judge(id, verdict, Events::stored(&owner, &event)).await;
        // Also after an error: the store may have taken it all the same.
        if let Some(builder) = builders.get(id).await? {
            self.heed(&builder).await;
        }
        let builder = judged?;
        self.events.announce(&owner, event);
        Ok(builder)
    }

    /// Makes what is shown agree with a builder's record.
    async fn heed(&self, builder: &Builder) {
        let mut suspended = HashSet::clone(&self.suspended.load());
        let changed = match builder.suspended {
            Some(_) => suspended.insert(builder.id.clone()),
            None => suspended.remove(&builder.id),
        };
        if !changed {
            return;
        }
        self.suspended.store(Arc::new(suspended));
        let all = self.all();
        let mut made = Vec::new();
        for (number, live) in all.values().enumerate() {
            if number % SLICE == SLICE - 1 {
                tokio::task::yield_now().await;
            }
            if !matches!(&live.endpoint.owner, Owner::Builder(id) if *id == builder.id) {
                continue;
            }
            match self.remade(live) {
                Ok(live) => made.push(Arc::new(live)),
                Err(error) => tracing::error!(%error, endpoint.slug = %live.endpoint.slug, "an endpoint could not be shown anew"),
            }
            if builder.suspended.is_some() {
                // Its workers may have kept values of its secrets.
                self.pool.retire(live.endpoint.id.as_str(), &live.endpoint.version);
            }
        }
        self.show(|snapshot| made.into_iter().for_each(|live| snapshot.put(live)));
    }

    /// The endpoint with its owner's standing as it is now, which running calls heed from here on.
    fn remade(&self, live: &Live) -> Result<Live, PublishError> {
        let made = self.made_again(live);
        made.grant.set(granted(&made.endpoint)?);
        Ok(made)
    }

    /// A builder who was suspended since they showed their key changes nothing more.
    pub(super) fn may_publish(&self, owner: &Owner, by: By) -> Result<(), PublishError> {
        match owner {
            Owner::Builder(id) if by == By::Builder && self.suspended.load().contains(id) => Err(PublishError::OwnerSuspended),
            Owner::Builder(_) | Owner::Platform => Ok(()),
        }
    }
}
