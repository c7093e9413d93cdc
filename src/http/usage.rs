//! `GET /ai/endpoints/{slug}/usage`: public usage of a tool in the last 30 days.

use std::sync::Arc;

use axum::{Json, extract::State};
use tollhouse_api::{DailyUsage, True, UsageDay};
use tollhouse_front::{ApiError, Code};

use super::{
    cpu_budget::CpuBudget,
    page::PathParams,
    route::{Route, open},
    services::DiscoveryServices,
};

pub(super) fn routes() -> Vec<Route> {
    let what = "calls of a tool in the last 30 days, by day, and their durations";
    vec![open::get("/ai/endpoints/{slug}/usage", "getUsage", what, usage).answers("DailyUsage").fails(&[Code::UnknownEndpoint])]
}

async fn usage(
    State(offering): State<Arc<DiscoveryServices>>,
    CpuBudget(turn): CpuBudget,
    PathParams(slug): PathParams<String>,
) -> Result<Json<DailyUsage>, ApiError> {
    let live = offering.catalog.find_listed(&slug).await?.ok_or_else(|| ApiError::unknown_endpoint(&slug))?;
    let series = turn.during(offering.about.metrics.by_day(&live.endpoint.id)).await?;
    // Failures and earnings are visible only to the owner.
    let days = series.buckets.iter();
    let days = days.map(|day| UsageDay { at: day.at, calls: day.calls, p50_ms: day.p50_ms, p95_ms: day.p95_ms });
    Ok(Json(DailyUsage { ok: True, since: series.since, days: days.collect() }))
}
