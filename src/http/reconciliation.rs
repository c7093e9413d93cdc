//! `/ai/admin/reconciliation`: compares transfers on the chain to the paid address with the ledger.

use tollhouse_api::Reconciliation;
use tollhouse_base::time_param::TimeParam;
use tollhouse_front::{Code, cursor};
use tollhouse_money::BlockRange;

use crate::{Admin, Http, Json, JsonResult, Route, State, bad_cursor, get, query};

/// The default period.
const DEFAULT_SINCE: TimeParam = TimeParam::days(1);

/// The list that cursors are bound to.
const BY_BLOCK: &[&str] = &["by block"];

// The default is the first network in the settings.
query!(Wanted { network: Option<String>, since: Option<TimeParam>, cursor: Option<String> });

pub(super) fn routes() -> Vec<Route> {
    let what = "transfers on the chain without a receipt, and receipts without a transfer on the chain";
    vec![
        get("/ai/admin/reconciliation", "reconcile", what, reconcile)
            .answers("Reconciliation")
            .fails(&[Code::InvalidRequest, Code::FacilitatorUnavailable]),
    ]
}

async fn reconcile(Admin(requested): Admin<Wanted>, State(http): State<Http>) -> JsonResult<Reconciliation> {
    let network = requested.network.as_deref();
    let range = match &requested.cursor {
        Some(text) => read_cursor(text).ok_or_else(bad_cursor)?,
        None => {
            let since = requested.since.unwrap_or(DEFAULT_SINCE).at(http.clock.now());
            http.payments.blocks_since(network, since).await?.1
        }
    };
    let (page, rest) = http.payments.reconcile(network, range).await?;
    let next_cursor = rest.map(|rest| cursor::write(BY_BLOCK, format!("{}-{}", rest.first, rest.last).as_bytes()));
    Ok(Json(Reconciliation { next_cursor, ..page }))
}

fn read_cursor(text: &str) -> Option<BlockRange> {
    let text = String::from_utf8(cursor::read(BY_BLOCK, text)?).ok()?;
    let (first, last) = text.split_once('-')?;
    let range = BlockRange { first: first.parse().ok()?, last: last.parse().ok()? };
    (range.first <= range.last).then_some(range)
}
