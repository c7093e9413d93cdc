//! `/ai/endpoints/{slug}/calls` and `/metrics`, and `/ai/admin/metrics`: calls one by one and aggregated.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Json,
    extract::State,
    http::request::Parts,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::id::EndpointId;
use tollhouse_call::{CallPlace, CallQuery, ERROR_STATUS, Ending, History, Placed, Series, SeriesQuery, Step};
use tollhouse_event::feed::{Crowded, Follower, Position as _};
use tollhouse_front::{Code, Fault, sse};
use tollhouse_store::StoreError;

use super::{
    auth::{Admin, Managed},
    follow::{self, Entry, Source},
    page::{Limit, When, bad_cursor, no_end, paged},
    route::{Route, get},
    services::Watching,
};

/// Default period and bucket width of metrics.
const DEFAULT_SINCE: When = When::days(1);
const DEFAULT_STEP: Step = Step::Hour;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CallsQuery {
    since: Option<When>,
    until: Option<When>,
    outcome: Option<Ending>,
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsQuery {
    since: Option<When>,
    until: Option<When>,
    step: Option<String>,
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/endpoints/{slug}/calls", "listCalls", "how its calls ended, newest first, or live", calls)
            .answers("CallPage")
            .heeds(&["Last-Event-ID"])
            .streams(),
        get("/ai/endpoints/{slug}/metrics", "getMetrics", "its calls added up in buckets", metrics).answers("Metrics"),
        get("/ai/admin/metrics", "getHostMetrics", "the calls of all endpoints added up in buckets", of_all).answers("Metrics"),
    ]
}

async fn calls(managed: Managed<CallsQuery>, State(watching): State<Arc<Watching>>, request: Parts) -> Result<Response, Fault> {
    let Managed { shown, asked, .. } = managed;
    let endpoint = shown.endpoint.id.clone();
    let now = watching.clock.now();
    let (since, until) = (asked.since.map(|since| since.at(now)), asked.until.map(|until| until.at(now)));
    let ending = asked.outcome.map(known).transpose()?;
    if sse::wanted(&request.headers) {
        no_end(until)?;
        let from = follow::from(&request.headers, since, CallPlace::from_cursor, "a call of this stream")?;
        // A reader that reconnects continues from its position, so the original `since` no longer applies.
        let query = CallQuery { ending, ..CallQuery::default() };
        return follow::stream(&watching.shared, &request, Calls { history: Arc::clone(&watching.history), endpoint, query }, from);
    }
    let cursor = asked.cursor.map(|cursor| CallPlace::from_cursor(&cursor).ok_or_else(bad_cursor)).transpose()?;
    let page = watching.history.list(&endpoint, &CallQuery { since, until, ending, limit: asked.limit.0, cursor }).await?;
    Ok(paged("calls", &page.calls, page.next.map(|next| next.to_cursor())).into_response())
}

/// Returns the ending if a call can have it.
fn known(ending: Ending) -> Result<Ending, Fault> {
    match &ending {
        Ending::With(code) if code != ERROR_STATUS && Code::ALL.iter().all(|known| known.row().name != code) => {
            Err(Fault::bad_request(format!("`outcome` is `succeeded`, `failed`, or the code of a failure; `{code}` is none")))
        }
        Ending::As(_) | Ending::With(_) => Ok(ending),
    }
}

async fn metrics(managed: Managed<MetricsQuery>, State(watching): State<Arc<Watching>>) -> Result<Json<Value>, Fault> {
    let Managed { shown, asked, .. } = managed;
    let series = watching.metrics.series(&shown.endpoint.id, asked.fitting(&watching)?).await?;
    Ok(told(&series))
}

async fn of_all(Admin(asked): Admin<MetricsQuery>, State(watching): State<Arc<Watching>>) -> Result<Json<Value>, Fault> {
    let series = watching.metrics.series_of_all(asked.fitting(&watching)?).await?;
    Ok(told(&series))
}

fn told(series: &Series) -> Json<Value> {
    let mut answer = json!(series);
    answer["ok"] = json!(true);
    Json(answer)
}

impl MetricsQuery {
    /// Validates the query and fills in defaults.
    fn fitting(self, watching: &Watching) -> Result<SeriesQuery, Fault> {
        let now = watching.clock.now();
        let (back, until) = (self.since.unwrap_or(DEFAULT_SINCE).back(now), self.until.map(|until| until.at(now)));
        let step = self.step.map_or(Ok(DEFAULT_STEP), |step| step.parse());
        step.and_then(|step| watching.metrics.asked(back, until, step)).map_err(|error| Fault::bad_request(error.to_string()))
    }
}

/// The calls of a tool, as one reader follows them.
struct Calls {
    history: Arc<History>,
    endpoint: EndpointId,
    query: CallQuery,
}

#[async_trait]
impl Source for Calls {
    type Place = CallPlace;
    type Item = Placed;

    fn follow(&self) -> Result<Follower<Arc<Placed>>, Crowded> {
        self.history.follow(&self.endpoint)
    }

    async fn after(&self, place: &CallPlace, limit: usize) -> Result<Vec<Placed>, StoreError> {
        self.history.after(&self.endpoint, place, limit).await
    }

    fn place(item: &Placed) -> CallPlace {
        item.place.clone()
    }

    fn entry(&self, item: &Placed) -> Option<Entry> {
        let entry = || Entry { id: item.place.to_cursor(), name: "call", data: json!(item.call) };
        self.query.wants(&item.call).then(entry)
    }
}
