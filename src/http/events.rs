//! `/ai/builders/events`: events about a builder's tools and money, in pages or live.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use tollhouse_api::{EventPage, True};
use tollhouse_base::{id::EventId, time_param::TimeParam};
use tollhouse_event::{
    Event, EventPosition, EventQuery, Events, Kind,
    feed::{Follower, Position as _, TooManyFollowers},
};
use tollhouse_front::sse;
use tollhouse_store::StoreError;
use tollhouse_tool::{Owner, Slug};

use crate::{
    Answer, ForBuilder, Http, IntoResponse as _, Json, PageLimit, Parts, Route, State, bad_cursor, convert,
    event_stream::{self, FollowSource, StreamEntry},
    get,
    page::reject_until,
    query,
};

/// Default period of a list.
const DEFAULT_SINCE: TimeParam = TimeParam::days(7);

query!(Query of_builder {
    since: Option<TimeParam>,
    until: Option<TimeParam>,
    endpoint_slug: Option<Slug>,
    kind: Option<Kind>,
    limit: PageLimit,
    cursor: Option<String>,
});

pub(super) fn routes() -> Vec<Route> {
    let events = get("/ai/builders/events", "listEvents", "events of the builder's endpoints and money, newest first, or live", events);
    vec![events.answers("EventPage").reads_headers(&["Last-Event-ID"]).streams()]
}

async fn events(ForBuilder(builder, requested): ForBuilder<Query>, State(http): State<Http>, request: Parts) -> Answer {
    let owner = Owner::Builder(builder.id);
    let now = http.clock.now();
    let mut query = EventQuery {
        since: None,
        until: None,
        slug: requested.endpoint_slug,
        kind: requested.kind,
        limit: requested.limit.0,
        cursor: None,
    };
    if sse::requested(&request.headers) {
        reject_until(requested.until)?;
        let since = requested.since.map(|since| since.at(now));
        let position = |id: &str| id.parse::<EventId>().ok().map(|id| EventPosition::of(&id));
        let from = event_stream::from(&request.headers, since, position, "an event")?;
        let events = Arc::clone(&http.events);
        return event_stream::stream(&http.shared, &request, Feed { events, owner, query }, from);
    }
    query.since = Some(requested.since.unwrap_or(DEFAULT_SINCE).at(now));
    query.until = requested.until.map(|until| until.at(now));
    query.cursor = requested.cursor.map(|cursor| EventPosition::from_cursor(&cursor).ok_or_else(bad_cursor)).transpose()?;
    let page = http.events.list(&owner, &query).await?;
    let events = page.events.iter().map(convert::event).collect();
    Ok(Json(EventPage { ok: True, events, next_cursor: page.next.map(|next| next.to_cursor()) }).into_response())
}

/// The events of a builder, as one reader follows them.
struct Feed {
    events: Arc<Events>,
    owner: Owner,
    query: EventQuery,
}

#[async_trait]
impl FollowSource for Feed {
    type Place = EventPosition;
    type Item = Event;

    fn follow(&self) -> Result<Follower<Arc<Event>>, TooManyFollowers> {
        self.events.follow(&self.owner)
    }

    async fn after(&self, position: &EventPosition, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.events.after(&self.owner, position, limit).await
    }

    fn place(item: &Event) -> EventPosition {
        EventPosition::of(&item.id)
    }

    fn entry(&self, item: &Event) -> Option<StreamEntry> {
        let entry = || StreamEntry { id: item.id.to_string(), name: "event", data: json!(convert::event(item)) };
        self.query.wants(item).then(entry)
    }
}
