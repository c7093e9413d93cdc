//! Routes from a caller's token to an accepted one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{constant::True, money::MicroUsd};

/// The request for a route to a token that a tool accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversionRequest {
    /// The tool's slug.
    pub service_id: String,
    /// The network that the caller has money on.
    pub start_network: String,
    /// The token that the caller has.
    pub start_asset: String,
    /// The caller's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_address: Option<String>,
}

/// A route from the caller's token to one that a tool accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversionQuote {
    /// Always true.
    pub ok: True,
    /// Who computed the route.
    pub provider: String,
    /// Whether rates and fees are only typical ones that nobody has offered.
    pub indicative: bool,
    /// The amount that the caller must spend.
    pub start: TokenAmount,
    /// The amount that arrives.
    pub settlement: SettlementAmount,
    /// The route.
    pub route: ConversionRoute,
    /// The estimated cost.
    pub estimated_cost: ConversionCost,
    /// What the caller does next.
    pub handoff: ConversionHandoff,
    /// Notes about the route.
    pub notes: Vec<String>,
    /// The tool.
    pub service: ConversionService,
    /// The time of the rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates_as_of: Option<String>,
}

/// An amount of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenAmount {
    /// The network.
    pub network: String,
    /// Symbol of the token.
    pub asset: String,
    /// The exact amount, as a decimal text.
    pub amount: String,
    /// Its value.
    pub usd: MicroUsd,
}

/// An amount of an accepted token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ConversionRoute {
    /// The steps.
    pub steps: Vec<Map<String, Value>>,
    /// The estimated duration, in seconds.
    pub seconds: u64,
}

/// The estimated cost of a conversion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ConversionCost {
    /// Fees of the conversion.
    pub cost_usd: MicroUsd,
    /// Fees and price together.
    pub all_in_usd: MicroUsd,
}

/// What the caller does to convert and pay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ConversionService {
    /// The tool's slug.
    pub service_id: String,
    /// Price of a call.
    pub price_usd: MicroUsd,
    /// The URL to call.
    pub url: String,
}
