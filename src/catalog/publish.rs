//! Publishing a new endpoint, shipping the host's own, and deleting.

use std::{path::Path, sync::Arc};

use serde_json::json;
use tollhouse_protocol::{Limits, Tier};

use super::{
    By, Catalog, Draft, Live, PublishError,
    commit::Change,
    entry::ENDPOINTS,
    safety::Report,
    scan::Upload,
    shipped,
    source::Laid,
    standing::{Reach, Standing},
    version::{Prepared, uses},
};
use crate::{
    base::{clock::Timestamp, id::EndpointId},
    capability::Granted,
    event::{Events, Kind},
    replica::Turn,
    store::{Batch, Durability, Ended, Table, schema},
    tool::{Capabilities, Endpoint, Owner, Review, Slug, Version, told},
};

/// Slug of a deleted endpoint → the share of who had it.
pub(super) const RETIRED_SLUGS: Table<String, String> = schema::RETIRED_SLUGS.holding();
pub(super) const RETIRED_OF: Table<(Ended<String>, String), ()> = schema::RETIRED_OF.holding();
const SHIPPED: Table<(), String> = schema::SHIPPED.holding();

/// Slugs of deleted endpoints of one builder: each stays with them, or with the admin.
pub(super) const MAX_RETIRED: usize = 1_000;

/// What a worker made of a draft, and what was found in it.
struct Readied<'a> {
    prepared: Prepared,
    report: Option<Report>,
    /// What the handler is kept by; `None` where nothing is kept of it.
    laid: Option<&'a mut Laid>,
}

impl Catalog {
    /// Publishes the shipped tools, or those in `folder`, if the catalogue was never filled before. Says so as long as it is this
    /// host's `turn` to do it.
    ///
    /// # Errors
    ///
    /// A tool that does not publish.
    pub async fn ship(&self, folder: Option<&Path>, turn: &Turn) -> Result<usize, PublishError> {
        if SHIPPED.get(&*self.store, &()).await?.is_some() {
            return Ok(0);
        }
        let drafts = shipped::drafts(folder).map_err(PublishError::Shipped)?;
        let count = drafts.len();
        for draft in drafts {
            let slug = draft.slug.clone();
            match self.create(draft, Owner::Platform, By::Host).await {
                // Published by a start that was cut off.
                Ok(_) | Err(PublishError::SlugTaken(_)) => {}
                Err(error) => return Err(PublishError::Shipped(format!("{slug}: {error}"))),
            }
        }
        let mut batch = SHIPPED.put(&(), &self.clock.now().to_string());
        turn.holds(&mut batch);
        batch.commit(&*self.store, Durability::Durable).await?;
        Ok(count)
    }

    /// Publishes a new endpoint of `owner`. What a builder may not take is left in
    /// `requestedCapabilities` and `requestedHosts`; content that the rules send to review is
    /// stored and answers no call.
    ///
    /// # Errors
    ///
    /// Every field that cannot be, a slug that is taken, a handler that does not load, content
    /// that is blocked, a builder who does not vouch for it or has too many endpoints.
    pub async fn create(&self, draft: Draft, owner: Owner, by: By) -> Result<Arc<Live>, PublishError> {
        let attested = draft.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted);
        if by == By::Builder && !attested {
            return Err(PublishError::AttestationRequired);
        }
        draft.check()?;
        self.payable(&draft.accepts)?;
        self.may_publish(&owner, by)?;
        self.room_for(&owner, by)?;
        self.free_slug(&draft.slug, &owner, by).await?;
        let (mut prepared, report) = self.ready(&draft, &owner, by).await?;
        let mut laid = self.lay(Some(&mut prepared), report.as_ref(), by).await?;
        let created = self.create_ready(draft, owner, by, Readied { prepared, report, laid: laid.as_mut() }).await;
        self.sources.settle(laid, &created).await;
        created
    }

    /// Publishes a new endpoint whose handler is ready.
    async fn create_ready(&self, draft: Draft, owner: Owner, by: By, ready: Readied<'_>) -> Result<Arc<Live>, PublishError> {
        let Readied { prepared, report, laid } = ready;
        let attested = draft.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted);
        // A worker may have taken its time: all that may have changed meanwhile is looked at again.
        let _one = self.changing.lock().await;
        self.may_publish(&owner, by)?;
        self.room_for(&owner, by)?;
        let mut rows = self.free_slug(&draft.slug, &owner, by).await?;
        let policy = self.policy();
        let now = self.clock.now();
        let mut endpoint = new(&draft, owner, draft.limits(&super::draft::ceilings(&policy.policy, by))?, now);
        let wish = Reach { capabilities: draft.capabilities, hosts: super::draft::hosts(&draft.allowed_hosts)? };
        let standing = Standing::default();
        let standing = if by == By::Builder { standing.asked(&wish, &policy.policy) } else { standing.set(&wish) };
        standing.put(&mut endpoint);
        endpoint.review.asked_since = endpoint.asks().then_some(now);
        endpoint.handler = prepared.handler.clone();
        let made = Version { by: Some(by.into()), via: draft.via, ..Version::new(prepared.version.clone(), now) };
        endpoint.run_version(made);
        endpoint.note(&draft.note);
        rows.append(self.claim(&endpoint, draft.handler.as_ref()).await?);
        if let Some(report) = report {
            let upload = Upload { handler: draft.handler.as_ref(), report, attested_at: attested.then_some(now), by };
            self.weigh(&mut endpoint, upload).await?;
        }
        let events = vec![(Kind::EndpointCreated, created(&endpoint, by))];
        self.put(Change { before: None, endpoint, bundle: prepared.bundle, rows, laid, events }).await
    }

    /// Makes the handler of a new endpoint ready, and scans all of it but what is the host's own: what may take long.
    async fn ready(&self, draft: &Draft, owner: &Owner, by: By) -> Result<(Prepared, Option<Report>), PublishError> {
        let _permit = self.permit(owner, by)?;
        self.bounded(owner, &draft.input_schema, &draft.output_schema).await?;
        let limits = draft.limits(&super::draft::ceilings(&self.policy().policy, by))?;
        let mut endpoint = new(draft, owner.clone(), limits, self.clock.now());
        let schemas = told(&endpoint.input_schema, &endpoint.output_schema);
        self.put_in_force(&mut endpoint);
        let prepared = self.prepare(&endpoint, draft.handler.as_ref(), schemas).await?;
        (endpoint.handler, endpoint.version) = (prepared.handler.clone(), prepared.version.clone());
        let report = if by == By::Host { None } else { Some(self.scan(&endpoint, draft.handler.as_ref()).await?) };
        self.promises_kept(endpoint, prepared.bundle.clone()).await?;
        Ok((prepared, report))
    }

    pub(super) fn room_for(&self, owner: &Owner, by: By) -> Result<(), PublishError> {
        let all = self.all();
        if all.len() >= self.max_endpoints {
            return Err(PublishError::Full(self.max_endpoints));
        }
        let most = self.policy().policy.max_endpoints_per_builder;
        if by == By::Builder && all.owned(owner) as u64 >= most { Err(PublishError::TooMany(most)) } else { Ok(()) }
    }

    /// What takes `slug` from those who had it before, who must be the same owner. A new one is for who has not deleted too many.
    pub(super) async fn free_slug(&self, slug: &Slug, owner: &Owner, by: By) -> Result<Batch, PublishError> {
        let retired = RETIRED_SLUGS.get(&*self.store, &slug.to_string()).await?;
        let anothers = retired.as_ref().is_some_and(|had| had != owner.share());
        if self.all().get(slug.as_str()).is_some() || (anothers && by == By::Builder) {
            return Err(PublishError::SlugTaken(slug.clone()));
        }
        let is_new = retired.is_none() && by == By::Builder;
        if is_new && RETIRED_OF.count(&*self.store, &RETIRED_OF.under(&of(owner)), MAX_RETIRED).await? >= MAX_RETIRED {
            return Err(PublishError::TooManyRetired(MAX_RETIRED));
        }
        let mut batch = Batch::new();
        batch.delete(&RETIRED_SLUGS, &slug.to_string()).delete(&RETIRED_OF, &(of(owner), slug.to_string()));
        if let Some(had) = retired {
            // An admin may give it to another.
            batch.delete(&RETIRED_OF, &(Ended(had), slug.to_string()));
        }
        Ok(batch)
    }

    /// Takes an endpoint out of the catalogue. Its receipts stay; what its handler kept in kv, files and
    /// logs goes. Its slug stays with its owner, or with the admin where something was held back, taken
    /// away or capped: deleting undoes no decision. There its sources stay too; else they go.
    ///
    /// # Errors
    ///
    /// [`PublishError::Unknown`] and the store's.
    pub async fn delete(&self, slug: &str, if_match: Option<u64>, by: By) -> Result<Arc<Live>, PublishError> {
        let _one = self.changing.lock().await;
        let before = self.at_revision(slug, if_match).await?;
        let old = Arc::clone(&before.live);
        let owner = &old.endpoint.owner;
        self.may_publish(owner, by)?;
        let event = self.events.event(Kind::EndpointDeleted, Some(&old.endpoint.slug), json!({ "id": old.endpoint.id, "by": by.as_str() }));
        let successor = slug_successor(&old.endpoint);
        let mut rows = if successor == owner { self.let_go(&old.endpoint, None).await? } else { Batch::new() };
        rows.append(uses(Some(&before.row.value), None));
        rows.remove(&ENDPOINTS, &before.row).put(&RETIRED_SLUGS, &slug.to_owned(), &successor.share().to_owned());
        rows.put(&RETIRED_OF, &(of(owner), slug.to_owned()), &());
        rows.append(Events::stored(owner, &event));
        self.commit(slug, rows, None).await?;
        self.show(|snapshot| snapshot.remove(slug));
        self.forget(slug);
        old.grant.set(Granted::default());
        self.events.announce(owner, event);
        self.pool.retire(old.endpoint.id.as_str(), &old.endpoint.version);
        self.services.forget(&old.endpoint.id).await?;
        Ok(old)
    }
}

pub(super) fn of(owner: &Owner) -> Ended<String> {
    Ended(owner.share().to_owned())
}

/// Who may have the slug of a deleted endpoint: its owner, unless an admin's decision would be undone by that.
fn slug_successor(endpoint: &Endpoint) -> &Owner {
    let review = &endpoint.review;
    let decided = review.taken_down.is_some() || review.hold.is_some() || review.refused;
    let withheld = endpoint.withheld_capabilities.any() || !endpoint.withheld_hosts.is_empty();
    let capped = !endpoint.limit_caps.is_empty() || endpoint.tier_cap != Tier::default();
    if decided || withheld || capped { &Owner::Platform } else { &endpoint.owner }
}

/// An endpoint as its draft says, before it is known what it may touch, what it runs and what is found in it.
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
        content_safety: None,
        review: Review::default(),
        decided_on: None,
        owner,
        owner_suspended: false,
        handler: crate::tool::Handler::Builtin,
        version: String::new(),
        versions: vec![],
        revision: 1,
        created_at: now,
        updated_at: now,
        slug: draft.slug.clone(),
    }
}

fn created(endpoint: &Endpoint, by: By) -> serde_json::Value {
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
