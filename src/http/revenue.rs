//! `/ai/builders/revenue` and `/ai/admin/revenue`: revenue of a builder's tools and of the host.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use serde::Deserialize;
use tollhouse_api::{DayRevenue, EndpointRevenue, HostDayRevenue, HostRevenue, Revenue, True};
use tollhouse_front::ApiError;
use tollhouse_money::sale::{ReportDetail, RevenueLine};
use tollhouse_tool::{Owner, Slug};

use super::{
    auth::{Admin, ForBuilderReadOnly, OfBuilder},
    convert::totals,
    page::TimeParam,
    route::{Route, get},
    services::MoneyServices,
};

const DEFAULT_SINCE: TimeParam = TimeParam::days(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    since: Option<TimeParam>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    builder_id: Option<String>,
    since: Option<TimeParam>,
    #[serde(default)]
    daily: bool,
}

impl OfBuilder for Own {
    fn builder_id(&self) -> Option<&str> {
        self.builder_id.as_deref()
    }
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/builders/revenue", "getRevenue", "revenue of the builder's endpoints", revenue).answers("Revenue"),
        get("/ai/admin/revenue", "getHostRevenue", "revenue of the host itself", platform).answers("HostRevenue"),
    ]
}

/// Returns a builder's revenue for whole UTC days, from the day of `since`.
async fn revenue(
    ForBuilderReadOnly(builder, request): ForBuilderReadOnly<Own>,
    State(earning): State<Arc<MoneyServices>>,
) -> Result<Json<Revenue>, ApiError> {
    let since = request.since.unwrap_or(DEFAULT_SINCE).at(earning.clock.now());
    let detail = if request.daily { ReportDetail::Daily } else { ReportDetail::Sums };
    let report = earning.sales.report(&Owner::Builder(builder.id), since, detail).await?;
    Ok(Json(Revenue {
        ok: True,
        since: report.since,
        totals: totals(report.totals),
        by_endpoint: report
            .by_endpoint
            .into_iter()
            .map(|line| by_endpoint(line.endpoint_slug, line.line, line.daily.map(|days| (days.calls_by_day, days.failed_by_day))))
            .collect(),
        by_day: report.by_day.into_iter().map(|line| by_day(line.day, line.line)).collect(),
    }))
}

/// Returns the host's revenue for the same kind of days.
async fn platform(Admin(request): Admin<Since>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<HostRevenue>, ApiError> {
    let report = earning.sales.host_report(request.since.unwrap_or(DEFAULT_SINCE).at(earning.clock.now())).await?;
    let days = report.by_day.into_iter().map(|day| HostDayRevenue { revenue_usd: day.revenue_usd, day: by_day(day.all.day, day.all.line) });
    Ok(Json(HostRevenue {
        ok: True,
        since: report.since,
        revenue_usd: report.revenue_usd,
        totals: totals(report.totals),
        builders: totals(report.builders),
        own: totals(report.own),
        by_endpoint: report
            .by_endpoint
            .into_iter()
            .map(|line| by_endpoint(line.endpoint_slug, line.line, line.daily.map(|days| (days.calls_by_day, days.failed_by_day))))
            .collect(),
        by_day: days.collect(),
    }))
}

/// Calls by UTC day.
type Days = BTreeMap<String, u64>;

fn by_endpoint(endpoint_slug: Slug, line: RevenueLine, daily: Option<(Days, Days)>) -> EndpointRevenue {
    let (calls_by_day, failed_by_day) = daily.unzip();
    EndpointRevenue { endpoint_slug, totals: totals(line), calls_by_day, failed_by_day }
}

fn by_day(day: String, line: RevenueLine) -> DayRevenue {
    DayRevenue { day, totals: totals(line) }
}
