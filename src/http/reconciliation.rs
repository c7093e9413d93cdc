//! `/ai/admin/reconciliation`: compares transfers on the chain to the paid address with the ledger.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use tollhouse_api::{DoubledTransaction, MissingTransfer, Reconciliation, True, UnknownTransfer};
use tollhouse_front::{ApiError, Code, cursor};
use tollhouse_money::BlockRange;

use super::{
    auth::Admin,
    page::{TimeParam, bad_cursor},
    route::{Route, get},
    services::MoneyServices,
};

/// The default period.
const DEFAULT_SINCE: TimeParam = TimeParam::days(1);

/// The list that cursors are bound to.
const BY_BLOCK: &[&str] = &["by block"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Default: the first network in the settings.
    network: Option<String>,
    since: Option<TimeParam>,
    cursor: Option<String>,
}

pub(super) fn routes() -> Vec<Route> {
    let what = "transfers on the chain without a receipt, and receipts without a transfer on the chain";
    vec![
        get("/ai/admin/reconciliation", "reconcile", what, reconcile)
            .answers("Reconciliation")
            .fails(&[Code::InvalidRequest, Code::FacilitatorUnavailable]),
    ]
}

async fn reconcile(Admin(requested): Admin<Wanted>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Reconciliation>, ApiError> {
    let network = requested.network.as_deref();
    let range = match &requested.cursor {
        Some(text) => read_cursor(text).ok_or_else(bad_cursor)?,
        None => {
            let since = requested.since.unwrap_or(DEFAULT_SINCE).at(earning.clock.now());
            earning.payments.blocks_since(network, since).await?.1
        }
    };
    let page = earning.payments.reconcile(network, range).await?;
    let next_cursor = page.rest.map(|rest| cursor::write(BY_BLOCK, format!("{}-{}", rest.first, rest.last).as_bytes()));
    let unknown = page.unknown.into_iter().map(|transfer| UnknownTransfer {
        transaction: transfer.transaction,
        block: transfer.block,
        log_index: transfer.log_index,
        from: transfer.from,
        asset: transfer.asset.into(),
        amount: transfer.amount,
    });
    let missing = page.missing.into_iter().map(|transfer| MissingTransfer {
        receipt_id: transfer.receipt_id,
        transaction: transfer.transaction,
        asset: transfer.asset,
        amount: transfer.amount,
    });
    let doubled = page.doubled.into_iter().map(|doubled| DoubledTransaction {
        transaction: doubled.transaction,
        transfers: doubled.transfers,
        receipt_ids: doubled.receipt_ids,
    });
    Ok(Json(Reconciliation {
        ok: True,
        network: page.network.into(),
        from_block: page.from_block,
        to_block: page.to_block,
        transfers: page.transfers,
        receipts: page.receipts,
        unknown: unknown.collect(),
        missing: missing.collect(),
        doubled: doubled.collect(),
        truncated: page.truncated,
        agrees: page.agrees,
        next_cursor,
    }))
}

fn read_cursor(text: &str) -> Option<BlockRange> {
    let text = String::from_utf8(cursor::read(BY_BLOCK, text)?).ok()?;
    let (first, last) = text.split_once('-')?;
    let range = BlockRange { first: first.parse().ok()?, last: last.parse().ok()? };
    (range.first <= range.last).then_some(range)
}
