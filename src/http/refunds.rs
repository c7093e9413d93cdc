//! `/ai/admin/refunds`: refunds payments of receipts.

use serde_json::{Value, json};
use tollhouse_api::{RefundRequest, RefundResponse, True};
use tollhouse_base::id::ReceiptId;
use tollhouse_front::Code;
use tollhouse_money::refund::{self, RefundError};

use crate::{Admin, Body, HeaderMap, Http, Json, JsonResult, Route, State, credits::idempotency_key, post};

pub(super) fn routes() -> Vec<Route> {
    let give = post("/ai/admin/refunds", "giveRefund", "refunds a receipt, in full or in part", give);
    let give = give.reads_headers(&["Idempotency-Key"]).takes("RefundRequest").answers("RefundResponse");
    let refused = [Code::InvalidRefund, Code::UnknownReceipt, Code::NotRefundable, Code::RefundTooLarge, Code::PaymentReused];
    vec![give.fails(&refused).fails(&[Code::UnknownCredit, Code::CreditRevoked])]
}

/// Records a refund. With the same `Idempotency-Key` or the same transaction, a repeated request returns the same
/// refund.
async fn give(
    _: Admin,
    State(http): State<Http>,
    headers: HeaderMap,
    Body(request): Body<RefundRequest>,
) -> JsonResult<RefundResponse<Value>> {
    let receipt: ReceiptId = request.receipt_id.parse().map_err(|_| RefundError::Unknown)?;
    let once = idempotency_key(&headers, &json!(request))?;
    let RefundRequest { amount_usd, reason, transaction, .. } = request;
    let refunding = refund::RefundRequest { receipt, amount: amount_usd, transaction, reason };
    let issued = match http.refunds.issue(&refunding, once.as_ref()).await {
        // Receipts of free calls are stored elsewhere.
        Err(RefundError::Unknown) if http.receipts.find(refunding.receipt.as_str()).await?.is_some() => {
            return Err(RefundError::NothingPaid.into());
        }
        issued => issued?,
    };
    Ok(Json(RefundResponse { ok: True, refund: issued.public(), refunded_usd: issued.refunded }))
}
