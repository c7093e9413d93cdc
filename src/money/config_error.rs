//! The errors of payment settings.

use crate::{
    asset::Asset,
    network::{NETWORKS, Network},
};

/// Payment settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum ConfigError {
    #[error("network `{0}` is not known; known are {known}", known = NETWORKS.iter().map(|network| network.caip2).collect::<Vec<_>>().join(", "))]
    UnknownNetwork(String),
    #[error("`{asset}` is not known on `{network}`; known are {known}", network = .network.caip2,
        known = Asset::of(.network).map(|asset| asset.symbol).collect::<Vec<_>>().join(", "))]
    UnknownAsset { network: &'static Network, asset: String },
    #[error("`{address}` is no address on `{network}`: an address is {form}", network = .network.caip2, form = .network.address_form())]
    PayTo { network: &'static Network, address: String },
    #[error("the facilitator's address `{0}` is no URL")]
    FacilitatorUrl(String),
    // The URL is left out, because it contains the operator's API key.
    #[error("the address of a node in `TOLLHOUSE_RPC_URL` or `TOLLHOUSE_NETWORK_RPC_URLS` is no URL")]
    RpcUrl,
    #[error("a header for the facilitator is not of the form `Name: value`")]
    FacilitatorHeader,
    #[error("the key that pays the gas, in `TOLLHOUSE_GAS_KEY` or its file, is not 32 bytes in hex")]
    GasKey,
    #[error(
        "the secret in `CDP_API_KEY_SECRET` is neither an Ed25519 key, 64 bytes in base64, nor one on P-256, a PEM, as the platform shows them"
    )]
    CdpKey,
    #[error("the address in `TOLLHOUSE_ROUTES_URL` is no URL")]
    RoutesUrl,
    #[error("the key in `TOLLHOUSE_ROUTES_KEY` is no header's value")]
    RoutesKey,
    #[error("no HTTP client could be made: {0}")]
    Client(String),
}
