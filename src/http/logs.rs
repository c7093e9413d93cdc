//! `/ai/endpoints/{slug}/logs`: what an endpoint's handler wrote, in pages or live.

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
use tollhouse_protocol::LogLevel;

use super::{
    auth::Managed,
    follow::{self, Entry, Source},
    page::{Limit, Span, bad_cursor},
    route::{Route, get},
    services::Watching,
};
use crate::{
    base::{
        clock::Timestamp,
        id::{CallId, EndpointId},
    },
    capability::{CapabilityServices, Followed, LogPlace, LogQuery},
    event::feed::{Crowded, Follower},
    front::{Fault, sse},
    store::StoreError,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    since: Option<Span>,
    level: Option<LogLevel>,
    call_id: Option<CallId>,
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

/// The routes of this file.
pub(super) fn routes() -> Vec<Route> {
    vec![get("/ai/endpoints/{slug}/logs", "what its handler wrote, newest first, or live", logs)]
}

async fn logs(managed: Managed<Query>, State(watching): State<Arc<Watching>>, headers: HeaderMap) -> Result<Response, Fault> {
    let Managed { live, asked, .. } = managed;
    let endpoint = live.endpoint.id.clone();
    let since = asked.since.map(|since| since.before(watching.clock.now()));
    let query = LogQuery { since, level: asked.level, call: asked.call_id, limit: asked.limit.0, cursor: asked.cursor };
    if sse::wanted(&headers) {
        let wrong = || Fault::bad_request("`Last-Event-ID` is the id of a line of this log");
        let from = match follow::last_id(&headers) {
            Some(last) => Some(LogPlace::from_cursor(last).ok_or_else(wrong)?),
            None => since.map(LogPlace::start_of),
        };
        // A reader that comes back has its place; what it asked to begin with is past.
        let source = Lines { services: Arc::clone(&watching.capabilities), endpoint, query: LogQuery { since: None, ..query } };
        return follow::stream(&watching.shared.shutdown, source, from);
    }
    let page = watching.capabilities.logs().list(&endpoint, &query).await?.ok_or_else(bad_cursor)?;
    let mut answer = json!({ "ok": true, "logs": page.entries });
    if let Some(next) = page.next_cursor {
        answer["nextCursor"] = json!(next);
    }
    Ok(Json(answer).into_response())
}

/// The log of an endpoint, as one reader asks for it.
struct Lines {
    services: Arc<CapabilityServices>,
    endpoint: EndpointId,
    query: LogQuery,
}

impl Lines {
    fn wanted(&self, line: &Followed) -> Option<Entry> {
        let entry = || Entry { id: line.place.to_cursor(), name: "log", data: json!(line.entry) };
        self.query.wants(&line.entry).then(entry)
    }
}

#[async_trait]
impl Source for Lines {
    type Place = LogPlace;
    type Live = Arc<Followed>;

    fn follow(&self) -> Result<Follower<Arc<Followed>>, Crowded> {
        self.services.logs().follow(&self.endpoint)
    }

    async fn settle(&self) {
        self.services.logs().flush().await;
    }

    async fn after(&self, place: &LogPlace, limit: usize) -> Result<(Option<LogPlace>, Vec<Entry>), StoreError> {
        let read = self.services.logs().after(&self.endpoint, place, limit).await?;
        let end = read.last().map(|line| line.place.clone());
        Ok((end, read.iter().filter_map(|line| self.wanted(line)).collect()))
    }

    fn entry(&self, live: Arc<Followed>) -> Option<Entry> {
        self.wanted(&live)
    }

    fn back(&self, place: &LogPlace, millis: u64) -> LogPlace {
        LogPlace::start_of(Timestamp(place.at().0.saturating_sub(millis)))
    }
}
