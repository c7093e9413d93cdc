//! `/ai/admin/ledger`: account balances, and whether they match their entries.

use std::sync::Arc;

use axum::{Json, extract::State};
use tollhouse_api::{Ledger, LedgerAccount, LedgerUnit, ReorganizedSettlement, True};
use tollhouse_front::ApiError;
use tollhouse_money::ledger;

use super::{
    auth::Admin,
    convert,
    page::PageQuery,
    route::{Route, get},
    services::MoneyServices,
};

pub(super) fn routes() -> Vec<Route> {
    let what = "the accounts of the ledger, and the result of its checks";
    vec![get("/ai/admin/ledger", "readLedger", what, read).answers("Ledger")]
}

async fn read(Admin(query): Admin<PageQuery>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Ledger>, ApiError> {
    let page = ledger::read(&*earning.store, query.limit.0, query.cursor.as_deref()).await?;
    let accounts = page.accounts.into_iter().map(|account| LedgerAccount {
        account: account.account,
        unit: account.unit,
        balance: account.balance,
        balance_usd: account.balance_usd,
        rows: account.rows,
        agrees: account.agrees,
    });
    let reorganized = page.reorganized.into_iter().map(|settlement| ReorganizedSettlement {
        receipt_id: settlement.receipt_id,
        network: settlement.network,
        transaction: settlement.transaction,
        since: settlement.since,
        lost: settlement.lost.map(convert::loss),
    });
    Ok(Json(Ledger {
        ok: True,
        opened_at: page.opened_at,
        units: page.units.into_iter().map(|unit| LedgerUnit { unit: unit.unit, sum: unit.sum }).collect(),
        accounts: accounts.collect(),
        next_cursor: page.next_cursor,
        agrees: page.agrees,
        unresolved_settlements: Some(page.unresolved_settlements).filter(|count| *count > 0),
        reorganized: reorganized.collect(),
    }))
}
