//! `/ai/admin/ledger`: account balances, and whether they match their entries.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use tollhouse_front::Fault;
use tollhouse_money::ledger::{self, Reading};

use super::{
    auth::Admin,
    page::Limit,
    route::{Route, get},
    services::Earning,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pages {
    #[serde(default)]
    limit: Limit,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    ok: bool,
    #[serde(flatten)]
    reading: Reading,
}

pub(super) fn routes() -> Vec<Route> {
    let what = "the accounts of the ledger, and whether they agree with what they are the sums of";
    vec![get("/ai/admin/ledger", "readLedger", what, read).answers("Ledger")]
}

async fn read(Admin(pages): Admin<Pages>, State(earning): State<Arc<Earning>>) -> Result<Json<Answer>, Fault> {
    let reading = ledger::read(&*earning.store, pages.limit.0, pages.cursor.as_deref()).await?;
    Ok(Json(Answer { ok: true, reading }))
}
