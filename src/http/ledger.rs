//! `/ai/admin/ledger`: account balances, and whether they match their entries.

use std::sync::Arc;

use axum::{Json, extract::State};
use tollhouse_api::Ledger;
use tollhouse_front::ApiError;
use tollhouse_money::ledger;

use super::{
    auth::Admin,
    page::PageQuery,
    route::{Route, get},
    services::MoneyServices,
};

pub(super) fn routes() -> Vec<Route> {
    let what = "the accounts of the ledger, and the result of its checks";
    vec![get("/ai/admin/ledger", "readLedger", what, read).answers("Ledger")]
}

async fn read(Admin(query): Admin<PageQuery>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Ledger>, ApiError> {
    Ok(Json(ledger::read(&*earning.store, query.limit.0, query.cursor.as_deref()).await?))
}
