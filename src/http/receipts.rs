//! Receipts, payments, and the public keys of receipts.

use serde_json::Value;
use tollhouse_api::{Payment, PaymentResponse, ReceiptResponse, True};
use tollhouse_base::id::ReceiptId;
use tollhouse_call::CalledBy;
use tollhouse_front::{ApiError, Caller, Code, PathParams, header_names::shows_caller, offered};
use tollhouse_money::PaymentId;

use crate::{Http, Json, JsonResult, Parts, Request, Route, Services, State, convert, open};

/// Headers that identify a buyer.
const OF_BUYERS: &[&str] = &["PAYMENT-SIGNATURE", "X-PAYMENT", "X-Developer-Credit"];

/// The hint for a payment without a record.
const LOOK_FOR_CHARGE: &str =
    "Before you pay again, look for the charge: in GET /ai/credits for a credit, or among the transfers of your address";

pub(super) fn routes() -> Vec<Route> {
    vec![
        open::get("/ai/receipts/{id}", "getReceipt", "a signed receipt", receipt)
            .answers("ReceiptResponse")
            .for_agents()
            .fails(&[Code::UnknownReceipt]),
        open::get("/ai/payments/{id}", "getPayment", "the state of a payment", payment)
            .answers("PaymentResponse")
            .reads_headers(OF_BUYERS)
            .for_agents()
            .fails(&[Code::InvalidJson, Code::UnknownPayment]),
        open::get("/.well-known/jwks.json", "getReceiptKeys", "the keys that sign receipts", jwks).answers("JsonWebKeySet").for_agents(),
    ]
}

async fn receipt(State(http): State<Http>, PathParams(id): PathParams) -> JsonResult<ReceiptResponse<Value>> {
    let unknown = || ApiError::from(Code::UnknownReceipt);
    let id: ReceiptId = id.parse().map_err(|_| unknown())?;
    let receipt = http.receipts.find(id.as_str()).await?.ok_or_else(unknown)?;
    let refunded = http.refunds.of(&id).await?;
    let settlement = http.payments.reorganization(&id).await?;
    // Refunds are beside the receipt, because the signed receipt does not change.
    Ok(Json(ReceiptResponse {
        ok: True,
        receipt,
        refunds: refunded.refunds.iter().map(convert::refund).collect(),
        refunded_usd: (!refunded.refunds.is_empty()).then(|| refunded.sum()),
        settlement,
    }))
}

/// Returns the state of a payment, so that a caller whose connection broke need not pay to find out. The receipt, the
/// transaction and what a reorganization did to it are visible only to callers that show the payment or developer
/// credit used, to the owner of the tool, and to admins.
async fn payment(State(http): State<Http>, PathParams(id): PathParams, request: Request) -> JsonResult<PaymentResponse> {
    let (parts, _) = request.into_parts();
    let unknown = |hint: &str| ApiError::from(Code::UnknownPayment).hint(hint);
    let malformed = |_| unknown("Read the id from `X-Payment-Id`, the `accepted` event, or an error about the payment");
    let id: PaymentId = id.parse().map_err(malformed)?;
    // Payments with credit are deleted while their receipts stay, and without a key they have no record while they run.
    let state = http.payments.state(&id).await?.ok_or_else(|| unknown(LOOK_FOR_CHARGE))?;
    let is_shown = http.payments.is_payer(&id, &offered(&parts.headers)).await? || is_seller(&http, &parts, &state).await?;
    let state = if is_shown { state } else { state.without_purchase() };
    Ok(Json(PaymentResponse { ok: True, payment: state }))
}

/// Returns whether the request shows the credential of an admin or of the owner of the paid tool.
async fn is_seller(http: &Services, parts: &Parts, state: &Payment) -> Result<bool, ApiError> {
    let Parts { headers, extensions, .. } = parts;
    if !shows_caller(headers) {
        return Ok(false);
    }
    let callers = &http.shared.callers;
    if let Caller::Admin = callers.identify(headers, extensions).await?.admitted()? {
        return Ok(true);
    }
    let Some(receipt) = &state.receipt_id else { return Ok(false) };
    let Some(receipt) = http.receipts.find(receipt).await? else { return Ok(false) };
    let called = callers.called(&http.calls, headers, extensions, receipt["slug"].as_str().unwrap_or_default()).await;
    Ok(called.is_ok_and(|(_, by)| matches!(by, CalledBy::Owner)))
}

async fn jwks(State(http): State<Http>) -> Json<Value> {
    Json(http.receipt_keys.jwks().await)
}
