//! Routes: how a payer gets from what they hold to what a payment is made in, and what that costs.
//!
//! Nothing is moved here. A route says what to spend where, step by step, and what is then handed to a wallet or an exchange;
//! amounts are computed backwards from what has to arrive, and rounded up, so that it does arrive.

mod amount;
mod remote;
mod table;
mod way;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use tollhouse_tool::MicroUsd;

use super::{Asset, Network};

pub use self::{remote::RemoteRoutes, way::TableRoutes};

/// What a payer holds, as they name it. What is not said is what has to arrive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// A name, CAIP-2, or a place such as `bank`.
    pub network: Option<String>,
    /// A symbol, or a token's address.
    pub asset: Option<String>,
    /// Whose wallet it is in: then a provider may prepare the transaction.
    pub address: Option<String>,
}

/// What has to arrive: an amount of a dollar token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// CAIP-2.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// What people call it.
    pub symbol: &'static str,
    /// Of the token.
    pub decimals: u32,
    /// In its smallest units.
    pub atomic: u128,
    /// What it is worth.
    pub value: MicroUsd,
}

impl Due {
    /// What is left to do where the money is.
    fn last_action(&self) -> &'static str {
        if self.value.is_zero() { "Call it: nothing is to be paid." } else { "Sign the x402 payment with the wallet that has received it." }
    }

    /// So many of the smallest units of a token; `None` where nobody here knows the token.
    #[must_use]
    pub fn of(network: &str, asset: &str, atomic: u128) -> Option<Self> {
        let known = Network::named(network).filter(|known| known.caip2 == network).and_then(|known| Asset::named(known, asset))?;
        let value = MicroUsd(u64::try_from(amount::rescaled(atomic, known.decimals, amount::USD_DECIMALS)).ok()?);
        let (asset, symbol, decimals) = (known.address.to_owned(), known.symbol, known.decimals);
        Some(Self { network: network.to_owned(), asset, symbol, decimals, atomic, value }).filter(|due| due.value <= MicroUsd::MAX)
    }
}

/// Of what may be paid, that which is where the payer's money is; else the first.
#[must_use]
pub fn nearest<'a>(dues: &'a [Due], start: &Start) -> Option<&'a Due> {
    let there = |due: &&Due| start.network.as_deref().is_some_and(|called| called == due.network || table::is_called(&due.network, called));
    dues.iter().find(there).or(dues.first())
}

/// The way, and what it takes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Who says so.
    pub provider: &'static str,
    /// True where rates and fees are typical ones, which nobody has offered.
    pub indicative: bool,
    /// Of when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates_as_of: Option<&'static str>,
    /// What is spent of what the payer holds.
    pub start: Holding,
    /// What arrives.
    pub settlement: Settled,
    /// The steps before the payment, first to last.
    pub route: Way,
    /// What all of it costs beyond what arrives.
    pub estimated_cost: Cost,
    /// What a wallet or an exchange is to be given.
    pub handoff: Handoff,
    /// For people.
    pub notes: Vec<String>,
}

/// An amount somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// As people call it.
    pub network: String,
    /// Symbol.
    pub asset: String,
    /// Decimal, exact.
    pub amount: String,
    /// What that is worth, or what it takes.
    pub usd: MicroUsd,
}

/// What arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// CAIP-2.
    pub network: String,
    /// Symbol.
    pub asset: &'static str,
    /// Of the token.
    pub asset_address: String,
    /// Decimal, exact.
    pub amount: String,
    /// In the token's smallest units.
    pub amount_atomic: String,
}

impl Holding {
    /// What arrives, on a network of this name.
    fn arrived(due: &Due, network: &str) -> Self {
        let amount = amount::decimal(due.atomic, due.decimals);
        Self { network: network.to_owned(), asset: due.symbol.to_owned(), amount, usd: due.value }
    }
}

impl From<&Due> for Settled {
    fn from(due: &Due) -> Self {
        Self {
            network: due.network.clone(),
            asset: due.symbol,
            asset_address: due.asset.clone(),
            amount: amount::decimal(due.atomic, due.decimals),
            amount_atomic: due.atomic.to_string(),
        }
    }
}

/// The steps of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Empty where there is nothing to convert.
    pub steps: Vec<Step>,
    /// All of them together, about.
    pub seconds: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// From 1.
    pub step: usize,
    /// `buy`, `swap`, `bridge` or `withdraw`.
    pub kind: &'static str,
    /// Who performs it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What goes in.
    pub spend: Holding,
    /// What comes out.
    pub receive: Holding,
    /// The difference.
    pub cost_usd: MicroUsd,
    /// About.
    pub seconds: u64,
}

/// What a route costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Beyond what arrives.
    pub cost_usd: MicroUsd,
    /// With it.
    pub all_in_usd: MicroUsd,
}

/// What whoever moves the money is to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// `wallet`, `exchange`, `bank`, or `none` where there is nothing to convert.
    pub kind: &'static str,
    /// In order.
    pub actions: Vec<String>,
    /// A transaction to sign, where the provider prepared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_request: Option<Value>,
}

/// Why there is no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum RouteError {
    /// `pointer` is the member's own.
    #[error("{message}")]
    Start { pointer: &'static str, message: String, known: Vec<String> },
    #[error("{0}")]
    NoRoute(String),
    /// Why is for the log: it is in the provider's words.
    #[error("whoever knows the routes did not answer")]
    Unavailable(String),
}

/// Who knows routes.
#[async_trait]
pub trait RouteProvider: std::fmt::Debug + Send + Sync {
    /// The cheapest way that it knows from `start` to what is `due`.
    ///
    /// # Errors
    ///
    /// A start that it does not know, no way from there, or that it could not be asked.
    async fn route(&self, start: &Start, due: &Due) -> Result<Route, RouteError>;

    /// Whether it asks somebody else.
    fn asks(&self) -> bool;
}

#[cfg(test)]
mod tests;
