//! `/ai/builders/revenue` and `/ai/admin/revenue`: what a builder's endpoints earned, and what the host did.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};

use super::{
    auth::{Admin, Books, OfBuilder},
    page::{Asked, Span},
};
use crate::{
    app::App,
    front::Fault,
    money::sale::{HostReport, Report},
    tool::Owner,
};

const DEFAULT_SINCE: Span = Span::days(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Since {
    since: Option<Span>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Own {
    builder_id: Option<String>,
    since: Option<Span>,
}

impl OfBuilder for Own {
    fn builder_id(&self) -> Option<&str> {
        self.builder_id.as_deref()
    }
}

/// Whole UTC days, from the one that `since` falls on.
pub(super) async fn revenue(Books(builder, asked): Books<Own>, State(app): State<Arc<App>>) -> Result<Json<Answer<Report>>, Fault> {
    let since = asked.since.unwrap_or(DEFAULT_SINCE).before(app.clock.now());
    let report = app.sales.report(&Owner::Builder(builder.id), since).await?;
    Ok(Json(Answer { ok: true, report }))
}

/// What the host itself earned, by the same days.
pub(super) async fn platform(_: Admin, State(app): State<Arc<App>>, Asked(asked): Asked<Since>) -> Result<Json<Answer<HostReport>>, Fault> {
    let since = asked.since.unwrap_or(DEFAULT_SINCE).before(app.clock.now());
    Ok(Json(Answer { ok: true, report: app.sales.host_report(since).await? }))
}

/// Written as it is: a report may have a line for each of many endpoints.
#[derive(Serialize)]
pub(super) struct Answer<T> {
    ok: bool,
    #[serde(flatten)]
    report: T,
}
