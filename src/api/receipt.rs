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
    /// Present while a reorganization of the chain has removed the payment's transaction from all blocks. The money has not moved then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Reorganization>,
}

/// A reorganization of the chain that undid a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Reorganization {
    /// Always `reorganized`.
    pub state: ReorganizedState,
    /// The transaction.
    pub transaction: String,
    /// When the host noticed.
    pub since: Timestamp,
}

/// The state of a payment that a reorganization undid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ReorganizedState {
    /// Its transaction is in no block.
    Reorganized,
}
