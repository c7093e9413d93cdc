//! Quotes for calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{constant::True, money::MicroUsd, time::Timestamp};

/// The request for a quote for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuoteRequest {
    /// The tool.
    pub slug: String,
    /// The network that the caller has money on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_network: Option<String>,
    /// The token that the caller has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_asset: Option<String>,
    /// The caller's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_address: Option<String>,
}

/// A price that is valid until it expires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    /// Always true.
    pub ok: True,
    /// Id of the quote, for `X-Quote-Id`.
    pub quote_id: String,
    /// The tool.
    pub slug: String,
    /// Its id.
    pub endpoint_id: String,
    /// Price of a call.
    pub price_usd: MicroUsd,
    /// The parts of the total.
    pub lines: Vec<QuoteLine>,
    /// The total cost of a call.
    pub total_usd: MicroUsd,
    /// The currency.
    pub currency: String,
    /// When the quote was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// The ways to pay, for clients of v2.
    pub accepts: Vec<Map<String, Value>>,
    /// The ways to pay, for clients of v1.
    pub accepts_v1: Vec<Map<String, Value>>,
    /// The route from the caller's token to an accepted one.
    pub payment_route: Value,
}

/// A part of the cost of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct QuoteLine {
    /// The kind of cost.
    pub kind: String,
    /// The amount.
    pub amount_usd: MicroUsd,
    /// Description.
    pub what: String,
}
