//! Payouts of builders, and where and how they are paid.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, PayoutId},
};
use tollhouse_tool::MicroUsd;

use crate::True;

/// Receipts that are paid out together.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Payout {
    /// Id of the payout.
    pub id: PayoutId,
    /// Id of the builder.
    pub builder_id: BuilderId,
    /// The amount, in US dollars.
    #[serde(deserialize_with = "crate::sum")]
    pub amount_usd: MicroUsd,
    /// Number of its receipts.
    pub receipt_count: u64,
    /// Digest of its receipts.
    pub digest: Option<String>,
    /// Times of its first and last receipt.
    pub period: Option<PayoutPeriod>,
    /// The recipient's address.
    pub address: String,
    /// The network, as CAIP-2.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// The part of its receipts that is kept to balance earlier refunds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld_usd: Option<MicroUsd>,
    /// Its status.
    pub status: PayoutStatus,
    /// JWS of the host's key for receipts.
    pub signature: Option<String>,
    /// When its status changed.
    pub updated_at: Timestamp,
    /// The transaction that paid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// Why it failed or was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Present if the transaction is also recorded for another payout or for a refund. Names it for admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Name of the builder, null if there is none. Only in the list of all payouts.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::present_value")]
    #[schemars(extend("nullable" = true))]
    pub builder_name: Option<Option<String>>,
}

/// The times of the first and the last receipt of a payout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PayoutPeriod {
    /// Time of the first receipt.
    pub from: Timestamp,
    /// Time of the last receipt.
    pub to: Timestamp,
}

/// The status of a payout.
// The store has the positions of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PayoutStatus {
    /// Its receipts are being collected.
    Collecting,
    /// It waits for an admin.
    Created,
    /// An admin approved it.
    Approved,
    /// The money was sent.
    Paid,
    /// The money could not be sent.
    Failed,
    /// Its receipts are being returned to the builder's waiting revenue.
    Rejecting,
    /// An admin rejected it. Its receipts wait for another payout.
    Rejected,
}

impl PayoutStatus {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Created => "created",
            Self::Approved => "approved",
            Self::Paid => "paid",
            Self::Failed => "failed",
            Self::Rejecting => "rejecting",
            Self::Rejected => "rejected",
        }
    }
}

/// A payout.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PayoutResponse {
    pub ok: True,
    /// The payout.
    pub payout: Payout,
}

/// The result of creating a payout.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreatePayoutResponse {
    pub ok: True,
    /// The payout.
    pub payout: CreatedPayout,
}

/// A payout, or none if no receipt is left to pay out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum CreatedPayout {
    /// The created payout.
    Payout(Box<Payout>),
    /// No payout.
    Empty(EmptyPayout),
}

/// No payout: there is nothing to pay out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct EmptyPayout {
    /// Always null.
    pub id: (),
    /// Always `empty`.
    #[schemars(extend("const" = "empty"))]
    pub status: Cow<'static, str>,
    /// Always 0.
    #[schemars(extend("const" = 0))]
    pub amount_usd: u64,
    /// Always 0.
    #[schemars(extend("const" = 0))]
    pub receipt_count: u64,
}

/// A page of a builder's payouts, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutPage {
    pub ok: True,
    /// The payouts.
    pub payouts: Vec<Payout>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<PayoutId>,
}

/// A page of all payouts, newest first, with their number by status.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllPayoutsPage {
    pub ok: True,
    /// The payouts.
    pub payouts: Vec<Payout>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<PayoutId>,
    /// The number of payouts by status.
    pub counts: PayoutCounts,
}

/// The number of payouts by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Payouts whose receipts are being returned.
    pub rejecting: u64,
    /// Payouts that an admin rejected.
    pub rejected: u64,
}

/// A payout with a page of its receipts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutReceiptPage {
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PayoutReceipt {
    /// Id of the receipt.
    pub receipt_id: String,
    /// The builder's share of the sale, in US dollars.
    pub net_usd: MicroUsd,
}

/// An admin's decision about a payout.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PayoutVerdict {
    /// The decision.
    pub decision: PayoutDecision,
    /// With `paid`, the transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// With `failed` and `reject`, the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An admin's decision about a payout.
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
    /// It is not paid, and its receipts wait for another payout.
    Reject,
}

/// Where and how a builder is paid.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutSettings {
    /// The recipient's address.
    pub address: String,
    /// The network, as CAIP-2.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// Minimum amount of a payout.
    pub minimum_usd: MicroUsd,
    /// When the settings were changed.
    pub updated_at: Timestamp,
    /// Number of times that they were set.
    pub revision: u64,
}

/// The payout settings of a builder, and what waits to be paid out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayoutSettingsResponse {
    pub ok: True,
    /// The settings. Null before they are first set.
    pub payout_settings: Option<PayoutSettings>,
    /// Amounts that wait to be paid out.
    pub waiting: WaitingPayout,
}

/// Amounts that wait to be paid out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct WaitingPayout {
    /// Amount of the next payout, whatever the minimum.
    #[serde(deserialize_with = "crate::sum")]
    pub amount_usd: MicroUsd,
    /// Number of receipts that are in no payout, up to 10,000.
    pub receipt_count: u64,
}

/// The request to change payout settings.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PayoutSettingsDraft {
    /// The recipient's address.
    pub address: String,
    /// The network, by name or as CAIP-2. Default: the host's first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The token, by symbol or address. Default: the first of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// Minimum amount of a payout. Default: 1 USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_usd: Option<MicroUsd>,
}
