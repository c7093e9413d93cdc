//! `/ai/endpoints/{slug}/logs`: the log of a tool's handler, in pages or live.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use tollhouse_api::{LogPage, True};
use tollhouse_base::{
    id::{CallId, EndpointId},
    time_param::TimeParam,
};
use tollhouse_capability::{CapabilityServices, FollowedLine, LogPosition, LogQuery};
use tollhouse_event::feed::{Follower, Position as _, TooManyFollowers};
use tollhouse_front::sse;
use tollhouse_protocol::LogLevel;
use tollhouse_store::StoreError;

use crate::{
    Answer, Http, IntoResponse as _, Json, ManagedEndpoint, PageLimit, Parts, Route, State, bad_cursor, convert,
    event_stream::{self, FollowSource, StreamEntry},
    get, query,
};

query!(Query { since: Option<TimeParam>, level: Option<LogLevel>, call_id: Option<CallId>, limit: PageLimit, cursor: Option<String> });

pub(super) fn routes() -> Vec<Route> {
    let logs = get("/ai/endpoints/{slug}/logs", "listLogs", "log lines of its handler, newest first, or live", logs);
    vec![logs.answers("LogPage").reads_headers(&["Last-Event-ID"]).streams()]
}

async fn logs(managed: ManagedEndpoint<Query>, State(http): State<Http>, request: Parts) -> Answer {
    let ManagedEndpoint { shown, requested, .. } = managed;
    let endpoint = shown.endpoint.id.clone();
    let since = requested.since.map(|since| since.at(http.clock.now()));
    let query = LogQuery { since, level: requested.level, call: requested.call_id, limit: requested.limit.0, cursor: requested.cursor };
    if sse::requested(&request.headers) {
        let from = event_stream::from(&request.headers, since, LogPosition::from_cursor, "a line of this log")?;
        // A reader that reconnects continues from its position, so the original `since` no longer applies.
        let source = Lines { services: Arc::clone(&http.capabilities), endpoint, query: LogQuery { since: None, ..query } };
        return event_stream::stream(&http.shared, &request, source, from);
    }
    let page = http.capabilities.logs.list(&endpoint, &query).await?.ok_or_else(bad_cursor)?;
    let logs = page.entries.iter().map(convert::log_line).collect();
    Ok(Json(LogPage { ok: True, logs, next_cursor: page.next_cursor }).into_response())
}

/// The log of a tool, as one reader follows it.
struct Lines {
    services: Arc<CapabilityServices>,
    endpoint: EndpointId,
    query: LogQuery,
}

#[async_trait]
impl FollowSource for Lines {
    type Place = LogPosition;
    type Item = FollowedLine;

    fn follow(&self) -> Result<Follower<Arc<FollowedLine>>, TooManyFollowers> {
        self.services.logs.follow(&self.endpoint)
    }

    async fn settle(&self) {
        self.services.logs.flush().await;
    }

    async fn after(&self, position: &LogPosition, limit: usize) -> Result<Vec<FollowedLine>, StoreError> {
        self.services.logs.after(&self.endpoint, position, limit).await
    }

    fn place(item: &FollowedLine) -> LogPosition {
        item.position.clone()
    }

    fn entry(&self, item: &FollowedLine) -> Option<StreamEntry> {
        let entry = || StreamEntry { id: item.position.to_cursor(), name: "log", data: json!(convert::log_line(&item.entry)) };
        self.query.wants(&item.entry).then(entry)
    }
}
