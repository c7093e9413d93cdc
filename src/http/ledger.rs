//! `/ai/admin/ledger`: account balances, and whether they match their entries.

use tollhouse_api::Ledger;
use tollhouse_money::ledger;

use crate::{Admin, Http, Json, JsonResult, PageQuery, Route, State, get};

pub(super) fn routes() -> Vec<Route> {
    let what = "the accounts of the ledger, and the result of its checks";
    vec![get("/ai/admin/ledger", "readLedger", what, read).answers("Ledger")]
}

async fn read(Admin(query): Admin<PageQuery>, State(http): State<Http>) -> JsonResult<Ledger> {
    Ok(Json(ledger::read(&*http.store, query.limit.0, query.cursor.as_deref()).await?))
}
