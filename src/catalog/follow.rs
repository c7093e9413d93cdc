//! What is stored, shown: as other hosts of the store have changed it, and after a commit that did not say how it ended.
//!
//! A record that does not read, as of a later version, changes nothing that is shown: calls go on by what was there before.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;

use super::{Catalog, ENDPOINTS, Live, POLICY, PublishError, change::schemas_differ, granted};
use crate::{
    account::builder::Builders,
    base::id::{BuilderId, EndpointId},
    capability::{Granted, secret::Secrets},
    replica::Followed,
    store::{Change, Direction, StoreError},
    tool::{Endpoint, Version},
};

/// Endpoints found in the store at once.
const SOME: usize = 256;

#[async_trait]
impl Followed for Catalog {
    async fn heed(&self, changes: &[Change]) -> Result<(), StoreError> {
        if changes.iter().any(|change| POLICY.changed(change).next().is_some()) {
            self.follow_policy().await?;
        }
        for builder in changes.iter().flat_map(Builders::changed).collect::<BTreeSet<_>>() {
            self.follow_builder(&builder).await?;
        }
        for slug in changes.iter().flat_map(|change| ENDPOINTS.changed(change)).collect::<BTreeSet<_>>() {
            self.follow_endpoint(&slug).await?;
        }
        for endpoint in changes.iter().flat_map(Secrets::changed).collect::<BTreeSet<_>>() {
            if self.services.secrets().refresh(&endpoint).await? {
                self.retire_workers(&endpoint);
            }
        }
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        self.follow_policy().await?;
        let judged = self.builders.judged().await?;
        let builders: BTreeSet<_> = judged.keys().chain(self.judged.load().keys()).cloned().collect();
        for builder in builders {
            self.follow_builder(&builder).await?;
        }
        let mut slugs: BTreeSet<_> = self.all().values().map(|live| live.endpoint.slug.to_string()).collect();
        let mut range = ENDPOINTS.all();
        loop {
            let page = ENDPOINTS.readable(&*self.store, &range, SOME, Direction::Forward).await?;
            let Some((last, _)) = page.last() else { break };
            range = range.after(last);
            slugs.extend(page.into_iter().map(|(slug, _)| slug));
        }
        for slug in slugs {
            self.follow_endpoint(&slug).await?;
        }
        for endpoint in self.services.secrets().refresh_all().await? {
            self.retire_workers(&endpoint);
        }
        Ok(())
    }
}

impl Catalog {
    async fn follow_policy(&self) -> Result<(), StoreError> {
        let _one = self.changing.lock().await;
        self.show_policy().await
    }

    async fn follow_builder(&self, id: &BuilderId) -> Result<(), StoreError> {
        let _one = self.changing.lock().await;
        if let Some(builder) = self.builders.get(id).await? {
            self.heed_builder(&builder).await;
        }
        Ok(())
    }

    pub(super) async fn follow_endpoint(&self, slug: &str) -> Result<(), StoreError> {
        let _one = self.changing.lock().await;
        self.refresh(slug).await
    }

    /// Puts the policy in force that is stored. For who holds the lock of changes, as all below.
    pub(super) async fn show_policy(&self) -> Result<(), StoreError> {
        let found = POLICY.found(&*self.store, &()).await?;
        let stored = match found.map(|found| POLICY.read(found)).transpose() {
            Ok(row) => row.map(|row| row.value).unwrap_or_default(),
            Err(error) => {
                tracing::error!(%error, "the policy does not read; the one before stays in force");
                return Ok(());
            }
        };
        if *self.policy() != stored {
            self.policy.store(Arc::new(stored));
            self.narrow_all().await;
        }
        Ok(())
    }

    /// Shows an endpoint as it is stored.
    pub(super) async fn refresh(&self, slug: &str) -> Result<(), StoreError> {
        let found = ENDPOINTS.found(&*self.store, &slug.to_owned()).await?;
        match found.map(|found| ENDPOINTS.read(found)).transpose() {
            Ok(row) => self.show_stored(slug, row.as_ref().map(|row| &row.value)).await,
            Err(error) => {
                passed_over(slug, &error.into());
                Ok(())
            }
        }
    }

    /// Shows an endpoint as it was read from the store.
    pub(super) async fn show_stored(&self, slug: &str, stored: Option<&Endpoint>) -> Result<(), StoreError> {
        let shown = self.find(slug);
        let stands = |endpoint: &Endpoint| (endpoint.id.clone(), endpoint.revision);
        if stored.map(stands) == shown.as_ref().map(|live| stands(&live.endpoint)) {
            return Ok(());
        }
        let Some(stored) = stored else {
            self.show(|snapshot| snapshot.remove(slug));
            shown.iter().for_each(|gone| self.let_loose(gone));
            return Ok(());
        };
        let made = match self.make_stored(stored.clone(), shown.as_deref()).await {
            Ok(made) => granted(&made.endpoint).map(|may_touch| (Arc::new(made), may_touch)),
            Err(error) => Err(error),
        };
        let (live, may_touch) = match made {
            Ok(made) => made,
            Err(PublishError::Store(error)) => return Err(error),
            Err(error) => {
                passed_over(slug, &error);
                return Ok(());
            }
        };
        live.grant.set(may_touch);
        self.show(|snapshot| snapshot.put(Arc::clone(&live)));
        match shown {
            Some(before) if before.endpoint.id != live.endpoint.id => self.let_loose(&before),
            Some(before) if before.endpoint.version != live.endpoint.version || schemas_differ(&before.endpoint, &live.endpoint) => {
                self.pool.retire(before.endpoint.id.as_str(), &before.endpoint.version);
            }
            Some(before) => self.leave_tier(&before.endpoint, &live.endpoint),
            None => {}
        }
        Ok(())
    }

    /// An endpoint as it is stored, made ready for calls: with the grant, and the code, of what is shown where that is the same.
    pub(super) async fn make_stored(&self, mut endpoint: Endpoint, shown: Option<&Live>) -> Result<Live, PublishError> {
        endpoint.run_version(Version::new(endpoint.version.clone(), endpoint.updated_at));
        let same = shown.filter(|live| live.endpoint.id == endpoint.id);
        let bundle = match same.filter(|live| live.endpoint.version == endpoint.version) {
            Some(live) => live.bundle.clone(),
            None => self.stored_bundle(&endpoint).await?,
        };
        self.make_live(endpoint, bundle, same.map_or_else(Arc::default, |live| Arc::clone(&live.grant)))
    }

    /// Ends what an endpoint that is there no more may touch, and its workers.
    fn let_loose(&self, gone: &Live) {
        gone.grant.set(Granted::default());
        self.pool.retire(gone.endpoint.id.as_str(), &gone.endpoint.version);
    }

    /// Ends the workers of an endpoint, which may have kept a value of its secrets.
    fn retire_workers(&self, endpoint: &EndpointId) {
        if let Some(live) = self.all().of_id(endpoint) {
            self.pool.retire(live.endpoint.id.as_str(), &live.endpoint.version);
        }
    }
}

fn passed_over(slug: &str, error: &PublishError) {
    tracing::error!(endpoint.slug = slug, %error, "an endpoint does not read; it stays as it was");
}
