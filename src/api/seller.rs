//! Prices of other sellers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{call::Method, constant::True, time::Timestamp};

/// The request for the price of another seller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SellerQuoteRequest {
    /// The seller's URL.
    pub url: String,
    /// The method to ask with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
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

/// The price of another seller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SellerQuote {
    /// Always true.
    pub ok: True,
    /// The seller's URL.
    pub url: String,
    /// The method that was asked with.
    pub method: Method,
    /// The versions of x402 that the seller speaks.
    #[serde(rename = "x402Versions")]
    pub x402_versions: Vec<u64>,
    /// The ways to pay.
    pub accepts: Vec<Map<String, Value>>,
    /// When the seller was asked.
    pub asked_at: Timestamp,
    /// Notes about the seller's answer.
    pub notes: Vec<Value>,
    /// The route from the caller's token to an accepted one.
    pub conversion: Option<Map<String, Value>>,
}
