//! Reads events: newest first in pages, or oldest first from a position on.

use std::sync::Arc;

use tollhouse_base::clock::Timestamp;
use tollhouse_store::{Direction, Store, StoreError, TerminatedText};
use tollhouse_tool::{Owner, Slug};

use super::{EVENTS, Event, Events, Kind, feed::Position as _, of, position::EventPosition};

/// A query for events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only events from this time on.
    pub since: Option<Timestamp>,
    /// Only events before this time.
    pub until: Option<Timestamp>,
    /// Only events of this tool.
    pub slug: Option<Slug>,
    /// Only events of this kind.
    pub kind: Option<Kind>,
    /// Maximum number of events in the answer.
    pub limit: usize,
    /// The cursor from the previous page.
    pub cursor: Option<EventPosition>,
}

/// A page of events, newest first.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    /// The matching events, up to the limit.
    pub events: Vec<Event>,
    /// The cursor for the next page, if there may be more.
    pub next: Option<EventPosition>,
}

impl EventQuery {
    /// Returns whether `event` matches the time, the tool and the kind.
    pub fn wants(&self, event: &Event) -> bool {
        self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at < until)
            && self.slug.as_ref().is_none_or(|slug| event.endpoint_slug.as_ref() == Some(slug))
            && self.kind.is_none_or(|kind| event.kind == kind)
    }
}

impl Events {
    /// Returns the events of `owner` that match `query`.
    pub async fn list(&self, owner: &Owner, query: &EventQuery) -> Result<EventPage, StoreError> {
        let oldest = self.oldest().max(query.since.unwrap_or(Timestamp(0)));
        let own = of(owner.share());
        let mut range = EVENTS.under(&own).from(&(own.clone(), EventPosition::start_of(oldest).0));
        if let Some(cursor) = &query.cursor {
            range = range.before(&(own, cursor.0.clone()));
        } else if let Some(until) = query.until {
            range = range.before(&(own, EventPosition::start_of(until).0));
        }
        let (events, next) = EVENTS.newest(&*self.store, range, query.limit, |event| query.wants(event)).await?;
        Ok(EventPage { events, next: next.map(|(_, position)| EventPosition(position)) })
    }

    /// Returns up to `limit` events of `owner` after `position`, oldest first.
    pub async fn after(&self, owner: &Owner, position: &EventPosition, limit: usize) -> Result<Vec<Event>, StoreError> {
        let from = position.clone().max(EventPosition::start_of(self.oldest()));
        stored_after(Arc::clone(&self.store), owner.share().to_owned(), from, limit).await
    }

    /// Returns the time before which events are no longer kept.
    pub(super) fn oldest(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))
    }
}

/// Returns up to `limit` stored events of the owner with this `share` after `position`, oldest first.
pub(super) async fn stored_after(
    store: Arc<dyn Store>,
    share: String,
    position: EventPosition,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let own = TerminatedText(share);
    let range = EVENTS.under(&own).after(&(own, position.0));
    let rows = EVENTS.readable(&*store, &range, limit, Direction::Forward).await?;
    Ok(rows.into_iter().filter_map(|(_, event)| event).collect())
}
