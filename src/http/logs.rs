//! `/ai/endpoints/{slug}/logs`: the log of a tool's handler, in pages or live.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    extract::State,
    http::request::Parts,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::json;
use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_capability::{CapabilityServices, Followed, LogPlace, LogQuery};
use tollhouse_event::feed::{Crowded, Follower, Position as _};
use tollhouse_front::{Fault, sse};
use tollhouse_protocol::LogLevel;
use tollhouse_store::StoreError;

use super::{
    auth::Managed,
    follow::{self, Entry, Source},
    page::{Limit, When, bad_cursor, paged},
    route::{Route, get},
    services::Watching,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    since: Option<When>,
    level: Option<LogLevel>,
    call_id: Option<CallId>,
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

pub(super) fn routes() -> Vec<Route> {
    let logs = get("/ai/endpoints/{slug}/logs", "listLogs", "what its handler wrote, newest first, or live", logs);
    vec![logs.answers("LogPage").heeds(&["Last-Event-ID"]).streams()]
}

async fn logs(managed: Managed<Query>, State(watching): State<Arc<Watching>>, request: Parts) -> Result<Response, Fault> {
    let Managed { shown, asked, .. } = managed;
    let endpoint = shown.endpoint.id.clone();
    let since = asked.since.map(|since| since.at(watching.clock.now()));
    let query = LogQuery { since, level: asked.level, call: asked.call_id, limit: asked.limit.0, cursor: asked.cursor };
    if sse::wanted(&request.headers) {
        let from = follow::from(&request.headers, since, LogPlace::from_cursor, "a line of this log")?;
        // A reader that reconnects continues from its position, so the original `since` no longer applies.
        let source = Lines { services: Arc::clone(&watching.capabilities), endpoint, query: LogQuery { since: None, ..query } };
        return follow::stream(&watching.shared, &request, source, from);
    }
    let page = watching.capabilities.logs().list(&endpoint, &query).await?.ok_or_else(bad_cursor)?;
    Ok(paged("logs", &page.entries, page.next_cursor).into_response())
}

/// The log of a tool, as one reader follows it.
struct Lines {
    services: Arc<CapabilityServices>,
    endpoint: EndpointId,
    query: LogQuery,
}

#[async_trait]
impl Source for Lines {
    type Place = LogPlace;
    type Item = Followed;

    fn follow(&self) -> Result<Follower<Arc<Followed>>, Crowded> {
        self.services.logs().follow(&self.endpoint)
    }

    async fn settle(&self) {
        self.services.logs().flush().await;
    }

    async fn after(&self, place: &LogPlace, limit: usize) -> Result<Vec<Followed>, StoreError> {
        self.services.logs().after(&self.endpoint, place, limit).await
    }

    fn place(item: &Followed) -> LogPlace {
        item.place.clone()
    }

    fn entry(&self, item: &Followed) -> Option<Entry> {
        let entry = || Entry { id: item.place.to_cursor(), name: "log", data: json!(item.entry) };
        self.query.wants(&item.entry).then(entry)
    }
}
