//! `/ai/builders/events`: what happened to a builder's endpoints and money, in pages or live.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    auth::{Business, OfBuilder},
    follow::{self, Entry, Source},
    page::{Limit, Span, bad_cursor},
    route::{Route, get},
    services::Watching,
};
use crate::{
    base::{clock::Timestamp, id::EventId},
    event::{
        Event, EventPlace, EventQuery, Events, Kind,
        feed::{Crowded, Follower},
    },
    front::{Fault, sse},
    store::StoreError,
    tool::{Owner, Slug},
};

/// How far back a list goes when the query does not say.
const DEFAULT_SINCE: Span = Span::days(7);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    builder_id: Option<String>,
    since: Option<Span>,
    endpoint_slug: Option<Slug>,
    kind: Option<Kind>,
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

impl OfBuilder for Query {
    fn builder_id(&self) -> Option<&str> {
        self.builder_id.as_deref()
    }
}

/// The routes of this file.
pub(super) fn routes() -> Vec<Route> {
    vec![get("/ai/builders/events", "what happened to the builder's endpoints and money, newest first, or live", events)]
}

async fn events(
    Business(builder, asked): Business<Query>,
    State(watching): State<Arc<Watching>>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let owner = Owner::Builder(builder.id);
    let now = watching.clock.now();
    let mut query = EventQuery { since: None, slug: asked.endpoint_slug, kind: asked.kind, limit: asked.limit.0, cursor: None };
    if sse::wanted(&headers) {
        let since = || asked.since.map(|since| EventPlace::start_of(since.before(now)));
        let from = match follow::last_id(&headers) {
            Some(last) => {
                Some(EventPlace::of(&last.parse::<EventId>().map_err(|_| Fault::bad_request("`Last-Event-ID` is the id of an event"))?))
            }
            None => since(),
        };
        let events = Arc::clone(&watching.events);
        return follow::stream(&watching.shared.shutdown, Feed { events, owner, query }, from);
    }
    query.since = Some(asked.since.unwrap_or(DEFAULT_SINCE).before(now));
    query.cursor = asked.cursor.map(|cursor| EventPlace::from_cursor(&cursor).ok_or_else(bad_cursor)).transpose()?;
    let page = watching.events.list(&owner, &query).await?;
    let mut answer = json!({ "ok": true, "events": page.events });
    if let Some(next) = page.next {
        answer["nextCursor"] = json!(next.to_cursor());
    }
    Ok(Json(answer).into_response())
}

/// A builder's events, as one reader asks for them.
struct Feed {
    events: Arc<Events>,
    owner: Owner,
    query: EventQuery,
}

impl Feed {
    fn entry_of(event: &Event) -> Entry {
        Entry { id: event.id.to_string(), name: "event", data: json!(event) }
    }
}

#[async_trait]
impl Source for Feed {
    type Place = EventPlace;
    type Live = Arc<Event>;

    fn follow(&self) -> Result<Follower<Arc<Event>>, Crowded> {
        self.events.follow(&self.owner)
    }

    async fn after(&self, place: &EventPlace, limit: usize) -> Result<(Option<EventPlace>, Vec<Entry>), StoreError> {
        let read = self.events.after(&self.owner, place, limit).await?;
        let end = read.last().map(|(place, _)| place.clone());
        let wanted = read.iter().filter(|(_, event)| self.query.wants(event));
        Ok((end, wanted.map(|(_, event)| Self::entry_of(event)).collect()))
    }

    fn entry(&self, live: Arc<Event>) -> Option<Entry> {
        self.query.wants(&live).then(|| Self::entry_of(&live))
    }

    fn back(&self, place: &EventPlace, millis: u64) -> EventPlace {
        EventPlace::start_of(Timestamp(place.at().0.saturating_sub(millis)))
    }
}
