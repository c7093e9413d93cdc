//! What a receipt is made from: what the call says of itself, and how it was paid.

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{EndpointId, ReceiptId},
};
use tollhouse_tool::{MicroUsd, SettleTime, Slug};

/// All of a receipt that is known before the money moves. Stored with the intent to settle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    /// Its own id.
    pub receipt_id: ReceiptId,
    /// The tool that was called.
    pub slug: Slug,
    /// The endpoint behind the slug.
    pub endpoint_id: EndpointId,
    /// Hash of the handler that ran.
    pub version: String,
    /// What the call cost: nothing where its owner made it.
    pub price_usd: MicroUsd,
    /// The quote that set the price, where the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_id: Option<String>,
    /// What the payer had authorised, where the handler said what the call cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_price_usd: Option<MicroUsd>,
    /// Whether its owner called the tool, free of charge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
    /// The tool's address, as the payer was asked to pay for it.
    pub resource_url: String,
    /// [`super::request_hash`] of the call.
    pub request_hash: String,
    /// [`super::json_hash`] of the result, or [`super::bytes_hash`] where it is not JSON. Empty while the answer of a payment that was settled
    /// before the run is owed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result_hash: String,
    /// Whether the payment was settled before the run: then `issued_at` is when that was.
    #[serde(default, skip_serializing_if = "SettleTime::is_after")]
    pub settle: SettleTime,
    /// When the call began.
    pub started_at: Timestamp,
    /// When the receipt was made.
    pub issued_at: Timestamp,
}

/// How a call was paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payment {
    /// Nothing.
    Free,
    /// By developer credit, of this id.
    Credit {
        /// Id of the credit.
        credit: String,
    },
    /// Tokens, on a network.
    X402(Transfer),
}

/// A settled x402 payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// CAIP-2, for v1 payments too.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// In the asset's smallest units.
    pub amount: String,
    /// Hash of the transaction.
    pub transaction: String,
    /// Address, in full.
    pub payer: String,
    /// Scheme of x402.
    pub scheme: String,
    /// Wire version that it was paid in.
    pub x402_version: u8,
    /// True if a ledger of our own moved the balance, and no chain.
    pub simulated: bool,
}

/// How a call was paid, as its receipt says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// By x402.
    X402,
    /// By prepaid credit.
    Credit,
    /// Not at all.
    Free,
}
