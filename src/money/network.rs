//! Networks, their dollar tokens, and where payments go.

use alloy_primitives::Address;
use serde_json::{Value, json};

use super::{FailedRuns, Terms, WireVersion};

/// A network that payments can be made on, and its dollar token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// CAIP-2, as v2 names it.
    pub caip2: &'static str,
    /// As v1 names it.
    pub v1_name: &'static str,
    /// As EIP-155 numbers it.
    pub chain_id: u64,
    /// Address of the token.
    pub asset: &'static str,
    /// EIP-712 domain of the token.
    pub asset_name: &'static str,
    /// EIP-712 version of the token's domain.
    pub asset_version: &'static str,
}

/// What people call every token in [`NETWORKS`]; the EIP-712 name of some is a longer one.
pub(super) const SYMBOL: &str = "USDC";

/// Decimals of every token in [`NETWORKS`]: its smallest unit is a micro-dollar.
pub(super) const DECIMALS: u32 = 6;

impl Network {
    /// Whether `text` names this network's dollar token: by its address, or as people call it.
    #[must_use]
    pub fn names_asset(&self, text: &str) -> bool {
        text.eq_ignore_ascii_case(self.asset) || text.eq_ignore_ascii_case(SYMBOL)
    }
}

/// The dollar tokens that x402 clients accept without being told to.
pub(super) const NETWORKS: &[Network] = &[
    Network {
        caip2: "eip155:84532",
        v1_name: "base-sepolia",
        chain_id: 84_532,
        asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        asset_name: "USDC",
        asset_version: "2",
    },
    Network {
        caip2: "eip155:8453",
        v1_name: "base",
        chain_id: 8_453,
        asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        asset_name: "USD Coin",
        asset_version: "2",
    },
    Network {
        caip2: "eip155:137",
        v1_name: "polygon",
        chain_id: 137,
        asset: "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359",
        asset_name: "USD Coin",
        asset_version: "2",
    },
    Network {
        caip2: "eip155:43114",
        v1_name: "avalanche",
        chain_id: 43_114,
        asset: "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E",
        asset_name: "USD Coin",
        asset_version: "2",
    },
    Network {
        caip2: "eip155:1",
        v1_name: "ethereum",
        chain_id: 1,
        asset: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        asset_name: "USD Coin",
        asset_version: "2",
    },
];

/// Payment settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum ConfigError {
    #[error("network `{0}` is not known; known are {known}", known = NETWORKS.iter().map(|network| network.caip2).collect::<Vec<_>>().join(", "))]
    UnknownNetwork(String),
    #[error("`{0}` is no address: it has 0x and 40 hex digits, in one case or with the EIP-55 checksum")]
    PayTo(String),
    #[error("the facilitator's address `{0}` is no URL")]
    FacilitatorUrl(String),
    // Without the text: the address of a node has the key of who runs it in it.
    #[error("the node's address in `TOLLHOUSE_RPC_URL` is no URL")]
    RpcUrl,
    #[error("a header for the facilitator is not of the form `Name: value`")]
    FacilitatorHeader,
    #[error("the key that pays the gas, in `TOLLHOUSE_GAS_KEY` or its file, is not 32 bytes in hex")]
    GasKey,
    #[error("the secret in `CDP_API_KEY_SECRET` is no Ed25519 key: 64 bytes in base64, as the platform shows it")]
    CdpKey,
    #[error("no HTTP client could be made: {0}")]
    Client(String),
}

/// Where payments go, on what network, and how much is done for nothing.
#[derive(Debug, Clone)]
pub struct PaymentConfig {
    /// Where payments are made.
    pub network: &'static Network,
    /// To whom.
    pub pay_to: String,
    /// How often runs may fail that nobody pays for.
    pub failed_runs: FailedRuns,
}

impl PaymentConfig {
    /// The settings for `network` (CAIP-2 or v1 name).
    ///
    /// # Errors
    ///
    /// A network that is not in [`NETWORKS`]; an address that is none, or whose EIP-55 checksum is wrong.
    pub fn for_network(network: &str, pay_to: &str) -> Result<Self, ConfigError> {
        let known = NETWORKS.iter().find(|known| known.caip2 == network || known.v1_name == network);
        let network = known.ok_or_else(|| ConfigError::UnknownNetwork(network.to_owned()))?;
        let pay_to = checked_address(pay_to).ok_or_else(|| ConfigError::PayTo(pay_to.to_owned()))?;
        Ok(Self { network, pay_to, failed_runs: FailedRuns::default() })
    }

    /// The one entry of `accepts`, in the form of `version`.
    #[must_use]
    pub fn requirements(&self, terms: &Terms, version: WireVersion) -> Value {
        let network = self.network;
        let amount = terms.price.0.to_string();
        let extra = json!({ "name": network.asset_name, "version": network.asset_version });
        match version {
            WireVersion::V2 => json!({
                "scheme": "exact",
                "network": network.caip2,
                "amount": amount,
                "asset": network.asset,
                "payTo": self.pay_to,
                "maxTimeoutSeconds": terms.timeout_secs,
                "extra": extra,
            }),
            WireVersion::V1 => json!({
                "scheme": "exact",
                "network": network.v1_name,
                "maxAmountRequired": amount,
                "resource": terms.resource_url,
                "description": super::terms::short(&terms.description),
                "mimeType": "application/json",
                "outputSchema": { "input": { "type": "http", "method": "POST", "discoverable": true }, "output": *terms.output_schema },
                "payTo": self.pay_to,
                "maxTimeoutSeconds": terms.timeout_secs,
                "asset": network.asset,
                "extra": extra,
            }),
        }
    }
}

/// The address in `text` with its EIP-55 checksum; `None` when it is none: not `0x` and 40 hex digits, or
/// digits of both cases that are not its checksum.
#[must_use]
pub fn checked_address(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    let checksum = text.parse::<Address>().ok()?.to_checksum(None);
    let one_case = digits == digits.to_ascii_lowercase() || digits == digits.to_ascii_uppercase();
    (one_case || checksum == text).then_some(checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_wrong_checksum_is_refused() {
        let right = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
        assert_eq!(PaymentConfig::for_network("base", right).unwrap().pay_to, right);
        assert_eq!(PaymentConfig::for_network("base", &right.to_lowercase()).unwrap().pay_to, right);
        assert!(PaymentConfig::for_network("base", "0x036cbD53842c5426634e7929541eC2318f3dCF7e").is_err());
        assert!(PaymentConfig::for_network("base", "0x1234").is_err());
        assert!(PaymentConfig::for_network("eip155:999999", right).is_err());
    }
}
