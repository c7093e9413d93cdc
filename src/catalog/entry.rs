//! The in-memory entry of every endpoint: identity, state, and the fields that lists filter by.
//! Everything else is read on demand.
//!
//! Beside each record, the store has a [`Card`], from which a start creates the entry without
//! reading the record.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, EndpointId},
};
use tollhouse_protocol::{Limits, Tier};
use tollhouse_store::{Table, schema};
use tollhouse_tool::{Availability, Endpoint, EndpointState, HoldKind, MicroUsd, Owner, Slug, Status, takes_objects};

use crate::search::{Item, Slot, Text};

pub(super) const ENDPOINTS: Table<String, Endpoint> = schema::ENDPOINTS.indexed(&[card]);
pub(super) const CARDS: Table<String, Card> = schema::CATALOGUE.holding();
tollhouse_store::postcard_values!(Card);

/// The minimal in-memory data of an endpoint.
#[derive(Debug, Clone)]
pub struct Entry {
    pub slug: Slug,
    pub(super) id: [u8; 16],
    pub owner: Arc<Owner>,
    /// Its revision, which counts changes.
    pub revision: u64,
    pub created_at: Timestamp,
    /// Maximum price of a call.
    pub max_usd: MicroUsd,
    /// Since when an admin has something to decide about it, if anything.
    waits_since: Option<NonZeroU64>,
    /// Tags in lowercase, without duplicates.
    pub(super) tags: Box<[Arc<str>]>,
    /// Location of its words in the search index.
    pub(super) words: Slot,
    /// Its own limits, caps and tier cap. `None` if there are none.
    pub(super) requested: Option<Arc<String>>,
    flags: EntryFlags,
}

/// There may be a million entries.
const _: () = assert!(size_of::<Entry>() <= 112, "with its two counts an entry is 128 bytes");

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy)]
    struct EntryFlags: u8 {
        const PAUSED = 1;
        const TAKEN_DOWN = 1 << 1;
        const HELD = 1 << 2;
        const REJECTED = 1 << 3;
        const TAKES_OBJECTS = 1 << 4;
        const OWNER_SUSPENDED = 1 << 5;
    }
}

/// The stored summary of an endpoint beside its record: data for its entry, and searchable texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Card {
    id: EndpointId,
    owner: Option<BuilderId>,
    pub(super) revision: u64,
    created_at: u64,
    #[serde(rename = "most_usd")]
    max_usd: u64,
    waits_since: Option<u64>,
    title: String,
    description: String,
    tags: Vec<String>,
    #[serde(rename = "asked")]
    requested: Option<String>,
    paused: bool,
    taken_down: bool,
    held: bool,
    rejected: bool,
    takes_objects: bool,
}

/// An endpoint's own limits, caps and tier cap, as stored.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RequestedLimits {
    pub(super) own_limits: Limits,
    pub(super) limit_caps: BTreeMap<String, u64>,
    pub(super) tier_cap: Tier,
}

/// Returns the card of an endpoint, which is written with its record.
fn card(slug: &String, endpoint: &Endpoint) -> Option<tollhouse_store::IndexEntry> {
    Some(schema::CATALOGUE.entry(slug, &Card::of(endpoint)))
}

impl Card {
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        let Endpoint { own_limits, limit_caps, tier_cap, review, .. } = endpoint;
        let request = RequestedLimits { own_limits: *own_limits, limit_caps: limit_caps.clone(), tier_cap: *tier_cap };
        Self {
            id: endpoint.id.clone(),
            owner: match &endpoint.owner {
                Owner::Platform => None,
                Owner::Builder(id) => Some(id.clone()),
            },
            revision: endpoint.revision,
            created_at: endpoint.created_at.0,
            max_usd: endpoint.max_usd().0,
            waits_since: waits(endpoint).then(|| review.since().map_or(0, |since| since.0)),
            title: endpoint.title.clone(),
            description: endpoint.description.clone(),
            tags: endpoint.tags.clone(),
            requested: (request != RequestedLimits::default()).then(|| serde_json::to_string(&request).unwrap_or_default()),
            paused: endpoint.status == Status::Paused,
            taken_down: review.taken_down.is_some(),
            held: review.hold.is_some(),
            rejected: endpoint.rejected(),
            takes_objects: takes_objects(&endpoint.input_schema),
        }
    }

    /// Returns whether an entry has the same id and revision.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        entry.is(&self.id) && entry.revision == self.revision
    }

    pub(super) fn text<'a>(&'a self, slug: &'a str) -> Text<'a> {
        Text { slug, title: &self.title, tags: &self.tags, description: &self.description }
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner.clone().map_or(Owner::Platform, Owner::Builder)
    }

    pub(super) fn entry(&self, slug: Slug, owner_suspended: bool) -> Entry {
        let tags: BTreeSet<_> = self.tags.iter().map(|tag| tag.to_ascii_lowercase()).collect();
        let mut flags = EntryFlags::empty();
        flags.set(EntryFlags::PAUSED, self.paused);
        flags.set(EntryFlags::TAKEN_DOWN, self.taken_down);
        flags.set(EntryFlags::HELD, self.held);
        flags.set(EntryFlags::REJECTED, self.rejected);
        flags.set(EntryFlags::TAKES_OBJECTS, self.takes_objects);
        flags.set(EntryFlags::OWNER_SUSPENDED, owner_suspended);
        Entry {
            slug,
            id: self.id.packed(),
            owner: Arc::new(self.owner()),
            revision: self.revision,
            created_at: Timestamp(self.created_at),
            max_usd: MicroUsd(self.max_usd),
            // Time 0 means the longest wait.
            waits_since: self.waits_since.map(|since| NonZeroU64::new(since).unwrap_or(NonZeroU64::MIN)),
            tags: tags.into_iter().map(Arc::from).collect(),
            words: Slot::MAX,
            requested: self.requested.clone().map(Arc::new),
            flags,
        }
    }
}

impl Item for Arc<Entry> {
    fn name(&self) -> &str {
        self.slug.as_str()
    }
}

impl Entry {
    /// Returns since when an admin has something to decide about it, if anything.
    pub fn waits_since(&self) -> Option<Timestamp> {
        self.waits_since.map(|since| Timestamp(since.get()))
    }

    pub fn is(&self, id: &EndpointId) -> bool {
        self.id == id.packed()
    }

    /// Returns whether it accepts calls, or why not.
    pub fn availability(&self) -> Availability {
        let status = if self.flags.contains(EntryFlags::PAUSED) { Status::Paused } else { Status::Active };
        let has = |mark| self.flags.contains(mark);
        Availability::of(has(EntryFlags::TAKEN_DOWN), has(EntryFlags::HELD), has(EntryFlags::OWNER_SUSPENDED), status)
    }

    pub fn is_active(&self) -> bool {
        self.availability() == Availability::Active
    }

    pub fn state(&self) -> EndpointState {
        EndpointState::of(self.availability(), self.flags.contains(EntryFlags::REJECTED))
    }

    /// Returns whether everyone may see it, which is not the case while an admin holds it back.
    pub fn listed(&self) -> bool {
        !self.availability().held_back()
    }

    /// Returns whether it has or may have a price.
    pub fn is_paid(&self) -> bool {
        !self.max_usd.is_zero()
    }

    /// Returns whether agents can call it as a named tool: it is active, and its input is an
    /// object.
    pub fn is_tool(&self) -> bool {
        self.flags.contains(EntryFlags::TAKES_OBJECTS) && self.is_active()
    }

    /// Returns whether it has this tag, ignoring ASCII case.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|has| has.eq_ignore_ascii_case(tag))
    }

    pub(super) fn suspend_owner(&mut self, suspended: bool) {
        self.flags.set(EntryFlags::OWNER_SUSPENDED, suspended);
    }

    pub(super) fn own_limits(&self) -> RequestedLimits {
        self.requested.as_ref().and_then(|request| serde_json::from_str(request).ok()).unwrap_or_default()
    }
}

/// Returns whether an admin has something to decide. Content that an admin has already refused does
/// not count.
pub(super) fn waits(endpoint: &Endpoint) -> bool {
    let undecided = |kind| kind == HoldKind::ContentReview || !endpoint.review.refused;
    endpoint.asks() || endpoint.review.hold.as_ref().is_some_and(|hold| undecided(hold.kind))
}
