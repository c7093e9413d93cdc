//! `/ai/builders/revenue` and `/ai/admin/revenue`: revenue of a builder's tools and of the host.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use tollhouse_front::Fault;
use tollhouse_money::sale::{Detail, HostReport, Report};
use tollhouse_tool::Owner;

use super::{
    auth::{Admin, ForBuilderReadOnly, OfBuilder},
    page::When,
    route::{Route, get},
    services::Earning,
};

const DEFAULT_SINCE: When = When::days(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    since: Option<When>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    builder_id: Option<String>,
    since: Option<When>,
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
        get("/ai/builders/revenue", "getRevenue", "what the builder's endpoints earned", revenue).answers("Revenue"),
        get("/ai/admin/revenue", "getHostRevenue", "what the host itself earned", platform).answers("HostRevenue"),
    ]
}

/// Returns a builder's revenue for whole UTC days, from the day of `since`.
async fn revenue(
    ForBuilderReadOnly(builder, asked): ForBuilderReadOnly<Own>,
    State(earning): State<Arc<Earning>>,
) -> Result<Json<Answer<Report>>, Fault> {
    let since = asked.since.unwrap_or(DEFAULT_SINCE).at(earning.clock.now());
    let detail = if asked.daily { Detail::Daily } else { Detail::Sums };
    let report = earning.sales.report(&Owner::Builder(builder.id), since, detail).await?;
    Ok(Json(Answer { ok: true, report }))
}

/// Returns the host's revenue for the same kind of days.
async fn platform(Admin(asked): Admin<Since>, State(earning): State<Arc<Earning>>) -> Result<Json<Answer<HostReport>>, Fault> {
    let since = asked.since.unwrap_or(DEFAULT_SINCE).at(earning.clock.now());
    Ok(Json(Answer { ok: true, report: earning.sales.host_report(since).await? }))
}

/// A response serialized directly from the report, which can have a line for each of many tools.
#[derive(Serialize)]
struct Answer<T> {
    ok: bool,
    #[serde(flatten)]
    report: T,
}
