//! A change of one endpoint: read as it is stored, committed with its events, then shown.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_protocol::Bundle;

use super::{By, Catalog, ENDPOINTS, Live, PublishError, granted, standing::Standing};
use crate::{
    event::{Events, Kind},
    store::{Batch, Durability, Row},
    tool::{Availability, Endpoint},
};

/// An endpoint as it is, and as it is stored.
pub(super) struct Before {
    pub(super) live: Arc<Live>,
    pub(super) row: Row<String, Endpoint>,
}

/// What is to be committed.
pub(super) struct Change<'a> {
    /// `None` for a new endpoint.
    pub(super) before: Option<&'a Before>,
    pub(super) endpoint: Endpoint,
    pub(super) bundle: Option<Arc<Bundle>>,
    /// What is committed with it.
    pub(super) rows: Batch,
    pub(super) events: Vec<(Kind, Value)>,
}

impl Catalog {
    /// The endpoint as it is stored now, if its revision is `if_match`.
    pub(super) async fn at_revision(&self, slug: &str, if_match: Option<u64>) -> Result<Before, PublishError> {
        let unknown = || PublishError::Unknown(slug.to_owned());
        let live = self.find(slug).ok_or_else(unknown)?;
        let row = ENDPOINTS.row(&*self.store, &slug.to_owned()).await?.ok_or_else(unknown)?;
        let stored = &row.value;
        let seen = if_match.unwrap_or(live.endpoint.revision);
        // Stored by another replica since it was shown here: its reader has not seen that.
        if seen != live.endpoint.revision || stored.revision != live.endpoint.revision {
            return Err(PublishError::Changed(stored.revision));
        }
        Ok(Before { live, row })
    }

    /// Commits a change and shows it. For who holds the lock of changes: a worker is asked before.
    pub(super) async fn put(&self, change: Change<'_>) -> Result<Arc<Live>, PublishError> {
        let Change { before, endpoint, bundle, mut rows, events } = change;
        match before {
            Some(before) => {
                rows.replace(&ENDPOINTS, &before.row, &endpoint);
                rows.append(self.let_go(&before.live.endpoint, Some(&endpoint)).await?);
            }
            None => _ = rows.insert(&ENDPOINTS, &endpoint.slug.to_string(), &endpoint),
        }
        let owner = endpoint.owner.clone();
        let events: Vec<_> = events.into_iter().map(|(kind, data)| self.events.event(kind, Some(&endpoint.slug), data)).collect();
        events.iter().for_each(|event| _ = rows.append(Events::stored(&owner, event)));
        // Made before the commit: what cannot be shown must not be stored.
        let grant = before.map_or_else(Arc::default, |before| Arc::clone(&before.live.grant));
        let live = Arc::new(self.make_live(endpoint, bundle, Arc::clone(&grant))?);
        let may_touch = granted(&live.endpoint)?;
        rows.commit(&*self.store, Durability::Durable).await?;
        grant.set(may_touch);
        self.show(|snapshot| snapshot.put(Arc::clone(&live)));
        for event in events {
            self.events.announce(&owner, event);
        }
        Ok(live)
    }
}

/// The events of what an endpoint may touch and whether it takes calls, from `old` to `new`.
pub(super) fn transitions(old: &Endpoint, new: &Endpoint, by: By, reason: Option<&str>) -> Vec<(Kind, Value)> {
    let (had, has) = (Standing::of(old).granted, Standing::of(new).granted);
    let mut events = Vec::new();
    for (kind, changed) in [(Kind::CapabilityGranted, has.without(&had)), (Kind::CapabilityRevoked, had.without(&has))] {
        if !changed.is_empty() {
            let names: Vec<_> = changed.capabilities.names().collect();
            events.push((kind, json!({ "capabilities": names, "hosts": changed.hosts, "by": by.as_str(), "reason": reason })));
        }
    }
    let active = |endpoint: &Endpoint| endpoint.availability() == Availability::Active;
    let data = json!({ "why": why(new.availability()), "by": by.as_str(), "reason": reason });
    match (active(old), active(new)) {
        (true, false) => events.push((Kind::EndpointPaused, data)),
        (false, true) => events.push((Kind::EndpointResumed, data)),
        (true, true) | (false, false) => {}
    }
    events
}

/// Why an endpoint takes calls or not, for events.
fn why(availability: Availability) -> &'static str {
    match availability {
        Availability::Active => "active",
        Availability::Paused => "paused",
        Availability::OwnerSuspended => "owner_suspended",
        Availability::UnderReview => "under_review",
        Availability::TakenDown => "taken_down",
    }
}
