//! Payments, receipts and refunds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_base::{clock::Timestamp, id::PaymentId};
use tollhouse_tool::MicroUsd;

use crate::{SettleBefore, True};

/// The state of a payment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PaymentResponse {
    pub ok: True,
    /// The payment.
    pub payment: Payment,
}

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Payment {
    /// Id of the payment.
    pub payment_id: PaymentId,
    /// Its state.
    pub state: PaymentState,
    /// Its receipt. Only for callers who show the payment or its credit, the owner of the tool, and admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its transaction. For the same readers as the receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// When its state changed.
    pub updated_at: Timestamp,
    /// Present after a reorganization of the chain removed the payment's transaction from all blocks. For the same readers as the
    /// receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Reorganization>,
}

impl Payment {
    /// Removes details of the purchase, for public use. Anybody who reads the chain can compute payment ids, and a
    /// receipt names the tool.
    #[must_use]
    pub fn without_purchase(self) -> Self {
        Self { receipt_id: None, transaction: None, settlement: None, ..self }
    }
}

/// The state of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PaymentState {
    // The store has the positions of the variants.
    /// It is reserved for a call that runs.
    Reserved,
    /// It is being settled.
    Settling,
    /// It was settled.
    Settled,
    /// It was refused.
    Refused,
    /// It was released without being charged.
    Released,
    /// Its settlement has an unknown outcome.
    Unresolved,
    /// It was settled before the run, and the answer is still owed.
    Owed,
}

/// The signed record of a call and its payment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Id of the receipt.
    pub receipt_id: String,
    /// The tool.
    pub slug: String,
    /// How the call was paid.
    pub kind: ReceiptKind,
    /// Hash of the version that ran.
    pub version: String,
    /// The price of the call.
    pub price_usd: MicroUsd,
    /// When the call began.
    pub started_at: Timestamp,
    /// When the receipt was made.
    pub issued_at: Timestamp,
    /// URL of the tool.
    pub resource_url: String,
    /// Hash of the request.
    pub request_hash: String,
    /// Hash of the result. Absent while the answer of a payment that was settled before the run is owed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_hash: Option<String>,
    /// The maximum that the payer authorized, if the handler sets the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_price_usd: Option<MicroUsd>,
    /// The quote that set the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote_id: Option<String>,
    /// Whether the owner made the call, free of charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<bool>,
    /// The amount in the smallest unit of the token, of a payment with x402.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// Address of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// The network, as CAIP-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The payer's address, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payer: Option<String>,
    /// The scheme of x402.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The transaction that settled the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// Whether the payment was play money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated: Option<bool>,
    /// Present if the payment was settled before the run, or before the first byte of a streamed answer. `resultHash`
    /// is absent until the tool has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<SettleBefore>,
    /// Present if the answer was streamed. `resultHash` is absent unless all of it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streamed: Option<bool>,
    /// Compact JWS (EdDSA) over the canonical JSON of the other fields.
    pub signature: String,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How a call was paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ReceiptKind {
    // The store has the positions of the variants.
    /// With x402.
    X402,
    /// With developer credit.
    Credit,
    /// It was free.
    Free,
}

/// A receipt with its refunds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReceiptResponse")]
pub struct ReceiptResponse<R = Receipt> {
    pub ok: True,
    /// The receipt.
    pub receipt: R,
    /// Its refunds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refunds: Vec<Refund>,
    /// The sum of its refunds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunded_usd: Option<MicroUsd>,
    /// Present after a reorganization of the chain removed the payment's transaction from all blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Reorganization>,
}

/// The current state of a payment that a reorganization of the chain undid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Reorganization {
    /// `reorganized`: `transaction` is in no block, and the money has not moved. `settled`: `transaction` has made the payment in place of
    /// those in `former`.
    pub state: ReorganizationState,
    /// The transaction to which `state` refers.
    pub transaction: String,
    /// If `settled`, the transactions that reorganizations dropped, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
    /// When the host noticed.
    pub since: Timestamp,
    /// Why the money can no longer move. Present once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<SettlementLoss>,
}

/// The state of a payment after a reorganization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ReorganizationState {
    /// Its transaction is in no block.
    Reorganized,
    /// Another transaction has made the payment.
    Settled,
}

/// Why the money of a payment that a reorganization undid can no longer move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum SettlementLoss {
    /// The payer canceled the authorization.
    Canceled,
    /// The payer used the nonce for another transfer.
    UsedElsewhere,
    /// The authorization expired unused.
    Expired,
}

/// A refund, as everyone sees it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// The amount, in US dollars.
    pub amount_usd: MicroUsd,
    /// When it was given.
    pub at: Timestamp,
    /// The transaction that returned the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
}

/// The request to refund a receipt.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefundRequest {
    /// Id of the receipt.
    pub receipt_id: String,
    /// The amount, in US dollars. Default: everything that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_usd: Option<MicroUsd>,
    /// The reason for the refund.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For a payment with x402, the transaction that returned the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
}

/// The result of a refund.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RefundResponse")]
pub struct RefundResponse<R = GivenRefund> {
    pub ok: True,
    /// The refund.
    pub refund: R,
    /// The sum of all refunds of the receipt.
    pub refunded_usd: MicroUsd,
}

/// A refund, as admins see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct GivenRefund {
    /// Id of the receipt.
    pub receipt_id: String,
    /// The amount, in US dollars.
    pub amount_usd: MicroUsd,
    /// When it was given.
    pub at: Timestamp,
    /// The transaction that returned the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// The reason for the refund.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Present if the transaction is also recorded for another receipt or payout, or if a reorganization of the chain has undone the
    /// payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}
