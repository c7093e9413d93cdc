//! Reading events: newest first in pages, or oldest first from a place on.

use std::ops::Bound;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{Event, Events, Kind, all_of, prefix};
use crate::{
    base::{clock::Timestamp, id::EventId},
    store::{Direction, Space, StoreError},
    tool::{Owner, Slug},
};

/// Events that one read looks at, matching or not.
const SCAN_LIMIT: usize = 5_000;
/// Events read from the store at once.
const SCAN: usize = 250;

/// Which events to read.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only events from then on.
    pub since: Option<Timestamp>,
    /// Only those of this endpoint.
    pub slug: Option<Slug>,
    /// Only events of this kind.
    pub kind: Option<Kind>,
    /// Most events of the answer.
    pub limit: usize,
    /// As the page before gave it.
    pub cursor: Option<Place>,
}

/// Events, newest first.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    /// Those that are wanted, up to the limit.
    pub events: Vec<Event>,
    /// There while there may be more.
    pub next: Option<Place>,
}

/// Where an event stands among those of its owner: its time, then its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(Vec<u8>);

impl Place {
    /// Before all events of `at`.
    #[must_use]
    pub fn start_of(at: Timestamp) -> Self {
        Self(at.0.to_be_bytes().to_vec())
    }

    /// That of an event.
    #[must_use]
    pub fn of(id: &EventId) -> Self {
        Self([&id.made_at().0.to_be_bytes()[..], id.as_str().as_bytes()].concat())
    }

    /// The time of it.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp(self.0.get(..8).and_then(|at| at.try_into().ok()).map_or(0, u64::from_be_bytes))
    }

    /// As [`Place::to_cursor`] gave it; `None` for other texts.
    #[must_use]
    pub fn from_cursor(text: &str) -> Option<Self> {
        URL_SAFE_NO_PAD.decode(text).ok().filter(|place| (8..=64).contains(&place.len())).map(Self)
    }

    /// As clients show it again.
    #[must_use]
    pub fn to_cursor(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0)
    }
}

impl EventQuery {
    /// Whether `event` is of the time, the endpoint and the kind asked for.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        self.since.is_none_or(|since| event.at >= since)
            && self.slug.as_ref().is_none_or(|slug| event.endpoint_slug.as_ref() == Some(slug))
            && self.kind.is_none_or(|kind| event.kind == kind)
    }
}

impl Events {
    /// The events of `owner` that `query` asks for.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn list(&self, owner: &Owner, query: &EventQuery) -> Result<EventPage, StoreError> {
        let oldest = self.oldest().max(query.since.unwrap_or(Timestamp(0)));
        let own = prefix(owner.share());
        let mut range = all_of(owner.share());
        range.start = Bound::Included([&own[..], &oldest.0.to_be_bytes()].concat());
        if let Some(cursor) = &query.cursor {
            range.end = Bound::Excluded([&own[..], &cursor.0].concat());
        }
        let (mut page, mut seen) = (EventPage::default(), 0);
        while !range.is_empty() {
            let pairs = self.store.scan(Space::Events, range.clone(), SCAN, Direction::Backward).await?;
            let last = pairs.len() < SCAN;
            for (key, stored) in pairs {
                seen += 1;
                page.events.extend(serde_json::from_slice(&stored).ok().filter(|event| query.wants(event)));
                if page.events.len() >= query.limit || seen == SCAN_LIMIT {
                    page.next = Some(Place(key[own.len()..].to_vec()));
                    return Ok(page);
                }
                range.end = Bound::Excluded(key);
            }
            if last {
                break;
            }
        }
        Ok(page)
    }

    /// The events of `owner` that come after `place`, oldest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn after(&self, owner: &Owner, place: &Place, limit: usize) -> Result<Vec<(Place, Event)>, StoreError> {
        let own = prefix(owner.share());
        let from = place.clone().max(Place::start_of(self.oldest()));
        let mut range = all_of(owner.share());
        range.start = Bound::Excluded([&own[..], &from.0].concat());
        let pairs = self.store.scan(Space::Events, range, limit, Direction::Forward).await?;
        let read = |(key, stored): (Vec<u8>, Vec<u8>)| Some((Place(key[own.len()..].to_vec()), serde_json::from_slice(&stored).ok()?));
        Ok(pairs.into_iter().filter_map(read).collect())
    }

    /// Events from before then are no longer kept.
    pub(super) fn oldest(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))
    }
}
