//! Refunds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{constant::True, money::MicroUsd, time::Timestamp};

/// A refund, as everyone sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refund {
    /// The amount.
    pub amount_usd: MicroUsd,
    /// When it was given.
    pub at: Timestamp,
    /// The transaction that returned the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
}

/// The request to refund a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefundRequest {
    /// The receipt.
    pub receipt_id: String,
    /// The amount. Default: everything that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_usd: Option<MicroUsd>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For a payment with x402, the transaction that returned the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
}

/// The result of a refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefundResponse {
    /// Always true.
    pub ok: True,
    /// The refund.
    pub refund: GivenRefund,
    /// The sum of all refunds of the receipt.
    pub refunded_usd: MicroUsd,
}

/// A refund, as admins see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct GivenRefund {
    /// The receipt.
    pub receipt_id: String,
    /// The amount.
    pub amount_usd: MicroUsd,
    /// When it was given.
    pub at: Timestamp,
    /// The transaction that returned the money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Present if the transaction is also recorded for another receipt or payout, or if a reorganization of the chain has undone the
    /// payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}
