//! Routes: how a payer converts existing funds to the token of a payment, and the cost.
//!
//! No money is moved here. A route lists what to spend at each step, and the instructions for a wallet or exchange.
//! Amounts are computed backwards from the amount due and rounded up, so that enough arrives.

mod amount;
mod remote;
mod table;
mod table_routes;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use tollhouse_tool::MicroUsd;

use super::{Asset, Network};

pub use self::{remote::RemoteRoutes, table_routes::TableRoutes};

/// A payer's funds, as described by the payer. Missing fields default to those of the amount due.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteStart {
    /// A network's name or CAIP-2 id, or a place such as `bank`.
    pub network: Option<String>,
    /// A token's symbol or address.
    pub asset: Option<String>,
    /// The payer's wallet, so that a provider can prepare a transaction.
    pub address: Option<String>,
}

/// The amount due, in a dollar token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmountDue {
    /// The token.
    pub asset: &'static Asset,
    /// The amount in the token's smallest units.
    pub atomic: u128,
    /// The amount in dollars.
    pub value: MicroUsd,
}

impl AmountDue {
    fn last_action(&self) -> &'static str {
        if self.value.is_zero() { "Call it: nothing is to be paid." } else { "Sign the x402 payment with the wallet that has received it." }
    }

    /// Constructs an amount due in the smallest units of a token. `None` if the token is unknown.
    pub fn of(network: &str, asset: &str, atomic: u128) -> Option<Self> {
        let asset = Network::named(network).filter(|known| known.caip2 == network).and_then(|known| Asset::named(known, asset))?;
        let value = MicroUsd(u64::try_from(amount::rescaled(atomic, asset.decimals, amount::USD_DECIMALS)).ok()?);
        Some(Self { asset, atomic, value }).filter(|due| due.value <= MicroUsd::MAX)
    }
}

/// Returns the amount due on the payer's network, or else the first one.
pub fn nearest<'a>(dues: &'a [AmountDue], start: &RouteStart) -> Option<&'a AmountDue> {
    let is_on = |caip2: &str| start.network.as_deref().is_some_and(|called| called == caip2 || table::is_called(caip2, called));
    dues.iter().find(|due| is_on(due.asset.network.caip2)).or(dues.first())
}

/// A route with its costs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The source of the route.
    pub provider: &'static str,
    /// Whether rates and fees are only typical ones, without an offer.
    pub indicative: bool,
    /// Date of typical rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates_as_of: Option<&'static str>,
    /// The amount to spend from the payer's funds.
    pub start: Holding,
    /// The amount that arrives.
    pub settlement: RouteArrival,
    /// The steps before the payment, in order.
    pub route: RouteSteps,
    /// The cost beyond the amount due.
    pub estimated_cost: RouteCost,
    /// Instructions for a wallet or exchange.
    pub handoff: Handoff,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// An amount at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Common name of the network.
    pub network: String,
    /// Symbol of the asset.
    pub asset: String,
    /// The exact decimal amount.
    pub amount: String,
    /// Its value or cost in dollars.
    pub usd: MicroUsd,
}

/// The amount that arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteArrival {
    /// The network's CAIP-2 id.
    pub network: String,
    /// Symbol of the token.
    pub asset: &'static str,
    /// Address of the token.
    pub asset_address: String,
    /// The exact decimal amount.
    pub amount: String,
    /// The amount in the token's smallest units.
    pub amount_atomic: String,
}

impl Holding {
    fn arrived(due: &AmountDue, network: &str) -> Self {
        let amount = amount::decimal(due.atomic, due.asset.decimals);
        Self { network: network.to_owned(), asset: due.asset.symbol.to_owned(), amount, usd: due.value }
    }
}

impl From<&AmountDue> for RouteArrival {
    fn from(due: &AmountDue) -> Self {
        Self {
            network: due.asset.network.caip2.to_owned(),
            asset: due.asset.symbol,
            asset_address: due.asset.address.to_owned(),
            amount: amount::decimal(due.atomic, due.asset.decimals),
            amount_atomic: due.atomic.to_string(),
        }
    }
}

/// How to convert one token into another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteSteps {
    /// The steps. Empty if there is nothing to convert.
    pub steps: Vec<RouteStep>,
    /// Approximate total duration in seconds.
    pub seconds: u64,
}

/// One conversion or transfer on a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteStep {
    /// Its number, from 1.
    pub step: usize,
    /// `buy`, `swap`, `bridge` or `withdraw`.
    pub kind: &'static str,
    /// The service that performs it, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The input.
    pub spend: Holding,
    /// The output.
    pub receive: Holding,
    /// The difference in dollars.
    pub cost_usd: MicroUsd,
    /// Approximate duration in seconds.
    pub seconds: u64,
}

/// The estimated cost of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteCost {
    /// The cost beyond the amount due.
    pub cost_usd: MicroUsd,
    /// The cost including the amount due.
    pub all_in_usd: MicroUsd,
}

/// Instructions for the wallet, exchange or bank that moves the money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// `wallet`, `exchange`, `bank`, or `none` if there is nothing to convert.
    pub kind: &'static str,
    /// The actions, in order.
    pub actions: Vec<String>,
    /// A transaction to sign, if the provider prepared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_request: Option<Value>,
}

/// Why there is no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum RouteError {
    /// `pointer` is the JSON Pointer of the invalid field.
    #[error("{message}")]
    Start { pointer: &'static str, message: String, known: Vec<String> },
    #[error("{0}")]
    NoRoute(String),
    /// The reason is in the provider's words, for the log.
    #[error("the route provider did not answer")]
    Unavailable(String),
}

/// A source of routes.
#[async_trait]
pub trait RouteProvider: std::fmt::Debug + Send + Sync {
    /// Returns the cheapest known route from `start` to `due`.
    ///
    /// # Errors
    ///
    /// An unknown start, no route from there, or no answer from the source.
    async fn route(&self, start: &RouteStart, due: &AmountDue) -> Result<Route, RouteError>;

    /// Returns whether it queries another service.
    fn is_remote(&self) -> bool;
}

#[cfg(test)]
mod tests;
