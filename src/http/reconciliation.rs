//! `/ai/admin/reconciliation`: compares transfers on the chain to the paid address with the ledger.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use tollhouse_front::{ApiError, Code, cursor};
use tollhouse_money::{BlockRange, ReconcileError, Reconciliation};

use super::{
    auth::Admin,
    page::{TimeParam, bad_cursor},
    route::{Route, get},
    services::MoneyServices,
};

/// The default period: one day, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    ok: bool,
    #[serde(flatten)]
    page: Reconciliation,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) fn routes() -> Vec<Route> {
    let what = "transfers on the chain that no receipt names, and receipts whose transfer is not there";
    vec![
        get("/ai/admin/reconciliation", "reconcile", what, reconcile)
            .answers("Reconciliation")
            .fails(&[Code::InvalidRequest, Code::FacilitatorUnavailable]),
    ]
}

async fn reconcile(Admin(requested): Admin<Wanted>, State(earning): State<Arc<MoneyServices>>) -> Result<Json<Answer>, ApiError> {
    let network = requested.network.as_deref();
    let range = match &requested.cursor {
        Some(text) => read_cursor(text).ok_or_else(bad_cursor)?,
        None => {
            let now = earning.clock.now();
            let since = requested.since.map_or(tollhouse_base::clock::Timestamp(now.0.saturating_sub(DAY_MS)), |since| since.at(now));
            earning.payments.blocks_since(network, since).await.map_err(fault)?.1
        }
    };
    let page = earning.payments.reconcile(network, range).await.map_err(fault)?;
    let next_cursor = page.rest.map(|rest| cursor::write(BY_BLOCK, format!("{}-{}", rest.first, rest.last).as_bytes()));
    Ok(Json(Answer { ok: true, page, next_cursor }))
}

fn read_cursor(text: &str) -> Option<BlockRange> {
    let text = String::from_utf8(cursor::read(BY_BLOCK, text)?).ok()?;
    let (first, last) = text.split_once('-')?;
    let range = BlockRange { first: first.parse().ok()?, last: last.parse().ok()? };
    (range.first <= range.last).then_some(range)
}

fn fault(error: ReconcileError) -> ApiError {
    match error {
        ReconcileError::UnknownNetwork(_) | ReconcileError::NoNode(_) => ApiError::bad_request(error.to_string()),
        ReconcileError::Node(reason) => ApiError::from(Code::FacilitatorUnavailable).hint(reason),
        ReconcileError::Store(error) => error.into(),
    }
}
