//! Offers and receipts of x402's offer-receipt extension: their content and encoding.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
pub use tollhouse_api::ReceiptKind as PaymentKind;
use tollhouse_base::{
    clock::Timestamp,
    id::{EndpointId, ReceiptId},
};
use tollhouse_tool::{MicroUsd, SettleTime, Slug};

use crate::Settlement;

/// The format of signed offers and receipts in challenges and settlements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum OfferFormat {
    /// A compact JWS with the key of receipts
    #[default]
    Jws,
    /// Typed data with an address of the host's own
    Eip712,
}

/// The extension's receipt, as in the record and in a settlement's `extensions["offer-receipt"].info.receipt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferReceipt {
    /// Always `jws`.
    pub format: String,
    /// A compact JWS. Its `kid` is a `did:jwk` URL of a key in the host's JWK set.
    pub signature: String,
}

/// The payload of a receipt, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payload {
    pub(super) version: u8,
    pub(super) network: String,
    pub(super) resource_url: String,
    pub(super) payer: String,
    /// Seconds since 1970.
    pub(super) issued_at: u64,
    pub(super) transaction: String,
}

/// The payload of an offer, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Offer<'a> {
    pub(super) version: u8,
    pub(super) resource_url: &'a str,
    pub(super) scheme: &'a str,
    pub(super) network: &'a str,
    pub(super) asset: &'a str,
    pub(super) pay_to: &'a str,
    pub(super) amount: &'a str,
    /// Seconds since 1970.
    pub(super) valid_until: u64,
}

impl OfferReceipt {
    pub(super) const FORMAT: &'static str = "jws";

    /// Returns the `extensions` of a settle response with this receipt.
    pub fn extensions(&self) -> Value {
        extensions(&json!(self))
    }
}

pub(super) fn extensions(receipt: &Value) -> Value {
    json!({ "offer-receipt": { "info": { "receipt": receipt } } })
}

impl Payload {
    pub(super) fn new(draft: &ReceiptDraft, settlement: &Settlement) -> Self {
        Self {
            version: 1,
            network: settlement.network.clone(),
            resource_url: draft.resource_url.clone(),
            payer: settlement.payer.clone(),
            issued_at: draft.issued_at.as_secs(),
            transaction: settlement.transaction.clone(),
        }
    }
}

impl<'a> Offer<'a> {
    pub(super) fn new(resource_url: &'a str, accepted: &'a Value, valid_until: u64) -> Self {
        let text = |name: &str| accepted[name].as_str().unwrap_or_default();
        Self {
            version: 1,
            resource_url,
            scheme: text("scheme"),
            network: text("network"),
            asset: text("asset"),
            pay_to: text("payTo"),
            amount: text("amount"),
            valid_until,
        }
    }
}

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
    /// Whether the answer was streamed. Then `result_hash` is that of all bytes, and empty unless all were sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streamed: bool,
    /// Whether the payment was settled before the run, or before the first byte of a streamed answer. Then `issued_at`
    /// is the time of the settlement.
    #[serde(default, skip_serializing_if = "SettleTime::is_after")]
    pub settle: SettleTime,
    /// When the call began.
    pub started_at: Timestamp,
    /// When the receipt was made.
    pub issued_at: Timestamp,
}
