//! Makes the stored state visible: changes of other hosts, and commits whose result is unknown.
//!
//! Nothing here waits for the lock of changes, so changes of other hosts become visible even during a long change of this host. A task
//! that makes something visible holds the lock of showing from its read on.
//!
//! An unreadable record, for example from a later version, changes nothing that is visible. Calls continue with the previous state.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use tollhouse_account::builder::Builders;
use tollhouse_base::id::{BuilderId, EndpointId};
use tollhouse_capability::{Granted, secret::Secrets};
use tollhouse_replica::FollowedState;
use tollhouse_store::{CommittedChange, StoreError};
use tollhouse_tool::Endpoint;

use super::{
    Catalog, LiveEndpoint, POLICY, PublishError,
    change::schemas_differ,
    entry::{CARDS, ENDPOINTS},
    granted,
};

/// Cards per page.
const CARDS_AT_ONCE: usize = 1_000;

/// Maximum attempts to show an endpoint that a call loads at the same time.
const MAX_ATTEMPTS: usize = 8;

#[async_trait]
impl FollowedState for Catalog {
    async fn apply(&self, changes: &[CommittedChange]) -> Result<(), StoreError> {
        if changes.iter().any(|change| POLICY.changed(change).next().is_some()) {
            self.follow_policy().await?;
        }
        for builder in changes.iter().flat_map(Builders::changed).collect::<BTreeSet<_>>() {
            self.parts.builders.note_change();
            self.follow_builder(&builder).await?;
        }
        for slug in changes.iter().flat_map(|change| ENDPOINTS.changed(change)).collect::<BTreeSet<_>>() {
            self.follow_endpoint(&slug).await?;
        }
        for endpoint in changes.iter().flat_map(Secrets::changed).collect::<BTreeSet<_>>() {
            self.parts.services.secrets.refresh(&endpoint).await?;
            // A call may have read the secrets again, and a worker may hold an old value.
            self.retire_workers(&endpoint);
        }
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        self.follow_policy().await?;
        self.parts.builders.note_change();
        let decided = self.parts.builders.standing().await?;
        let builders: BTreeSet<_> = decided.keys().chain(self.builder_standing.load().keys()).cloned().collect();
        for builder in builders {
            self.follow_builder(&builder).await?;
        }
        self.follow_all().await?;
        let with_workers = self.ready.all().into_iter().map(|live| live.endpoint.id.clone()).collect();
        for endpoint in self.parts.services.secrets.refresh_all(with_workers).await? {
            self.retire_workers(&endpoint);
        }
        Ok(())
    }
}

impl Catalog {
    /// Puts the stored policy in force.
    pub(super) async fn follow_policy(&self) -> Result<(), StoreError> {
        let _shown = self.showing.lock().await;
        let found = POLICY.found(&*self.store, &()).await?;
        let stored = match found.map(|found| POLICY.read(found)).transpose() {
            Ok(row) => row.map(|row| row.value).unwrap_or_default(),
            Err(error) => {
                tracing::error!(%error, "the stored policy is unreadable; the previous one stays in force");
                return Ok(());
            }
        };
        if *self.policy() != stored {
            self.policy.store(Arc::new(stored));
            self.narrow_cached();
        }
        Ok(())
    }

    pub(super) async fn follow_builder(&self, id: &BuilderId) -> Result<(), StoreError> {
        let _shown = self.showing.lock().await;
        if let Some(builder) = self.parts.builders.get(id).await? {
            self.apply_builder(&builder).await;
        }
        Ok(())
    }

    /// Makes the stored state of an endpoint visible.
    pub(super) async fn follow_endpoint(&self, slug: &str) -> Result<(), StoreError> {
        let _shown = self.showing.lock().await;
        match self.read_stored(slug).await? {
            Ok(stored) => self.show_stored(slug, stored.as_ref()),
            Err(error) => {
                skip_unreadable(slug, &error.into());
                Ok(())
            }
        }
    }

    /// Reads the record of an endpoint. The inner error means that it is unreadable.
    async fn read_stored(&self, slug: &str) -> Result<Result<Option<Endpoint>, StoreError>, StoreError> {
        let found = ENDPOINTS.found(&*self.store, &slug.to_owned()).await?;
        Ok(found.map(|found| ENDPOINTS.read(found)).transpose().map(|row| row.map(|row| row.value)))
    }

    /// Returns whether an endpoint is as this host's commit left it. If not, makes the newer change of another host visible. The caller
    /// holds the lock for making changes visible, and has not made its own change visible yet.
    pub(super) async fn is_as_committed(&self, slug: &str, committed: Option<&Endpoint>) -> bool {
        if !self.store.is_shared() {
            return true;
        }
        // If it cannot be read, notifications about later changes are still to come.
        let Ok(Ok(stored)) = self.read_stored(slug).await else { return true };
        let known = |endpoint: &Endpoint| (endpoint.id.clone(), endpoint.revision);
        if stored.as_ref().map(known) == committed.map(known) {
            return true;
        }
        if let Err(error) = self.show_stored(slug, stored.as_ref()) {
            tracing::warn!(endpoint.slug = slug, %error, "another host's change could not be applied; its notification will apply it");
        }
        false
    }

    /// Makes the stored state of every endpoint visible, by the cards that have changed.
    async fn follow_all(&self) -> Result<(), StoreError> {
        let (before, mut range) = (self.all(), CARDS.all());
        let mut shown = before.values().peekable();
        while let Some(page) = CARDS.next(&*self.store, &mut range, CARDS_AT_ONCE).await? {
            for row in page {
                let row = row?;
                while let Some(removed) = shown.next_if(|entry| entry.slug.as_str() < row.key.as_str()) {
                    self.follow_endpoint(removed.slug.as_str()).await?;
                }
                let same = shown.next_if(|entry| entry.slug.as_str() == row.key);
                if same.is_none_or(|entry| !row.value.is_of(entry)) {
                    self.follow_endpoint(&row.key).await?;
                }
            }
        }
        for removed in shown {
            self.follow_endpoint(removed.slug.as_str()).await?;
        }
        Ok(())
    }

    /// Makes a stored endpoint visible. The caller has held the lock of showing since it was read.
    pub(super) fn show_stored(&self, slug: &str, stored: Option<&Endpoint>) -> Result<(), StoreError> {
        let Some(stored) = stored else {
            let ready = self.ready.get(slug);
            if self.all().get(slug).is_some() {
                self.show(|snapshot| snapshot.remove(slug));
                self.forget(slug);
                ready.iter().for_each(|removed| self.revoke(removed));
            }
            return Ok(());
        };
        for _ in 0..MAX_ATTEMPTS {
            match self.show_once(slug, stored) {
                Ok(true) => return Ok(()),
                // A call has loaded the old state meanwhile.
                Ok(false) => {}
                Err(error) => {
                    skip_unreadable(slug, &error);
                    return Ok(());
                }
            }
        }
        Err(StoreError::Contended)
    }

    /// Makes the stored state visible, in one attempt. Returns false if calls may not use it yet. An endpoint that is not cached is
    /// loaded by its first call, and so is the code of a new version, so nobody waits for a bucket here.
    fn show_once(&self, slug: &str, stored: &Endpoint) -> Result<bool, PublishError> {
        let ready = self.ready.get(slug).filter(|live| !live.is_of(stored));
        let made = match &ready {
            Some(before) => {
                let made = self.make_after(stored.clone(), before)?;
                Some((granted(&made.endpoint)?, Arc::new(made)))
            }
            None => stored.runs().map(|_| None)?,
        };
        if self.all().get(slug).is_none_or(|entry| !entry.is(&stored.id) || entry.revision != stored.revision) {
            self.show_entry(stored);
            self.shown_cache.remove(slug);
        }
        let Some((grants, live)) = made else { return Ok(self.ready.get(slug).is_none_or(|live| live.is_of(stored))) };
        live.grant.set(grants);
        self.put_live(&live);
        match ready {
            Some(before) if before.endpoint.id != live.endpoint.id => self.revoke(&before),
            Some(before) if before.endpoint.version != live.endpoint.version || schemas_differ(&before.endpoint, &live.endpoint) => {
                self.retire(&before);
            }
            Some(before) => self.leave_tier(&before.endpoint, &live.endpoint),
            None => {}
        }
        Ok(true)
    }

    /// Creates the stored endpoint to replace the visible one, with its grant, and its code if unchanged.
    fn make_after(&self, endpoint: Endpoint, shown: &LiveEndpoint) -> Result<LiveEndpoint, PublishError> {
        if endpoint.id != shown.endpoint.id {
            return self.make_live(endpoint, None, Arc::default());
        }
        let bundle = shown.bundle.clone().filter(|_| endpoint.version == shown.endpoint.version);
        self.make_live(endpoint, bundle, Arc::clone(&shown.grant))
    }

    /// Revokes the grant of a deleted endpoint, and ends its workers.
    fn revoke(&self, removed: &LiveEndpoint) {
        removed.grant.set(Granted::default());
        self.retire(removed);
    }

    /// Ends the workers of an endpoint, which may hold a value of its secrets.
    fn retire_workers(&self, endpoint: &EndpointId) {
        // An endpoint that is not cached has no workers.
        if let Some(live) = self.all().of_id(endpoint).and_then(|entry| self.ready.get(entry.slug.as_str())) {
            self.retire(&live);
        }
    }
}

fn skip_unreadable(slug: &str, error: &PublishError) {
    tracing::error!(endpoint.slug = slug, %error, "the record of a tool is unreadable; the previous state stays in force");
}
