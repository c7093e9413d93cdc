//! Payouts of builders.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    constant::{Number, True},
    money::MicroUsd,
    present::present,
    time::Timestamp,
};

/// Receipts that are paid out together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Payout {
    /// Id of the payout.
    pub id: String,
    /// The builder.
    pub builder_id: String,
    /// Name of the builder. Only in the list of all payouts.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub builder_name: Option<Option<String>>,
    /// The amount.
    pub amount_usd: MicroUsd,
    /// Number of its receipts.
    pub receipt_count: u64,
    /// Digest of its receipts.
    pub digest: String,
    /// Times of its first and last receipt.
    pub period: Value,
    /// The recipient's address.
    pub address: String,
    /// The network, as CAIP-2.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its status.
    pub status: PayoutStatus,
    /// JWS of the host's key for receipts.
    pub signature: Option<String>,
    /// When its status changed.
    pub updated_at: Timestamp,
    /// The part of its receipts that is kept to balance earlier refunds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld_usd: Option<MicroUsd>,
    /// The transaction that paid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The status of a payout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PayoutStatus {
    /// It waits for an admin.
    Created,
    /// An admin approved it.
    Approved,
    /// The money was sent.
    Paid,
    /// The money could not be sent.
    Failed,
}

/// A payout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutResponse {
    /// Always true.
    pub ok: True,
    /// The payout.
    pub payout: Payout,
}

/// The result of creating a payout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatePayoutResponse {
    /// Always true.
    pub ok: True,
    /// The payout.
    pub payout: CreatedPayout,
}

/// A payout, or none if no receipt is left to pay out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum CreatedPayout {
    /// The created payout.
    Payout(Box<Payout>),
    /// No payout.
    Empty(EmptyPayout),
}

/// No payout: there is nothing to pay out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EmptyPayout {
    /// Always null.
    pub id: (),
    /// Always `empty`.
    pub status: EmptyStatus,
    /// Always 0.
    pub amount_usd: Number<0>,
    /// Always 0.
    pub receipt_count: Number<0>,
}

/// The status of no payout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum EmptyStatus {
    /// There is nothing to pay out.
    #[default]
    Empty,
}

/// A page of a builder's payouts, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutPage {
    /// Always true.
    pub ok: True,
    /// The payouts.
    pub payouts: Vec<Payout>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A page of all payouts, newest first, with their number by status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllPayoutsPage {
    /// Always true.
    pub ok: True,
    /// The payouts.
    pub payouts: Vec<Payout>,
    /// The number of payouts by status.
    pub counts: PayoutCounts,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The number of payouts by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PayoutCounts {
    /// Payouts whose receipts are still being collected.
    pub collecting: u64,
    /// Payouts that wait for an admin.
    pub created: u64,
    /// Payouts that an admin approved.
    pub approved: u64,
    /// Payouts whose money was sent.
    pub paid: u64,
    /// Payouts whose money could not be sent.
    pub failed: u64,
}

/// A payout with a page of its receipts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutReceiptPage {
    /// Always true.
    pub ok: True,
    /// The payout.
    pub payout: Payout,
    /// Its receipts.
    pub receipts: Vec<PayoutReceipt>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A receipt in a payout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PayoutReceipt {
    /// The receipt.
    pub receipt_id: String,
    /// The builder's part of it.
    pub net_usd: MicroUsd,
}

/// An admin's decision about a payout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PayoutVerdict {
    /// The decision.
    pub decision: PayoutDecision,
    /// With `paid`, the transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// With `failed`, the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What an admin decides about a payout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PayoutDecision {
    /// It can be paid.
    Approve,
    /// The money was sent.
    Paid,
    /// The money could not be sent.
    Failed,
}
