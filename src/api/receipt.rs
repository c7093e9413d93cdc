//! Receipts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{constant::True, money::MicroUsd, refund::Refund, time::Timestamp, tool::SettleBefore};

/// The signed record of a call and its payment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Id of the receipt.
    pub receipt_id: String,
    /// The tool.
    pub slug: String,
    /// How the call was paid.
    pub kind: ReceiptKind,
    /// Whether the payment was play money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated: Option<bool>,
    /// Present if the payment was settled before the run. `resultHash` is absent until the tool has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<SettleBefore>,
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
    /// It was free.
    Free,
    /// With x402.
    X402,
    /// With developer credit.
    Credit,
}

/// A receipt with its refunds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptResponse {
    /// Always true.
    pub ok: True,
    /// The receipt.
    pub receipt: Receipt,
    /// Its refunds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunds: Option<Vec<Refund>>,
    /// The sum of its refunds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refunded_usd: Option<MicroUsd>,
    /// Present after a reorganization of the chain removed the payment's transaction from all blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Reorganization>,
}

/// The current state of a payment that a reorganization of the chain undid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Reorganization {
    /// `reorganized`: `transaction` is in no block, and the money has not moved. `settled`: `transaction` has made the payment in place of
    /// those in `former`.
    pub state: ReorganizationState,
    /// The transaction.
    pub transaction: String,
    /// When the host noticed.
    pub since: Timestamp,
    /// Why the money can no longer move. Present once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<SettlementLoss>,
    /// If `settled`, the transactions that reorganizations dropped, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<Vec<String>>,
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
