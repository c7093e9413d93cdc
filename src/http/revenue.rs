//! `/ai/builders/revenue` and `/ai/admin/revenue`: revenue of a builder's tools and of the host.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use tollhouse_api::{HostRevenue, Revenue};
use tollhouse_front::ApiError;
use tollhouse_money::sale::ReportDetail;
use tollhouse_tool::Owner;

use super::{
    auth::{Admin, ForBuilderReadOnly, OfBuilder},
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
    Ok(Json(earning.sales.report(&Owner::Builder(builder.id), since, detail).await?))
}

/// Returns the host's revenue for the same kind of days.
async fn platform(Admin(request): Admin<Since>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<HostRevenue>, ApiError> {
    let since = request.since.unwrap_or(DEFAULT_SINCE).at(earning.clock.now());
    Ok(Json(earning.sales.host_report(since).await?))
}
