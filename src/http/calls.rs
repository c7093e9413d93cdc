//! `/ai/endpoints/{slug}/calls` and `/metrics`, and `/ai/admin/metrics`: calls one by one and aggregated.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use tollhouse_api::{CallPage, Metrics, True};
use tollhouse_base::{id::EndpointId, time_param::TimeParam};
use tollhouse_call::{CallPosition, CallQuery, ERROR_STATUS, History, OutcomeFilter, SeriesQuery, SeriesStep, StoredCall};
use tollhouse_event::feed::{Follower, Position as _, TooManyFollowers};
use tollhouse_front::{ApiError, Code, sse};
use tollhouse_store::StoreError;

use crate::{
    Admin, Answer, Http, IntoResponse as _, Json, JsonResult, ManagedEndpoint, PageLimit, Parts, Route, Services, State, bad_cursor,
    event_stream::{self, FollowSource, StreamEntry},
    get,
    page::reject_until,
    query,
};

/// Default period and bucket width of metrics.
const DEFAULT_SINCE: TimeParam = TimeParam::days(1);
const DEFAULT_STEP: SeriesStep = SeriesStep::Hour;

query!(CallsQuery {
    since: Option<TimeParam>,
    until: Option<TimeParam>,
    outcome: Option<OutcomeFilter>,
    limit: PageLimit,
    cursor: Option<String>,
});
query!(MetricsQuery { since: Option<TimeParam>, until: Option<TimeParam>, step: Option<String> });

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/endpoints/{slug}/calls", "listCalls", "its calls, newest first, or live", calls)
            .answers("CallPage")
            .reads_headers(&["Last-Event-ID"])
            .streams(),
        get("/ai/endpoints/{slug}/metrics", "getMetrics", "its calls, summed up in buckets", metrics).answers("Metrics"),
        get("/ai/admin/metrics", "getHostMetrics", "the calls of all endpoints, summed up in buckets", host_metrics).answers("Metrics"),
    ]
}

async fn calls(managed: ManagedEndpoint<CallsQuery>, State(http): State<Http>, request: Parts) -> Answer {
    let ManagedEndpoint { shown, requested, .. } = managed;
    let endpoint = shown.endpoint.id.clone();
    let now = http.clock.now();
    let (since, until) = (requested.since.map(|since| since.at(now)), requested.until.map(|until| until.at(now)));
    let ending = requested.outcome.map(known).transpose()?;
    if sse::requested(&request.headers) {
        reject_until(until)?;
        let from = event_stream::from(&request.headers, since, CallPosition::from_cursor, "a call of this stream")?;
        // A reader that reconnects continues from its position, so the original `since` no longer applies.
        let query = CallQuery { ending, ..CallQuery::default() };
        return event_stream::stream(&http.shared, &request, Calls { history: Arc::clone(&http.history), endpoint, query }, from);
    }
    let cursor = requested.cursor.map(|cursor| CallPosition::from_cursor(&cursor).ok_or_else(bad_cursor)).transpose()?;
    let page = http.history.list(&endpoint, &CallQuery { since, until, ending, limit: requested.limit.0, cursor }).await?;
    Ok(Json(CallPage { ok: True, calls: page.calls, next_cursor: page.next.map(|next| next.to_cursor()) }).into_response())
}

/// Returns the ending if a call can have it.
fn known(ending: OutcomeFilter) -> Result<OutcomeFilter, ApiError> {
    match &ending {
        OutcomeFilter::With(code) if code != ERROR_STATUS && Code::ALL.iter().all(|known| known.row().name != code) => {
            Err(ApiError::bad_request(format!("`outcome` must be `succeeded`, `failed` or an error code; `{code}` is not one of them")))
        }
        OutcomeFilter::As(_) | OutcomeFilter::With(_) => Ok(ending),
    }
}

async fn metrics(managed: ManagedEndpoint<MetricsQuery>, State(http): State<Http>) -> JsonResult<Metrics> {
    let ManagedEndpoint { shown, requested: request, .. } = managed;
    Ok(Json(http.metrics.series(&shown.endpoint.id, request.validate(&http)?).await?))
}

async fn host_metrics(Admin(request): Admin<MetricsQuery>, State(http): State<Http>) -> JsonResult<Metrics> {
    Ok(Json(http.metrics.series_of_all(request.validate(&http)?).await?))
}

impl MetricsQuery {
    /// Validates the query and fills in defaults.
    fn validate(self, http: &Services) -> Result<SeriesQuery, ApiError> {
        let now = http.clock.now();
        let (back, until) = (self.since.unwrap_or(DEFAULT_SINCE).back(now), self.until.map(|until| until.at(now)));
        let step = self.step.map_or(Ok(DEFAULT_STEP), |step| step.parse());
        step.and_then(|step| http.metrics.query(back, until, step)).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}

/// The calls of a tool, as one reader follows them.
struct Calls {
    history: Arc<History>,
    endpoint: EndpointId,
    query: CallQuery,
}

#[async_trait]
impl FollowSource for Calls {
    type Place = CallPosition;
    type Item = StoredCall;

    fn follow(&self) -> Result<Follower<Arc<StoredCall>>, TooManyFollowers> {
        self.history.follow(&self.endpoint)
    }

    async fn after(&self, position: &CallPosition, limit: usize) -> Result<Vec<StoredCall>, StoreError> {
        self.history.after(&self.endpoint, position, limit).await
    }

    fn place(item: &StoredCall) -> CallPosition {
        item.position.clone()
    }

    fn entry(&self, item: &StoredCall) -> Option<StreamEntry> {
        let entry = || StreamEntry { id: item.position.to_cursor(), name: "call", data: json!(item.call) };
        self.query.wants(&item.call).then(entry)
    }
}
