//! `/ai/builders/revenue` and `/ai/admin/revenue`: revenue of a builder's tools and of the host.

use tollhouse_api::{HostRevenue, Revenue};
use tollhouse_base::time_param::TimeParam;
use tollhouse_money::sale::ReportDetail;
use tollhouse_tool::Owner;

use crate::{Admin, ForBuilder, ForBuilderReadOnly, Http, Json, JsonResult, Route, State, get, query};

const DEFAULT_SINCE: TimeParam = TimeParam::days(30);

query!(Since { since: Option<TimeParam> });
query!(Own of_builder { since: Option<TimeParam>, daily: bool });

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/ai/builders/revenue", "getRevenue", "revenue of the builder's endpoints", revenue).answers("Revenue"),
        get("/ai/admin/revenue", "getHostRevenue", "revenue of the host itself", platform).answers("HostRevenue"),
    ]
}

/// Returns a builder's revenue for whole UTC days, from the day of `since`.
async fn revenue(ForBuilder(builder, request): ForBuilderReadOnly<Own>, State(http): State<Http>) -> JsonResult<Revenue> {
    let since = request.since.unwrap_or(DEFAULT_SINCE).at(http.clock.now());
    let detail = if request.daily { ReportDetail::Daily } else { ReportDetail::Sums };
    Ok(Json(http.sales.report(&Owner::Builder(builder.id), since, detail).await?))
}

/// Returns the host's revenue for the same kind of days.
async fn platform(Admin(request): Admin<Since>, State(http): State<Http>) -> JsonResult<HostRevenue> {
    let since = request.since.unwrap_or(DEFAULT_SINCE).at(http.clock.now());
    Ok(Json(http.sales.host_report(since).await?))
}
