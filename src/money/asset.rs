//! Dollar tokens, and conversion between prices and token units.

use serde_json::{Value, json};
use tollhouse_tool::MicroUsd;

use super::{
    Network,
    network::{ARBITRUM, AVALANCHE, BASE, BASE_SEPOLIA, CELO, ETHEREUM, POLYGON, SOLANA, SOLANA_DEVNET},
};

/// A dollar token on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// The network whose chain has the token.
    pub network: &'static Network,
    /// Its common symbol.
    pub symbol: &'static str,
    /// Address of its contract (EVM) or mint (Solana).
    pub address: &'static str,
    /// Number of decimals: the smallest unit is 10^-`decimals` dollars.
    pub decimals: u32,
    /// EIP-712 domain name of the token. Empty on networks of other families.
    pub name: &'static str,
    /// EIP-712 version of the token's domain.
    pub version: &'static str,
}

const PRICE_DECIMALS: u32 = 6;

impl Asset {
    /// Returns all tokens.
    pub fn all() -> &'static [Self] {
        ASSETS
    }

    /// Finds a token of `network` by its address or symbol.
    pub fn named(network: &Network, text: &str) -> Option<&'static Self> {
        Self::of(network).find(|asset| asset.is_called(text))
    }

    /// Returns the tokens of a network. The first one is the default.
    pub fn of(network: &Network) -> impl Iterator<Item = &'static Self> {
        ASSETS.iter().filter(move |asset| asset.network == network)
    }

    /// Returns whether `text` is this token's address or symbol.
    pub fn is_called(&self, text: &str) -> bool {
        text.eq_ignore_ascii_case(self.symbol)
            || match self.network.chain_id() {
                Some(_) => text.eq_ignore_ascii_case(self.address),
                None => text == self.address,
            }
    }

    pub(super) fn describe(&self) -> Value {
        let mut body = json!({ "address": self.address, "symbol": self.symbol, "decimals": self.decimals });
        if self.network.chain_id().is_some() {
            body["name"] = json!(self.name);
            body["version"] = json!(self.version);
        }
        body
    }

    /// Converts a price to the token's smallest units. Rounds up if a unit is larger than a micro-dollar, so that
    /// nobody pays less than the price.
    pub fn atomic(&self, price: MicroUsd) -> u128 {
        let price = u128::from(price.0);
        match self.decimals.checked_sub(PRICE_DECIMALS) {
            Some(more) => price * 10_u128.pow(more),
            None => price.div_ceil(10_u128.pow(PRICE_DECIMALS - self.decimals)),
        }
    }

    /// Converts an amount in the token's smallest units to micro-dollars, rounded down. Returns `None` on overflow.
    pub fn worth(&self, atomic: u128) -> Option<MicroUsd> {
        let micros = match self.decimals.checked_sub(PRICE_DECIMALS) {
            Some(more) => Some(atomic / 10_u128.pow(more)),
            None => atomic.checked_mul(10_u128.pow(PRICE_DECIMALS - self.decimals)),
        };
        micros.and_then(|micros| u64::try_from(micros).ok()).map(MicroUsd)
    }
}

/// Constructs a USDC token with 6 decimals and domain version 2, as most have.
const fn usdc(network: &'static Network, address: &'static str, name: &'static str) -> Asset {
    Asset { network, symbol: "USDC", address, decimals: 6, name, version: "2" }
}

/// The dollar tokens that x402 clients accept without configuration. The first of each network is its default.
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
