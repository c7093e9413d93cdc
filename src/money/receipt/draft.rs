//! The data that a receipt is made from: the call and its payment.

use serde::{Deserialize, Serialize};
pub use tollhouse_api::ReceiptKind as PaymentKind;
use tollhouse_base::{
    clock::Timestamp,
    id::{EndpointId, ReceiptId},
};
use tollhouse_tool::{MicroUsd, SettleTime, Slug};

/// The part of a receipt that is known before the money moves. It is stored with the intent to settle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptDraft {
    /// The receipt's id.
    pub receipt_id: ReceiptId,
    /// The tool that was called.
    pub slug: Slug,
    /// The id behind the slug.
    pub endpoint_id: EndpointId,
    /// Hash of the handler that ran.
    pub version: String,
    /// The price of the call. Zero if the tool's owner called it.
    pub price_usd: MicroUsd,
    /// The quote that set the price, if the call named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_id: Option<String>,
    /// The maximum that the payer authorized, if the tool is metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_price_usd: Option<MicroUsd>,
    /// Whether the tool's owner called it free of charge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
    /// The tool's URL, as in the payment requirements.
    pub resource_url: String,
    /// [`super::request_hash`] of the call.
    pub request_hash: String,
    /// [`super::json_hash`] of the result, or [`super::bytes_hash`] if it is not JSON. Empty while the answer of a
    /// payment that was settled before the run is owed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result_hash: String,
    /// Whether the payment was settled before the run. Then `issued_at` is the time of the settlement.
    #[serde(default, skip_serializing_if = "SettleTime::is_after")]
    pub settle: SettleTime,
    /// When the call began.
    pub started_at: Timestamp,
    /// When the receipt was made.
    pub issued_at: Timestamp,
}
