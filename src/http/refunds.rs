//! `/ai/admin/refunds`: refunds payments of receipts.

use std::sync::Arc;

use axum::{Json, extract::State, http::HeaderMap};
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::id::ReceiptId;
use tollhouse_front::{ApiError, Code, header_names};
use tollhouse_money::{
    IdempotencyKey,
    receipt::json_hash,
    refund::{RefundError, RefundRequest},
};
use tollhouse_tool::MicroUsd;

use super::{
    auth::Admin,
    endpoints::{Body, Subject},
    route::{Route, post},
    services::{MoneyServices, ReceiptServices},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RefundQuery {
    receipt_id: String,
    /// Default: the whole remaining amount.
    amount_usd: Option<MicroUsd>,
    reason: Option<String>,
    /// The transaction of the refund, for payments with x402.
    transaction: Option<String>,
}

impl Subject for RefundQuery {
    const CODE: Code = Code::InvalidRefund;
}

pub(super) fn routes() -> Vec<Route> {
    let give = post("/ai/admin/refunds", "giveRefund", "gives back what a receipt paid, or a part of it", give);
    let give = give.reads_headers(&["Idempotency-Key"]).takes("RefundRequest").answers("RefundResponse");
    let refused = [Code::InvalidRefund, Code::UnknownReceipt, Code::NotRefundable, Code::RefundTooLarge, Code::PaymentReused];
    vec![give.fails(&refused).fails(&[Code::UnknownCredit, Code::CreditRevoked])]
}

/// Records a refund. With the same `Idempotency-Key` or the same transaction, a repeated request returns the same
/// refund.
async fn give(
    _: Admin,
    State(earning): State<Arc<MoneyServices>>,
    State(proving): State<Arc<ReceiptServices>>,
    headers: HeaderMap,
    Body(query): Body<RefundQuery>,
) -> Result<Json<Value>, ApiError> {
    let receipt: ReceiptId = query.receipt_id.parse().map_err(|_| RefundError::Unknown)?;
    let request = json!({
        "receiptId": receipt, "amountUsd": query.amount_usd, "reason": query.reason, "transaction": query.transaction,
    });
    let key = headers.get(&header_names::IDEMPOTENCY_KEY).map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let once = key.map(|key| IdempotencyKey::new(key, json_hash(&request))).transpose()?;
    let refunding = RefundRequest { receipt, amount: query.amount_usd, transaction: query.transaction, reason: query.reason };
    let given = match earning.refunds.issue(&refunding, once.as_ref()).await {
        // Receipts of free calls are stored elsewhere.
        Err(RefundError::Unknown) if proving.receipts.find(refunding.receipt.as_str()).await?.is_some() => {
            return Err(RefundError::NothingPaid.into());
        }
        given => given?,
    };
    Ok(Json(json!({ "ok": true, "refund": given.public(), "refundedUsd": given.refunded })))
}
