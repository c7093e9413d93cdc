//! What happened to a builder's endpoints and money: the feed that builders read and follow.
//!
//! An event that tells of a change is written in the commit that makes the change ([`Events::write`]),
//! and announced to those who follow live once the commit has answered ([`Events::announce`]).

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::{
    clock::{Clock, Timestamp},
    id::EventId,
    store::{Durability, Space, Store, StoreError, Write},
    tool::{Owner, Slug},
};

/// Events that wait for a follower who is slow; it misses those beyond.
const FOLLOWED: usize = 1_024;

/// What an event tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    #[serde(rename = "endpoint.created")]
    EndpointCreated,
    #[serde(rename = "endpoint.updated")]
    EndpointUpdated,
    #[serde(rename = "endpoint.paused")]
    EndpointPaused,
    #[serde(rename = "endpoint.resumed")]
    EndpointResumed,
    #[serde(rename = "endpoint.deleted")]
    EndpointDeleted,
    #[serde(rename = "endpoint.reviewed")]
    EndpointReviewed,
    #[serde(rename = "capability.granted")]
    CapabilityGranted,
    #[serde(rename = "capability.revoked")]
    CapabilityRevoked,
    #[serde(rename = "call.succeeded")]
    CallSucceeded,
    #[serde(rename = "call.failed")]
    CallFailed,
    #[serde(rename = "payment.settled")]
    PaymentSettled,
    #[serde(rename = "payment.refused")]
    PaymentRefused,
    #[serde(rename = "secret.set")]
    SecretSet,
    #[serde(rename = "secret.removed")]
    SecretRemoved,
    #[serde(rename = "payout.created")]
    PayoutCreated,
    #[serde(rename = "payout.approved")]
    PayoutApproved,
    #[serde(rename = "payout.paid")]
    PayoutPaid,
    #[serde(rename = "payout.failed")]
    PayoutFailed,
    #[serde(rename = "builder.key_rotated")]
    BuilderKeyRotated,
}

/// One event, as its owner reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: EventId,
    pub kind: Kind,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_slug: Option<Slug>,
    /// Facts of the kind. Never a credential, a secret's value, an input or a result.
    pub data: Value,
}

/// An event and whose it is, as followers get it.
#[derive(Debug, Clone)]
pub struct Announced {
    pub owner: Owner,
    pub event: Arc<Event>,
}

/// The events of all owners.
pub struct Events {
    store: Arc<dyn Store>,
    clock: Clock,
    followers: broadcast::Sender<Announced>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, followers: broadcast::channel(FOLLOWED).0 }
    }

    /// An event of now.
    #[must_use]
    pub fn event(&self, kind: Kind, slug: Option<&Slug>, data: Value) -> Event {
        Event { id: EventId::generate(), kind, at: self.clock.now(), endpoint_slug: slug.cloned(), data }
    }

    /// The write that puts `event` into the feed of `owner`.
    #[must_use]
    pub fn write(owner: &Owner, event: &Event) -> Write {
        let value = serde_json::to_vec(event).expect("an event has text keys");
        Write::put(Space::Events, key(owner, event.at, event.id.as_str()), value)
    }

    /// Tells those who follow live. Call it after the commit.
    pub fn announce(&self, owner: &Owner, event: Event) {
        // Nobody may be following.
        _ = self.followers.send(Announced { owner: owner.clone(), event: Arc::new(event) });
    }

    /// Writes an event of its own, and announces it.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn record(&self, owner: &Owner, kind: Kind, slug: Option<&Slug>, data: Value) -> Result<(), StoreError> {
        let event = self.event(kind, slug, data);
        self.store.commit(vec![], vec![Self::write(owner, &event)], Durability::Buffered).await?;
        self.announce(owner, event);
        Ok(())
    }
}

/// `<owner>\0<time><id>`; no owner's name has a zero byte, so none is the start of another's.
fn key(owner: &Owner, at: Timestamp, id: &str) -> Vec<u8> {
    [owner.share().as_bytes(), &[0], &at.0.to_be_bytes(), id.as_bytes()].concat()
}
