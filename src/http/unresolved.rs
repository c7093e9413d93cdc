//! `/ai/admin/unresolved`: settlements with an unknown result, and decisions of admins about them.

use tollhouse_api::{PaymentResponse, SettlementDecision, SettlementVerdict, True, UnresolvedPage};
use tollhouse_base::id::PaymentId;
use tollhouse_front::{ApiError, Code, PathParams};
use tollhouse_money::Resolution;

use crate::{Admin, Body, Http, Json, JsonResult, PageQuery, Route, State, Subject as _, get, last_if_full, parse_cursor, post};

pub(super) fn routes() -> Vec<Route> {
    let what = "settlements whose result was still unknown when the host stopped checking";
    vec![
        get("/ai/admin/unresolved", "listUnresolved", what, list).answers("UnresolvedPage"),
        post(
            "/ai/admin/unresolved/{id}",
            "resolveSettlement",
            "records the result of such a settlement, or looks it up on the chain",
            resolve,
        )
        .takes("SettlementVerdict")
        .answers("PaymentResponse")
        .fails(&[Code::InvalidDecision, Code::UnknownPayment, Code::WrongState, Code::FacilitatorUnavailable]),
    ]
}

async fn list(Admin(query): Admin<PageQuery>, State(http): State<Http>) -> JsonResult<UnresolvedPage> {
    let settlements = http.payments.unresolved(parse_cursor(query.cursor)?.as_ref(), query.limit.0).await?;
    let next_cursor = last_if_full(&settlements, query.limit).map(|last| last.payment_id.clone());
    Ok(Json(UnresolvedPage { ok: True, settlements, next_cursor }))
}

async fn resolve(
    _: Admin,
    State(http): State<Http>,
    PathParams(id): PathParams,
    Body(SettlementVerdict { decision, transaction }): Body<SettlementVerdict>,
) -> JsonResult<PaymentResponse> {
    let id: PaymentId = id.parse().map_err(|_| ApiError::from(Code::UnknownPayment))?;
    let wrong = |message| Err(ApiError::invalid(SettlementVerdict::CODE, message, "/transaction"));
    let resolution = match (decision, transaction) {
        (SettlementDecision::LookUp, None) => Resolution::LookUp,
        (SettlementDecision::Unpaid, None) => Resolution::Unpaid,
        (SettlementDecision::Paid, Some(transaction)) => Resolution::Paid { transaction },
        (SettlementDecision::Paid, None) => return wrong("a paid settlement needs the transaction that made the transfer"),
        (SettlementDecision::LookUp | SettlementDecision::Unpaid, Some(_)) => return wrong("only the decision `paid` takes a transaction"),
    };
    let payment = http.payments.resolve_unresolved(&id, &resolution).await?;
    Ok(Json(PaymentResponse { ok: True, payment }))
}
