//! `GET /ai/endpoints/{slug}/usage`: public usage of a tool in the last 30 days.

use tollhouse_api::{DailyUsage, True, UsageDay};
use tollhouse_front::{ApiError, Code, PathParams};

use crate::{CpuBudget, Http, Json, JsonResult, Route, State, open};

pub(super) fn routes() -> Vec<Route> {
    let what = "calls of a tool in the last 30 days, by day, and their durations";
    vec![open::get("/ai/endpoints/{slug}/usage", "getUsage", what, usage).answers("DailyUsage").fails(&[Code::UnknownEndpoint])]
}

async fn usage(State(http): State<Http>, CpuBudget(turn): CpuBudget, PathParams(slug): PathParams) -> JsonResult<DailyUsage> {
    let live = http.catalog.find_listed(&slug).await?.ok_or_else(|| ApiError::unknown_endpoint(&slug))?;
    let series = turn.during(http.metrics.by_day(&live.endpoint.id)).await?;
    // Failures and earnings are visible only to the owner.
    let days = series.buckets.iter();
    let days = days.map(|day| UsageDay { at: day.at, calls: day.calls, p50_ms: day.p50_ms, p95_ms: day.p95_ms });
    Ok(Json(DailyUsage { ok: True, since: series.since, days: days.collect() }))
}
