//! Publishing of new endpoints, and of the built-in tools.

use std::{path::Path, sync::Arc};
use tollhouse_base::boxed;

use serde_json::json;
use tollhouse_event::Kind;
use tollhouse_replica::JobRun;
use tollhouse_store::{Durability, StoreError, Table, schema};
use tollhouse_tool::{Capabilities, Endpoint, Owner, Version};

use super::{
    Catalog, ChangedBy, Draft, LiveEndpoint, PublishError,
    commit::CatalogChange,
    draft,
    examine::{DraftUpload, ExaminedUpload, Problems},
    scan::ScannedUpload,
    seed_tools,
    source::StagedVersion,
};

const SHIPPED: Table<(), String> = schema::SHIPPED.holding();

/// Maximum attempts to add an endpoint that conflicts with other changes of its owner's endpoints.
const MAX_ATTEMPTS: usize = 8;

impl Catalog {
    /// Publishes the built-in tools, or those in `folder`, unless the catalog was filled before.
    /// Records that as long as it is this host's `turn`.
    #[boxed]
    pub async fn publish_seed_tools(&self, folder: Option<&Path>, turn: &JobRun) -> Result<usize, PublishError> {
        if SHIPPED.get(&*self.store, &()).await?.is_some() {
            return Ok(0);
        }
        let drafts = seed_tools::drafts(folder).map_err(PublishError::Shipped)?;
        let count = drafts.len();
        for draft in drafts {
            let slug = draft.slug.clone();
            match self.create(draft, Owner::Platform, ChangedBy::Host).await {
                // Published by an interrupted start.
                Ok(_) | Err(PublishError::SlugTaken(_)) => {}
                Err(error) => return Err(PublishError::Shipped(format!("{slug}: {error}"))),
            }
        }
        let mut batch = SHIPPED.put(&(), &self.parts.clock.now().to_string());
        turn.holds(&mut batch);
        batch.commit(&*self.store, Durability::Durable).await?;
        Ok(count)
    }

    /// Publishes a new endpoint of `owner`. Capabilities and hosts that need approval go to
    /// `requestedCapabilities` and `requestedHosts`. Content that the rules send to review is
    /// stored, but answers no calls.
    ///
    /// # Errors
    ///
    /// An invalid field, a slug that is taken, a handler that does not load, blocked content, a
    /// missing attestation, or too many endpoints.
    #[boxed]
    pub async fn create(&self, draft: Draft, owner: Owner, by: ChangedBy) -> Result<Arc<LiveEndpoint>, PublishError> {
        let upload = DraftUpload { draft: &draft, owner: &owner, by, existing: None, has_slug: true, has_handler: true };
        let mut examined = {
            let _permit = self.permit(&owner, by)?;
            self.examine(&upload, &mut Problems::first_only()).await?
        };
        let mut staged = self.stage(examined.prepared.as_mut(), examined.report.as_ref(), by).await?;
        let mut tries = 0;
        let created = loop {
            let created = self.create_once(&upload, &examined, staged.as_mut()).await;
            tries += 1;
            // Another host has added or removed an endpoint of the owner, or stored or removed the
            // same version, at the same time.
            match created {
                Err(PublishError::Store(StoreError::Conflict)) if tries < MAX_ATTEMPTS => {}
                created => break created,
            }
        };
        self.sources.settle(staged, &created).await;
        created
    }

    /// Publishes an examined upload, in one attempt.
    async fn create_once(
        &self,
        upload: &DraftUpload<'_>,
        examined: &ExaminedUpload,
        staged: Option<&mut StagedVersion>,
    ) -> Result<Arc<LiveEndpoint>, PublishError> {
        let DraftUpload { draft, owner, by, .. } = *upload;
        // The examination may have taken long, so everything that may have changed is checked again.
        let _one = self.changing.lock().await;
        self.may_publish(owner, by)?;
        self.room_for(owner, by)?;
        let mut rows = self.claim_slug(&draft.slug, owner, by).await?;
        rows.append(self.count_added(owner, by).await?);
        draft.limits(&draft::ceilings(&self.policy().policy, by))?;
        let now = self.parts.clock.now();
        let mut endpoint = self.endpoint_of(upload, now);
        endpoint.review.asked_since = endpoint.asks().then_some(now);
        endpoint.handler = examined.endpoint.handler.clone();
        endpoint.run_version(Version { via: draft.via, ..Version::new(examined.endpoint.version.clone(), now, by.into()) });
        endpoint.note(&draft.note);
        let handler = draft.handler.as_ref();
        rows.append(self.claim(&endpoint, handler).await?);
        if let Some(report) = &examined.report {
            let attested_at = draft.is_attested().then_some(now);
            self.apply_findings(&mut endpoint, ScannedUpload { handler, report: report.clone(), attested_at, by }).await?;
        }
        let events = vec![(Kind::EndpointCreated, created(&endpoint, by))];
        let bundle = examined.prepared.as_ref().and_then(|prepared| prepared.bundle.clone());
        self.put(CatalogChange { before: None, endpoint, bundle, rows, staged, events }).await
    }

    pub(super) fn room_for(&self, owner: &Owner, by: ChangedBy) -> Result<(), PublishError> {
        let all = self.all();
        if all.len() >= self.parts.room.max_endpoints {
            return Err(PublishError::Full(self.parts.room.max_endpoints));
        }
        let max = self.policy().policy.max_endpoints_per_builder;
        if by == ChangedBy::Builder && all.owned(owner) as u64 >= max { Err(PublishError::TooMany(max)) } else { Ok(()) }
    }
}

fn created(endpoint: &Endpoint, by: ChangedBy) -> serde_json::Value {
    let names = |capabilities: Capabilities| capabilities.names().collect::<Vec<_>>();
    json!({
        "version": endpoint.version,
        "capabilities": names(endpoint.capabilities),
        "requestedCapabilities": names(endpoint.requested_capabilities),
        "hosts": endpoint.allowed_hosts,
        "requestedHosts": endpoint.requested_hosts,
        "outcome": endpoint.content_safety.as_ref().map(|safety| safety.outcome),
        "by": by.as_str(),
    })
}
