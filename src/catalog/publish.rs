//! Publishing of new endpoints, and of the built-in tools.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_event::Kind;
use tollhouse_protocol::{Limits, Tier};
use tollhouse_replica::JobRun;
use tollhouse_store::{Durability, StoreError, Table, schema};
use tollhouse_tool::{Capabilities, Endpoint, Owner, Review, Version, worker_schemas};

use super::{
    Catalog, ChangedBy, Draft, LiveEndpoint, PublishError,
    commit::CatalogChange,
    entitlements::{AccessSet, Entitlements},
    safety::Report,
    scan::ScannedUpload,
    seed_tools,
    source::StagedVersion,
    version::PreparedHandler,
};

const SHIPPED: Table<(), String> = schema::SHIPPED.holding();

/// Maximum attempts to add an endpoint that conflicts with other changes of its owner's endpoints.
const TRIES: usize = 8;

/// A checked and scanned draft.
struct CheckedDraft<'a> {
    prepared: &'a PreparedHandler,
    report: Option<&'a Report>,
    /// The stored handler. `None` if nothing is stored.
    staged: Option<&'a mut StagedVersion>,
}

impl Catalog {
    /// Publishes the built-in tools, or those in `folder`, unless the catalog was filled before.
    /// Records that as long as it is this host's `turn`.
    ///
    /// # Errors
    ///
    /// A tool cannot be published.
    pub async fn ship(&self, folder: Option<&Path>, turn: &JobRun) -> Result<usize, PublishError> {
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
        let mut batch = SHIPPED.put(&(), &self.clock.now().to_string());
        turn.holds(&mut batch);
        batch.commit(&*self.store, Durability::Durable).await?;
        Ok(count)
    }

    /// Publishes a new endpoint of `owner`. What a builder may not have without approval goes to
    /// `requestedCapabilities` and `requestedHosts`. Content that the rules send to review is
    /// stored, but answers no calls.
    ///
    /// # Errors
    ///
    /// An invalid field, a slug that is taken, a handler that does not load, blocked content, a
    /// missing attestation, or too many endpoints.
    pub async fn create(&self, draft: Draft, owner: Owner, by: ChangedBy) -> Result<Arc<LiveEndpoint>, PublishError> {
        let attested = draft.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted);
        if by == ChangedBy::Builder && !attested {
            return Err(PublishError::AttestationRequired);
        }
        draft.check()?;
        self.payable(&draft.accepts)?;
        self.known_to_all(draft.settle).await?;
        self.may_publish(&owner, by)?;
        self.room_for(&owner, by)?;
        self.free_slug(&draft.slug, &owner, by).await?;
        let (mut prepared, report) = self.ready(&draft, &owner, by).await?;
        let mut staged = self.lay(Some(&mut prepared), report.as_ref(), by).await?;
        let mut tries = 0;
        let created = loop {
            let readied = CheckedDraft { prepared: &prepared, report: report.as_ref(), staged: staged.as_mut() };
            let created = self.create_ready(&draft, &owner, by, readied).await;
            tries += 1;
            // Another host has added or removed an endpoint of the owner, or stored or removed the
            // same version, at the same time.
            match created {
                Err(PublishError::Store(StoreError::Conflict)) if tries < TRIES => {}
                created => break created,
            }
        };
        self.sources.settle(staged, &created).await;
        created
    }

    /// Publishes a new endpoint whose handler is ready.
    async fn create_ready(
        &self,
        draft: &Draft,
        owner: &Owner,
        by: ChangedBy,
        ready: CheckedDraft<'_>,
    ) -> Result<Arc<LiveEndpoint>, PublishError> {
        let CheckedDraft { prepared, report, staged } = ready;
        let attested = draft.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted);
        // The worker may have taken long, so everything that may have changed is checked again.
        let _one = self.changing.lock().await;
        self.may_publish(owner, by)?;
        self.room_for(owner, by)?;
        let mut rows = self.free_slug(&draft.slug, owner, by).await?;
        rows.append(self.one_more(owner, by).await?);
        let policy = self.policy();
        let now = self.clock.now();
        let mut endpoint = new(draft, owner.clone(), draft.limits(&super::draft::ceilings(&policy.policy, by))?, now);
        let wish = AccessSet { capabilities: draft.capabilities, hosts: super::draft::hosts(&draft.allowed_hosts)? };
        let standing = Entitlements::default();
        let standing = if by == ChangedBy::Builder { standing.asked(&wish, &policy.policy) } else { standing.set(&wish) };
        standing.put(&mut endpoint);
        endpoint.review.asked_since = endpoint.asks().then_some(now);
        endpoint.handler = prepared.handler.clone();
        let made = Version { by: Some(by.into()), via: draft.via, ..Version::new(prepared.version.clone(), now) };
        endpoint.run_version(made);
        endpoint.note(&draft.note);
        rows.append(self.claim(&endpoint, draft.handler.as_ref()).await?);
        if let Some(report) = report {
            let upload =
                ScannedUpload { handler: draft.handler.as_ref(), report: report.clone(), attested_at: attested.then_some(now), by };
            self.weigh_findings(&mut endpoint, upload).await?;
        }
        let events = vec![(Kind::EndpointCreated, created(&endpoint, by))];
        let bundle = prepared.bundle.clone();
        self.put(CatalogChange { before: None, endpoint, bundle, rows, staged, events }).await
    }

    /// Prepares the handler of a new endpoint, and scans everything except the host's own tools.
    /// Both may take long.
    async fn ready(&self, draft: &Draft, owner: &Owner, by: ChangedBy) -> Result<(PreparedHandler, Option<Report>), PublishError> {
        let _permit = self.permit(owner, by)?;
        self.bounded(owner, &draft.input_schema, &draft.output_schema).await?;
        let limits = draft.limits(&super::draft::ceilings(&self.policy().policy, by))?;
        let mut endpoint = new(draft, owner.clone(), limits, self.clock.now());
        let schemas = worker_schemas(&endpoint.input_schema, &endpoint.output_schema);
        self.apply_policy(&mut endpoint);
        let prepared = self.prepare(&endpoint, draft.handler.as_ref(), schemas).await?;
        (endpoint.handler, endpoint.version) = (prepared.handler.clone(), prepared.version.clone());
        let report = if by == ChangedBy::Host { None } else { Some(self.scan(&endpoint, draft.handler.as_ref()).await?) };
        self.check_promises(endpoint, prepared.bundle.clone()).await?;
        Ok((prepared, report))
    }

    pub(super) fn room_for(&self, owner: &Owner, by: ChangedBy) -> Result<(), PublishError> {
        let all = self.all();
        if all.len() >= self.max_endpoints {
            return Err(PublishError::Full(self.max_endpoints));
        }
        let max = self.policy().policy.max_endpoints_per_builder;
        if by == ChangedBy::Builder && all.owned(owner) as u64 >= max { Err(PublishError::TooMany(max)) } else { Ok(()) }
    }
}

/// Creates the endpoint of a draft, before capabilities, handler and scan result are set.
pub(super) fn new(draft: &Draft, owner: Owner, limits: Limits, now: Timestamp) -> Endpoint {
    Endpoint {
        id: EndpointId::generate(),
        title: draft.title.clone(),
        description: draft.description.clone(),
        status: draft.status,
        price_usd: draft.price_usd,
        max_price_usd: draft.max_price_usd,
        handler_type: draft.handler_type,
        tags: draft.tags.clone(),
        input_schema: Arc::clone(&draft.input_schema),
        output_schema: Arc::clone(&draft.output_schema),
        capabilities: Capabilities::default(),
        requested_capabilities: Capabilities::default(),
        withheld_capabilities: Capabilities::default(),
        allowed_hosts: vec![],
        requested_hosts: vec![],
        withheld_hosts: vec![],
        limits,
        own_limits: limits,
        limit_caps: Default::default(),
        tier: Tier::default(),
        tier_cap: Tier::default(),
        isolation: draft.isolation,
        accepts: draft.accepts.clone(),
        settle: draft.settle,
        content_safety: None,
        review: Review::default(),
        decided_on: None,
        owner,
        owner_suspended: false,
        handler: tollhouse_tool::Handler::Builtin,
        version: String::new(),
        versions: vec![],
        revision: 1,
        created_at: now,
        updated_at: now,
        slug: draft.slug.clone(),
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
