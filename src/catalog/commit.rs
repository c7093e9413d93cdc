//! Changes of one endpoint: read from the store, committed with their events, then made visible.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_event::{Events, Kind};
use tollhouse_protocol::Bundle;
use tollhouse_store::{Batch, Durability, Row, StoreError};
use tollhouse_tool::{Availability, Endpoint};

use super::{
    Catalog, ChangedBy, LiveEndpoint, PublishError,
    entitlements::Entitlements,
    entry::{Card, ENDPOINTS},
    granted,
    source::StagedVersion,
    version::uses,
};

/// Maximum attempts of a commit if another host stores or removes the same version at the same
/// time.
const MAX_ATTEMPTS: usize = 3;

/// An endpoint in memory with its stored row.
pub(super) struct StoredEndpoint {
    pub(super) live: Arc<LiveEndpoint>,
    pub(super) row: Row<String, Endpoint>,
}

/// A change to commit.
pub(super) struct CatalogChange<'a> {
    /// `None` for a new endpoint.
    pub(super) before: Option<&'a StoredEndpoint>,
    pub(super) endpoint: Endpoint,
    pub(super) bundle: Option<Arc<Bundle>>,
    /// Rows to commit with it.
    pub(super) rows: Batch,
    /// The version to store with it, if it is a new one.
    pub(super) staged: Option<&'a mut StagedVersion>,
    pub(super) events: Vec<(Kind, Value)>,
}

impl Catalog {
    /// Reads the stored endpoint if its revision is `if_match`, or without `if_match`, the revision
    /// that was visible here. A change based on it is committed only if that is still current.
    pub(super) async fn at_revision(&self, slug: &str, if_match: Option<u64>) -> Result<StoredEndpoint, PublishError> {
        let _shown = self.showing.lock().await;
        let unknown = || PublishError::Unknown(slug.to_owned());
        let seen = if_match.or_else(|| self.all().get(slug).map(|entry| entry.revision));
        let row = ENDPOINTS.row(&*self.store, &slug.to_owned()).await?;
        // Another host may have changed it since, or a commit may not have reported its success.
        self.show_stored(slug, row.as_ref().map(|row| &row.value))?;
        let row = row.ok_or_else(unknown)?;
        let live = self.live_from_memory(&row.value)?;
        let stored = row.value.revision;
        if seen.is_some_and(|seen| seen != stored) || live.endpoint.revision != stored {
            return Err(PublishError::Changed(stored));
        }
        Ok(StoredEndpoint { live, row })
    }

    /// Reads the stored endpoint for readers, with its source if that can be read.
    pub(super) async fn read_at(&self, slug: &str, if_match: Option<u64>) -> Result<StoredEndpoint, PublishError> {
        let _ready = self.find(slug).await;
        self.at_revision(slug, if_match).await
    }

    /// Returns the stored endpoint for calls. If no call has used it yet, it lacks its source.
    /// Holding it back does not need the source, and fetching it from a bucket may take long.
    fn live_from_memory(&self, stored: &Endpoint) -> Result<Arc<LiveEndpoint>, PublishError> {
        if let Some(live) = self.ready.get(stored.slug.as_str()) {
            return Ok(live);
        }
        let made = Arc::new(self.make_live(stored.clone(), None, Arc::default())?);
        made.grant.set(granted(&made.endpoint)?);
        // A call that arrives meanwhile already has its grant.
        let (live, removed) = self.ready.keep(&stored.slug, Arc::clone(&made), || true).unwrap_or_else(|| (made, Vec::new()));
        self.evict(&removed);
        Ok(live)
    }

    /// Commits a change and makes it visible. The caller must hold the lock of changes, and have
    /// used a worker before.
    pub(super) async fn put(&self, change: CatalogChange<'_>) -> Result<Arc<LiveEndpoint>, PublishError> {
        let CatalogChange { before, endpoint, bundle, mut rows, staged, events } = change;
        rows.append(uses(before.map(|before| &before.row.value), Some(&endpoint)));
        rows.append(self.schedule_rows(before.map(|before| &before.row.value), Some(&endpoint)).await?);
        match before {
            Some(before) => {
                rows.replace(&ENDPOINTS, &before.row, &endpoint);
                rows.append(self.unreference(&before.live.endpoint, Some(&endpoint)).await?);
            }
            None => _ = rows.insert(&ENDPOINTS, &endpoint.slug.to_string(), &endpoint),
        }
        let owner = endpoint.owner.clone();
        let events: Vec<_> = events.into_iter().map(|(kind, data)| self.parts.events.event(kind, Some(&endpoint.slug), data)).collect();
        events.iter().for_each(|event| _ = rows.append(Events::stored(&owner, event)));
        // Created before the commit, because a change that cannot be made visible must not be
        // stored.
        let grant = before.map_or_else(Arc::default, |before| Arc::clone(&before.live.grant));
        let live = Arc::new(self.make_live(endpoint, bundle, Arc::clone(&grant))?);
        let (slug, grants) = (live.endpoint.slug.as_str(), granted(&live.endpoint)?);
        self.commit(slug, rows, staged).await?;
        {
            let _shown = self.showing.lock().await;
            if self.is_as_committed(slug, Some(&live.endpoint)).await {
                grant.set(grants);
                self.put_live(&live);
                self.show_entry(&live.endpoint);
            }
        }
        for event in events {
            self.parts.events.announce(&owner, event);
        }
        Ok(live)
    }

    /// Updates the entry of an endpoint in lists and search.
    pub(super) fn show_entry(&self, endpoint: &Endpoint) {
        let (card, slug) = (Card::of(endpoint), endpoint.slug.clone());
        let entry = card.entry(slug.clone(), self.builder_standing(&endpoint.owner).suspended);
        self.show(|snapshot| snapshot.put(entry, Some(&card.text(slug.as_str()))));
    }

    /// Commits a change of one endpoint and its version. If it failed, or the result is unknown,
    /// makes the stored state visible.
    pub(super) async fn commit(&self, slug: &str, rows: Batch, staged: Option<&mut StagedVersion>) -> Result<(), PublishError> {
        let before = self.all().get(slug).map(|entry| entry.revision);
        let Err(error) = self.commit_rows(rows, staged).await else { return Ok(()) };
        if let Err(error) = self.follow_endpoint(slug).await {
            tracing::warn!(endpoint.slug = slug, %error, "the result of a change could not be read; the next change reads it again");
        }
        // Another host was faster.
        Err(match (error, self.all().get(slug)) {
            // The conflict was not about this endpoint.
            (StoreError::Conflict, Some(entry)) if before == Some(entry.revision) => StoreError::Conflict.into(),
            (StoreError::Conflict, Some(entry)) if before.is_some() => PublishError::Changed(entry.revision),
            (StoreError::Conflict, Some(entry)) => PublishError::SlugTaken(entry.slug.clone()),
            (StoreError::Conflict, None) if before.is_some() => PublishError::Unknown(slug.to_owned()),
            (error, _) => error.into(),
        })
    }

    async fn commit_rows(&self, rows: Batch, staged: Option<&mut StagedVersion>) -> Result<(), StoreError> {
        let Some(staged) = staged else { return rows.commit(&*self.store, Durability::Durable).await.map(drop) };
        for _ in 1..MAX_ATTEMPTS {
            let all = rows.clone().and(self.store_version(staged).await?);
            match all.commit(&*self.store, Durability::Durable).await {
                Err(StoreError::Conflict) => {}
                done => return done.map(drop),
            }
        }
        rows.and(self.store_version(staged).await?).commit(&*self.store, Durability::Durable).await.map(drop)
    }
}

/// Returns the events for changed capabilities and availability from `old` to `new`.
pub(super) fn transitions(old: &Endpoint, new: &Endpoint, by: ChangedBy, reason: Option<&str>) -> Vec<(Kind, Value)> {
    let (had, has) = (Entitlements::of(old).granted, Entitlements::of(new).granted);
    let mut events = Vec::new();
    for (kind, changed) in [(Kind::CapabilityGranted, has.without(&had)), (Kind::CapabilityRevoked, had.without(&has))] {
        if !changed.is_empty() {
            let names: Vec<_> = changed.capabilities.names().collect();
            events.push((kind, json!({ "capabilities": names, "hosts": changed.hosts, "by": by.as_str(), "reason": reason })));
        }
    }
    let active = |endpoint: &Endpoint| endpoint.availability() == Availability::Active;
    let data = json!({ "why": new.availability(), "by": by.as_str(), "reason": reason });
    match (active(old), active(new)) {
        (true, false) => events.push((Kind::EndpointPaused, data)),
        (false, true) => events.push((Kind::EndpointResumed, data)),
        (true, true) | (false, false) => {}
    }
    events
}
