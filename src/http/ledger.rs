//! `/ai/admin/ledger`: account balances, and whether they match their entries.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use tollhouse_front::ApiError;
use tollhouse_money::ledger::{self, LedgerPage};

use super::{
    auth::Admin,
    page::PageLimit,
    route::{Route, get},
    services::MoneyServices,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pages {
    #[serde(default)]
    limit: PageLimit,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct LedgerResponse {
    ok: bool,
    #[serde(flatten)]
    reading: LedgerPage,
}

pub(super) fn routes() -> Vec<Route> {
    let what = "the accounts of the ledger, and whether they agree with what they are the sums of";
    vec![get("/ai/admin/ledger", "readLedger", what, read).answers("Ledger")]
}

async fn read(Admin(pages): Admin<Pages>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<LedgerResponse>, ApiError> {
    let reading = ledger::read(&*earning.store, pages.limit.0, pages.cursor.as_deref()).await?;
    Ok(Json(LedgerResponse { ok: true, reading }))
}
