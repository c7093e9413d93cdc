//! Dollar tokens, and how a price is written in each.

use serde_json::{Value, json};
use tollhouse_tool::MicroUsd;

use super::{
    Network,
    network::{ARBITRUM, AVALANCHE, BASE, BASE_SEPOLIA, CELO, ETHEREUM, POLYGON, SOLANA, SOLANA_DEVNET},
};

/// A dollar token on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Where it is.
    pub network: &'static Network,
    /// What people call it.
    pub symbol: &'static str,
    /// Its contract, or its mint.
    pub address: &'static str,
    /// Places behind the point: its smallest unit is so small a part of a dollar.
    pub decimals: u32,
    /// EIP-712 domain of the token; nothing on networks of other families.
    pub name: &'static str,
    /// EIP-712 version of the token's domain.
    pub version: &'static str,
}

/// Places behind the point of a price.
const PRICE_DECIMALS: u32 = 6;

/// Most decimals that a row may have: every price fits into 128 bits then.
#[cfg(test)]
const MOST_DECIMALS: u32 = 24;

impl Asset {
    /// Every token there is.
    #[must_use]
    pub fn all() -> &'static [Self] {
        ASSETS
    }

    /// The token of `network` that is called so: by its address, or as people do.
    #[must_use]
    pub fn named(network: &Network, text: &str) -> Option<&'static Self> {
        Self::of(network).find(|asset| asset.is_called(text))
    }

    /// The tokens of a network, that which is taken first.
    pub fn of(network: &Network) -> impl Iterator<Item = &'static Self> {
        ASSETS.iter().filter(move |asset| asset.network == network)
    }

    /// Whether `text` names this token: by its address, or as people call it.
    #[must_use]
    pub fn is_called(&self, text: &str) -> bool {
        text.eq_ignore_ascii_case(self.symbol)
            || match self.network.chain_id() {
                Some(_) => text.eq_ignore_ascii_case(self.address),
                None => text == self.address,
            }
    }

    /// For who wants to pay with it.
    pub(super) fn describe(&self) -> Value {
        let mut told = json!({ "address": self.address, "symbol": self.symbol, "decimals": self.decimals });
        if self.network.chain_id().is_some() {
            told["name"] = json!(self.name);
            told["version"] = json!(self.version);
        }
        told
    }

    /// A price in the smallest units of the token. Exact where these are no larger than a micro-dollar; where they are larger,
    /// what is left of one counts as a whole one, so that nobody pays less than the price.
    #[must_use]
    pub fn atomic(&self, price: MicroUsd) -> u128 {
        let price = u128::from(price.0);
        match self.decimals.checked_sub(PRICE_DECIMALS) {
            Some(more) => price * 10_u128.pow(more),
            None => price.div_ceil(10_u128.pow(PRICE_DECIMALS - self.decimals)),
        }
    }

    /// What so many of the token's smallest units are worth; what is left of a micro-dollar does not count. `None` where it is more
    /// than can be counted.
    #[must_use]
    pub fn worth(&self, atomic: u128) -> Option<MicroUsd> {
        let micros = match self.decimals.checked_sub(PRICE_DECIMALS) {
            Some(more) => Some(atomic / 10_u128.pow(more)),
            None => atomic.checked_mul(10_u128.pow(PRICE_DECIMALS - self.decimals)),
        };
        micros.and_then(|micros| u64::try_from(micros).ok()).map(MicroUsd)
    }
}

/// A token of 6 decimals whose domain has version 2, as most are.
const fn usdc(network: &'static Network, address: &'static str, name: &'static str) -> Asset {
    Asset { network, symbol: "USDC", address, decimals: 6, name, version: "2" }
}

/// The dollar tokens that x402 clients accept without being told to; of each network, first the one that is taken if nothing else is set.
pub(super) static ASSETS: &[Asset] = &[
    usdc(&BASE_SEPOLIA, "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC"),
    usdc(&BASE, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin"),
    usdc(&POLYGON, "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USD Coin"),
    usdc(&ARBITRUM, "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USD Coin"),
    usdc(&AVALANCHE, "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", "USD Coin"),
    usdc(&ETHEREUM, "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USD Coin"),
    usdc(&CELO, "0xcebA9300f2b948710d2653dD7B07f33A8B32118C", "USDC"),
    Asset {
        network: &CELO,
        symbol: "USDT",
        address: "0x48065fbBE25f71C9282ddf5e1cD6D6A887483D5e",
        decimals: 6,
        name: "Tether USD",
        version: "1",
    },
    usdc(&SOLANA, "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", ""),
    usdc(&SOLANA_DEVNET, "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU", ""),
];

#[cfg(test)]
mod tests;
