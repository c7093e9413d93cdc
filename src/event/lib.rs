//! What happened to a builder's endpoints and money: the feed that builders read and follow.
//!
//! An event that tells of a change is written in the commit that makes the change ([`Events::stored`]),
//! and announced to those who follow live once the commit has answered ([`Events::announce`]). Events go
//! when they are too old or their owner has too many.

#![warn(missing_docs)]

pub mod feed;
mod keep;
mod place;
pub mod pull;
mod read;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EventId,
};
use tollhouse_store as store;
use tollhouse_store::{Batch, Durability, Ended, Store, StoreError, Table, schema};
use tollhouse_tool::{Owner, Slug};

pub use self::{
    place::EventPlace,
    read::{EventPage, EventQuery},
};
use crate::feed::{Crowded, Feed, Follower};

const EVENTS: Table<(Ended<String>, store::Place), Event> = schema::EVENTS.holding();
tollhouse_store::json_values!(Event);

/// How many events are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSettings {
    /// Events of one owner; older ones go. A tenth more, and those of a second, may be there until they are trimmed.
    /// Default: 100,000.
    pub count: u64,
    /// Age at which an event goes, in milliseconds. Default: 90 days.
    pub age_ms: u64,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self { count: 100_000, age_ms: 90 * 24 * 3_600 * 1_000 }
    }
}

/// What an event tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Something was published under a slug.
    #[serde(rename = "endpoint.created")]
    EndpointCreated,
    /// Its record or its handler changed.
    #[serde(rename = "endpoint.updated")]
    EndpointUpdated,
    /// It takes no more calls, by its owner or an admin.
    #[serde(rename = "endpoint.paused")]
    EndpointPaused,
    /// It takes calls again.
    #[serde(rename = "endpoint.resumed")]
    EndpointResumed,
    /// Its slug answers nobody.
    #[serde(rename = "endpoint.deleted")]
    EndpointDeleted,
    /// An admin decided about it.
    #[serde(rename = "endpoint.reviewed")]
    EndpointReviewed,
    /// An admin, or the policy, let it touch more.
    #[serde(rename = "capability.granted")]
    CapabilityGranted,
    /// An admin took something back.
    #[serde(rename = "capability.revoked")]
    CapabilityRevoked,
    /// A call was answered.
    #[serde(rename = "call.succeeded")]
    CallSucceeded,
    /// A call was not.
    #[serde(rename = "call.failed")]
    CallFailed,
    /// Money, or credit, was taken for a call.
    #[serde(rename = "payment.settled")]
    PaymentSettled,
    /// A payment was not taken.
    #[serde(rename = "payment.refused")]
    PaymentRefused,
    /// An admin gave back what a call cost, or a part of it.
    #[serde(rename = "payment.refunded")]
    PaymentRefunded,
    /// A reorganization of the chain took a settlement back, or its transaction is in a block again.
    #[serde(rename = "payment.reorganized")]
    PaymentReorganized,
    /// Nobody has said for long whether a payment was taken, and nobody is asked any more: an admin decides.
    #[serde(rename = "payment.unresolved")]
    PaymentUnresolved,
    /// A secret was set or replaced.
    #[serde(rename = "secret.set")]
    SecretSet,
    /// A secret was removed.
    #[serde(rename = "secret.removed")]
    SecretRemoved,
    /// A builder asked for what waits.
    #[serde(rename = "payout.created")]
    PayoutCreated,
    /// An admin approved a packet.
    #[serde(rename = "payout.approved")]
    PayoutApproved,
    /// An admin recorded its transaction.
    #[serde(rename = "payout.paid")]
    PayoutPaid,
    /// It was not paid: its receipts wait again.
    #[serde(rename = "payout.failed")]
    PayoutFailed,
    /// The key before it is worth nothing.
    #[serde(rename = "builder.key_rotated")]
    BuilderKeyRotated,
    /// By an admin.
    #[serde(rename = "builder.suspended")]
    BuilderSuspended,
    /// By an admin, who undid a suspension.
    #[serde(rename = "builder.restored")]
    BuilderRestored,
    /// By an admin: how the code of the builder's endpoints runs at the least.
    #[serde(rename = "builder.tier_set")]
    BuilderTierSet,
}

/// One event, as its owner reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Made of its time: ids of one owner are in order.
    pub id: EventId,
    /// What happened.
    pub kind: Kind,
    /// When it did.
    pub at: Timestamp,
    /// The endpoint that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_slug: Option<Slug>,
    /// Facts of the kind. Never a credential, a secret's value, an input or a result.
    pub data: Value,
}

/// The events of all owners.
pub struct Events {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: EventSettings,
    feed: Arc<Feed<Arc<Event>>>,
    /// Events in the store, of the owners who had some of late; `None` where they are not counted.
    counts: Mutex<HashMap<String, Option<u64>>>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Events of this store, kept as `settings` say.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: EventSettings) -> Self {
        let feed = Feed::of(&*store, &clock);
        Self { store, clock, settings, feed, counts: Mutex::default() }
    }

    /// What its clock says.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// An event of now.
    #[must_use]
    pub fn event(&self, kind: Kind, slug: Option<&Slug>, data: Value) -> Event {
        let at = self.clock.now();
        Event { id: EventId::of_time(at), kind, at, endpoint_slug: slug.cloned(), data }
    }

    /// What puts `event` into the feed of `owner`.
    #[must_use]
    pub fn stored(owner: &Owner, event: &Event) -> Batch {
        EVENTS.put(&(of(owner.share()), EventPlace::of(&event.id).0), event)
    }

    /// Tells those who follow live. Call it after the commit.
    pub fn announce(&self, owner: &Owner, event: Event) {
        self.count(owner.share());
        self.feed.publish(owner.share(), || Arc::new(event));
    }

    /// The events of `owner` from now on, as they are announced here, or as they come into the store that others share.
    ///
    /// # Errors
    ///
    /// [`Crowded`].
    pub fn follow(&self, owner: &Owner) -> Result<Follower<Arc<Event>>, Crowded> {
        self.feed.follow(owner.share())
    }

    /// Writes an event of its own, and announces it.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn record(&self, owner: &Owner, kind: Kind, slug: Option<&Slug>, data: Value) -> Result<(), StoreError> {
        let event = self.event(kind, slug, data);
        Self::stored(owner, &event).commit(&*self.store, Durability::Buffered).await?;
        self.announce(owner, event);
        Ok(())
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, Option<u64>>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the keys of an owner's events start with.
fn of(share: &str) -> Ended<String> {
    Ended(share.to_owned())
}
