//! `/ai/builders/events`: events about a builder's tools and money, in pages or live.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    extract::State,
    http::request::Parts,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;
use tollhouse_base::id::EventId;
use tollhouse_event::{
    Event, EventPlace, EventQuery, Events, Kind,
    feed::{Crowded, Follower, Position as _},
};
use tollhouse_front::{Fault, sse};
use tollhouse_store::StoreError;
use tollhouse_tool::{Owner, Slug};

use super::{
    auth::{ForBuilder, OfBuilder},
    follow::{self, Entry, Source},
    page::{Limit, When, bad_cursor, no_end, paged},
    route::{Route, get},
    services::Watching,
};

/// Default period of a list.
const DEFAULT_SINCE: When = When::days(7);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    builder_id: Option<String>,
    since: Option<When>,
    until: Option<When>,
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

pub(super) fn routes() -> Vec<Route> {
    let events =
        get("/ai/builders/events", "listEvents", "what happened to the builder's endpoints and money, newest first, or live", events);
    vec![events.answers("EventPage").heeds(&["Last-Event-ID"]).streams()]
}

async fn events(
    ForBuilder(builder, asked): ForBuilder<Query>,
    State(watching): State<Arc<Watching>>,
    request: Parts,
) -> Result<Response, Fault> {
    let owner = Owner::Builder(builder.id);
    let now = watching.clock.now();
    let mut query =
        EventQuery { since: None, until: None, slug: asked.endpoint_slug, kind: asked.kind, limit: asked.limit.0, cursor: None };
    if sse::wanted(&request.headers) {
        no_end(asked.until)?;
        let since = asked.since.map(|since| since.at(now));
        let place = |id: &str| id.parse::<EventId>().ok().map(|id| EventPlace::of(&id));
        let from = follow::from(&request.headers, since, place, "an event")?;
        let events = Arc::clone(&watching.events);
        return follow::stream(&watching.shared, &request, Feed { events, owner, query }, from);
    }
    query.since = Some(asked.since.unwrap_or(DEFAULT_SINCE).at(now));
    query.until = asked.until.map(|until| until.at(now));
    query.cursor = asked.cursor.map(|cursor| EventPlace::from_cursor(&cursor).ok_or_else(bad_cursor)).transpose()?;
    let page = watching.events.list(&owner, &query).await?;
    Ok(paged("events", &page.events, page.next.map(|next| next.to_cursor())).into_response())
}

/// The events of a builder, as one reader follows them.
struct Feed {
    events: Arc<Events>,
    owner: Owner,
    query: EventQuery,
}

#[async_trait]
impl Source for Feed {
    type Place = EventPlace;
    type Item = Event;

    fn follow(&self) -> Result<Follower<Arc<Event>>, Crowded> {
        self.events.follow(&self.owner)
    }

    async fn after(&self, place: &EventPlace, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.events.after(&self.owner, place, limit).await
    }

    fn place(item: &Event) -> EventPlace {
        EventPlace::of(&item.id)
    }

    fn entry(&self, item: &Event) -> Option<Entry> {
        let entry = || Entry { id: item.id.to_string(), name: "event", data: json!(item) };
        self.query.wants(item).then(entry)
    }
}
