//! The errors of payment settings.

use crate::{
    asset::Asset,
    network::{NETWORKS, Network},
};

/// Payment settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum ConfigError {
    #[error("the network `{0}` is unknown; use one of {known}", known = NETWORKS.iter().map(|network| network.caip2).collect::<Vec<_>>().join(", "))]
    UnknownNetwork(String),
    #[error("`{asset}` in `TOLLHOUSE_ASSETS` is unknown on `{network}`; use one of {known}", network = .network.caip2,
        known = Asset::of(.network).map(|asset| asset.symbol).collect::<Vec<_>>().join(", "))]
    UnknownAsset { network: &'static Network, asset: String },
    #[error("`{address}` in `{setting}` is not an address on `{network}`; an address has {form}", setting = .network.pay_to_setting(),
        network = .network.caip2, form = .network.address_form())]
    PayTo { network: &'static Network, address: String },
    #[error("`{setting}` is the zero address, which would lose the money: set it to an address of yours", setting = .0.pay_to_setting())]
    ZeroPayTo(&'static Network),
    #[error(
        "the facilitator's address `{0}` in `X402_FACILITATOR_URL` or `TOLLHOUSE_NETWORK_FACILITATORS` is not a URL that begins with \
         `http://` or `https://`"
    )]
    FacilitatorUrl(String),
    // The URL is left out, because it contains the operator's API key.
    #[error("the address of a node in `TOLLHOUSE_RPC_URL` or `TOLLHOUSE_NETWORK_RPC_URLS` is not a valid URL")]
    RpcUrl,
    #[error("a header in `TOLLHOUSE_FACILITATOR_HEADERS` must have the form `Name: value`")]
    FacilitatorHeader,
    #[error("the gas key in `TOLLHOUSE_GAS_KEY` or `TOLLHOUSE_GAS_KEY_FILE` must be 32 bytes in hex")]
    GasKey,
    #[error("the secret in `CDP_API_KEY_SECRET` must be an Ed25519 key (64 bytes in base64) or a P-256 key (PEM), as Coinbase shows it")]
    CdpKey,
    #[error("the address in `TOLLHOUSE_ROUTES_URL` is not a valid URL")]
    RoutesUrl,
    #[error("the key in `TOLLHOUSE_ROUTES_KEY` cannot be sent in a header")]
    RoutesKey,
    #[error("the HTTP client cannot be created: {0}")]
    Client(String),
}
