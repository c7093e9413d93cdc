//! Events: what happened to a builder's tools and money, in a feed that builders read and follow.
//!
//! An event about a change is written in the commit that makes the change ([`Events::stored`]), and announced to live
//! followers after the commit ([`Events::announce`]). Events are removed when they are too old or their owner has too
//! many.

pub mod feed;
mod position;
pub mod pull;
mod read;
mod retention;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EventId,
    lock::Lock,
};
use tollhouse_store as store;
use tollhouse_store::{Batch, Durability, Store, StoreError, Table, TerminatedText, schema};
use tollhouse_tool::{Owner, Slug};

pub use self::{
    position::EventPosition,
    read::{EventPage, EventQuery},
};
use crate::feed::{Feed, Follower, TooManyFollowers};

const EVENTS: Table<(TerminatedText<String>, store::KeyPosition), Event> = schema::EVENTS.holding();
tollhouse_store::json_values!(Event);

/// How many events are kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSettings {
    /// Maximum number of events of one owner. Older ones are removed. A tenth more, and those of the last second, may
    /// exist until they are trimmed. Default: 100,000.
    pub count: u64,
    /// Maximum age of an event, in milliseconds. Default: 90 days.
    pub age_ms: u64,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self { count: 100_000, age_ms: 90 * 24 * 3_600 * 1_000 }
    }
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    #[serde(rename = "endpoint.created")]
    EndpointCreated,
    #[serde(rename = "endpoint.updated")]
    EndpointUpdated,
    /// A tool was paused by its owner or an admin.
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
    /// An admin refunded all or part of a call's price.
    #[serde(rename = "payment.refunded")]
    PaymentRefunded,
    /// A reorganization of the chain undid a settlement, or its transaction is in a block again.
    #[serde(rename = "payment.reorganized")]
    PaymentReorganized,
    /// The result of a payment stayed unknown until the host stopped asking. An admin decides.
    #[serde(rename = "payment.unresolved")]
    PaymentUnresolved,
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
    /// The money of a payout could not be sent. The payout can be approved again.
    #[serde(rename = "payout.failed")]
    PayoutFailed,
    /// An admin rejected a payout. Its receipts can be paid out again.
    #[serde(rename = "payout.rejected")]
    PayoutRejected,
    /// A builder's key was replaced and became invalid.
    #[serde(rename = "builder.key_rotated")]
    BuilderKeyRotated,
    #[serde(rename = "builder.suspended")]
    BuilderSuspended,
    #[serde(rename = "builder.restored")]
    BuilderRestored,
    /// An admin set the least strict tier for a builder's tools.
    #[serde(rename = "builder.tier_set")]
    BuilderTierSet,
    /// An admin lets a builder's tools list hosts without approval.
    #[serde(rename = "builder.hosts_granted")]
    BuilderHostsGranted,
    #[serde(rename = "builder.hosts_revoked")]
    BuilderHostsRevoked,
}

/// An event, as its owner reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its id, which contains its time. Ids of one owner are in order.
    pub id: EventId,
    /// The kind of event.
    pub kind: Kind,
    /// When it happened.
    pub at: Timestamp,
    /// The tool that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_slug: Option<Slug>,
    /// Details that depend on the kind. Never a credential, a secret's value, an input or a result.
    pub data: Value,
}

/// The events of all owners.
pub struct Events {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: EventSettings,
    feed: Arc<Feed<Arc<Event>>>,
    /// Number of stored events of owners with recent events. `None` if they have not been counted.
    counts: Lock<HashMap<String, Option<u64>>>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Creates the events of this store with these retention settings.
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: EventSettings) -> Self {
        let feed = Feed::of(&*store, &clock);
        Self { store, clock, settings, feed, counts: Lock::default() }
    }

    /// Returns the current time of its clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates an event with the current time.
    pub fn event(&self, kind: Kind, slug: Option<&Slug>, data: Value) -> Event {
        let at = self.clock.now();
        Event { id: EventId::of_time(at), kind, at, endpoint_slug: slug.cloned(), data }
    }

    /// Returns a batch that adds `event` to the feed of `owner`.
    #[must_use]
    pub fn stored(owner: &Owner, event: &Event) -> Batch {
        EVENTS.put(&(of(owner.share()), EventPosition::of(&event.id).0), event)
    }

    /// Announces an event to live followers. Call it after the commit.
    pub fn announce(&self, owner: &Owner, event: Event) {
        // If this is the owner's first event since the last sweep, `trim` counts the owner's events.
        self.counts.lock().entry(owner.share().to_owned()).or_default().iter_mut().for_each(|count| *count += 1);
        self.feed.publish(owner.share(), || Arc::new(event));
    }

    /// Follows the events of `owner` from now on, as they are announced here or stored by any host of a shared store.
    pub fn follow(&self, owner: &Owner) -> Result<Follower<Arc<Event>>, TooManyFollowers> {
        self.feed.follow(owner.share())
    }

    /// Writes an event in a separate commit and announces it.
    pub async fn record(&self, owner: &Owner, kind: Kind, slug: Option<&Slug>, data: Value) -> Result<(), StoreError> {
        let event = self.event(kind, slug, data);
        Self::stored(owner, &event).commit(&*self.store, Durability::Buffered).await?;
        self.announce(owner, event);
        Ok(())
    }
}

/// Returns the start of the keys of an owner's events.
fn of(share: &str) -> TerminatedText<String> {
    TerminatedText(share.to_owned())
}
