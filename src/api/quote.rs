//! Quotes for calls, here and at other sellers, and routes to an accepted token.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::{MicroUsd, Slug};

use crate::{Method, True};

/// The request for a quote for a call.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Quote")]
pub struct QuoteResponse<Q = QuoteContent> {
    /// The quote.
    #[serde(flatten)]
    pub quote: Q,
    pub ok: True,
}

/// The content of a quote.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct QuoteContent {
    /// Id of the quote, for `X-Quote-Id`.
    pub quote_id: String,
    /// The tool.
    pub slug: String,
    /// Id of the tool.
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
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub accepts: Vec<PaymentRequirements>,
    /// The ways to pay, for clients of v1.
    pub accepts_v1: Vec<Map<String, Value>>,
    /// The route from the caller's token to an accepted one.
    pub payment_route: Value,
}

/// A way to pay for a call, as in x402 v2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PaymentRequirements {
    /// The scheme: `exact`, or `upto` for a maximum.
    pub scheme: String,
    /// The network, as CAIP-2.
    pub network: String,
    /// The amount in the smallest unit of the token.
    pub amount: String,
    /// Address of the token.
    pub asset: String,
    /// The recipient's address.
    pub pay_to: String,
    /// Values that a client needs to sign, and `paymentFlow` if it is charged before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Map<String, Value>>,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A part of the cost of a call.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct QuoteLine {
    /// The kind of cost.
    pub kind: String,
    /// The amount, in US dollars.
    pub amount_usd: MicroUsd,
    /// Description.
    pub what: String,
}

/// The request for a route to a token that a tool accepts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversionRequest {
    /// The tool's slug.
    pub service_id: String,
    /// The network that the caller has money on.
    pub start_network: String,
    /// The token that the caller has.
    pub start_asset: String,
    /// The caller's address.
    pub from_address: Option<String>,
}

/// A route from the caller's token to one that a tool accepts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ConversionQuote")]
pub struct ConversionQuote<C = Conversion> {
    /// The route and its costs.
    #[serde(flatten)]
    pub conversion: C,
    /// The tool.
    pub service: ConversionService,
    pub ok: True,
}

/// A route and its costs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Conversion {
    /// The provider that computed the route.
    pub provider: String,
    /// Whether rates and fees are typical values, not offers.
    pub indicative: bool,
    /// The amount that the caller must spend.
    pub start: TokenAmount,
    /// The amount that arrives.
    pub settlement: SettlementAmount,
    /// The route.
    pub route: ConversionRoute,
    /// The estimated cost.
    pub estimated_cost: ConversionCost,
    /// The caller's next steps.
    pub handoff: ConversionHandoff,
    /// Notes about the route.
    pub notes: Vec<String>,
    /// The time of the rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates_as_of: Option<String>,
}

/// An amount of a token.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TokenAmount {
    /// The network.
    pub network: String,
    /// Symbol of the token.
    pub asset: String,
    /// The exact amount, as a decimal text.
    pub amount: String,
    /// Its value, in US dollars.
    pub usd: MicroUsd,
}

/// An amount of an accepted token.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SettlementAmount {
    /// The network.
    pub network: String,
    /// Symbol of the token.
    pub asset: String,
    /// Address of the token.
    pub asset_address: String,
    /// The exact amount, as a decimal text.
    pub amount: String,
    /// The amount in the smallest unit of the token.
    pub amount_atomic: String,
}

/// The steps of a route.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ConversionRoute {
    /// The steps.
    pub steps: Vec<Map<String, Value>>,
    /// The estimated duration, in seconds.
    pub seconds: u64,
}

/// The estimated cost of a conversion.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ConversionCost {
    /// Fees of the conversion.
    pub cost_usd: MicroUsd,
    /// Fees and price together.
    pub all_in_usd: MicroUsd,
}

/// The steps with which the caller converts and pays.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ConversionHandoff {
    /// The kind of handoff.
    pub kind: String,
    /// The actions, in order.
    pub actions: Vec<String>,
    /// The transaction to sign, from providers that prepare one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_request: Option<Value>,
}

/// The tool that a conversion pays.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ConversionService {
    /// The tool's slug.
    pub service_id: Slug,
    /// Price of a call.
    pub price_usd: MicroUsd,
    /// The URL to call.
    pub url: String,
}

/// The request for the price of another seller.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SellerQuoteRequest {
    /// The seller's URL.
    pub url: String,
    /// The method to ask with.
    pub method: Option<Method>,
    /// The network that the caller has money on.
    pub start_network: Option<String>,
    /// The token that the caller has.
    pub start_asset: Option<String>,
    /// The caller's address.
    pub from_address: Option<String>,
}

/// The price of another seller.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SellerQuote")]
pub struct SellerQuote<P = SellerPrice> {
    /// The price.
    #[serde(flatten)]
    pub price: P,
    /// The route from the caller's token to an accepted one.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub conversion: Option<Value>,
    pub ok: True,
}

/// The price of a seller, and how to pay.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SellerPrice {
    /// The seller's URL.
    pub url: String,
    /// The HTTP method of the request.
    pub method: Method,
    /// The versions of x402 that the seller speaks.
    #[serde(rename = "x402Versions")]
    pub x402_versions: Vec<u64>,
    /// The ways to pay.
    pub accepts: Vec<Map<String, Value>>,
    /// Time of the request to the seller.
    pub asked_at: Timestamp,
    /// Notes about the seller's answer.
    pub notes: Vec<Value>,
}
