//! Receipts, payments, and the keys that receipts are signed with.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};
use tollhouse_base::id::ReceiptId;
use tollhouse_front::{Code, Fault};
use tollhouse_money::{PaymentId, refund::Refund};

use super::{
    page::PathParams,
    route::{Route, open},
    services::Proving,
};

/// The routes of this file.
pub(super) fn routes() -> Vec<Route> {
    vec![
        open::get("/ai/receipts/{id}", "getReceipt", "a signed receipt", receipt)
            .answers("ReceiptAnswer")
            .for_agents()
            .fails(&[Code::UnknownReceipt]),
        open::get("/ai/payments/{id}", "getPayment", "what became of a payment", payment)
            .answers("PaymentAnswer")
            .for_agents()
            .fails(&[Code::UnknownPayment]),
        open::get("/.well-known/jwks.json", "getReceiptKeys", "the keys that receipts are signed with", jwks)
            .answers("KeySet")
            .for_agents(),
    ]
}

async fn receipt(State(proving): State<Arc<Proving>>, PathParams(id): PathParams<String>) -> Result<Json<Value>, Fault> {
    let unknown = || Fault::from(Code::UnknownReceipt);
    let id: ReceiptId = id.parse().map_err(|_| unknown())?;
    let receipt = proving.receipts.find(id.as_str()).await?.ok_or_else(unknown)?;
    let refunded = proving.refunds.of(&id).await?;
    let mut answer = json!({ "ok": true, "receipt": receipt });
    // Beside the receipt: what is signed stays as it was.
    if !refunded.refunds.is_empty() {
        answer["refunds"] = refunded.refunds.iter().map(Refund::public).collect();
        answer["refundedUsd"] = json!(refunded.sum());
    }
    if let Some(reorganized) = proving.gate.reorganized(&id).await? {
        answer["settlement"] = json!({ "state": "reorganized", "transaction": reorganized.transaction(), "since": reorganized.at });
    }
    Ok(Json(answer))
}

/// The state of one payment, so that a caller whose connection broke need not pay to find out.
async fn payment(State(proving): State<Arc<Proving>>, PathParams(id): PathParams<String>) -> Result<Json<Value>, Fault> {
    let unknown =
        || Fault::from(Code::UnknownPayment).hint("the id is in `X-Payment-Id`, in the `accepted` event, and in errors about the payment");
    let id: PaymentId = id.parse().map_err(|_| unknown())?;
    let state = proving.gate.state(&id).await?.ok_or_else(unknown)?;
    Ok(Json(json!({ "ok": true, "payment": state })))
}

async fn jwks(State(proving): State<Arc<Proving>>) -> Json<Value> {
    Json(proving.keys.jwks().await)
}
