//! The facilitators there are, and the making of each.

pub(in crate::money) mod evm;
pub(in crate::money) mod ledger;
pub(in crate::money) mod remote;
pub(in crate::money) mod simulated;

use std::{fmt, sync::Arc};

use clap::ValueEnum;
use serde::Deserialize;

pub use self::remote::FacilitatorAccess;
use self::{
    evm::{EvmFacilitator, Patience},
    ledger::Ledger,
    remote::HttpFacilitator,
    simulated::SimulatedFacilitator,
};
use super::{Facilitator, chain::node::Node};
use crate::{
    base::clock::Clock,
    money::network::{ConfigError, PaymentConfig},
    store::Store,
};

/// Who verifies and settles, as settings name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FacilitatorKind {
    /// A ledger in the store; real signatures, no real money.
    #[default]
    Simulated,
    /// An x402 facilitator over HTTP.
    Http,
    /// The host itself, through a node and with a key that pays the gas.
    Evm,
}

/// As settings name it.
impl fmt::Display for FacilitatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// A facilitator, and the ledger that it settles on where that is our own.
type Started = (Arc<dyn Facilitator>, Option<Arc<Ledger>>);

/// What a facilitator is made with.
pub struct Means<'a> {
    /// Where payments are made, and to whom.
    pub config: &'a PaymentConfig,
    /// Where it is, if it is elsewhere.
    pub url: Option<&'a str>,
    /// By what it knows us, if it is elsewhere.
    pub access: &'a FacilitatorAccess,
    /// A node of the network, to look settlements up at.
    pub rpc_url: Option<&'a str>,
    /// What pays the gas of transactions of our own: 32 bytes in hex.
    pub gas_key: Option<&'a str>,
    /// Where a ledger of our own is kept.
    pub store: &'a Arc<dyn Store>,
    /// The time that a ledger of our own goes by.
    pub clock: &'a Clock,
}

impl FacilitatorKind {
    /// Whether it moves play money: then no address to pay to has to be set, and strangers are not to rely on it.
    #[must_use]
    pub fn plays(self) -> bool {
        match self {
            Self::Simulated => true,
            Self::Http | Self::Evm => false,
        }
    }

    /// Whether it is elsewhere, at an address that has to be set.
    #[must_use]
    pub fn elsewhere(self) -> bool {
        match self {
            Self::Http => true,
            Self::Simulated | Self::Evm => false,
        }
    }

    /// Whether it sends transactions of its own, for which a node and a key have to be set.
    #[must_use]
    pub fn sends(self) -> bool {
        match self {
            Self::Evm => true,
            Self::Simulated | Self::Http => false,
        }
    }

    /// A facilitator of this kind, and the ledger that it settles on where that is our own.
    ///
    /// # Errors
    ///
    /// An address that is no URL.
    pub fn start(self, with: &Means<'_>) -> Result<Started, ConfigError> {
        match self {
            Self::Simulated => {
                let ledger = Arc::new(Ledger::new(Arc::clone(with.store), with.config));
                let facilitator = SimulatedFacilitator::new(Arc::clone(&ledger), with.clock.clone());
                Ok((Arc::new(facilitator), Some(ledger)))
            }
            Self::Http => {
                let node = with.rpc_url.map(|url| Node::introduced(url, with.config.network)).transpose()?;
                if node.is_none() {
                    tracing::warn!(
                        "no node is named in `TOLLHOUSE_RPC_URL`: a settlement whose end the facilitator does not tell stays open until one is"
                    );
                }
                let facilitator = HttpFacilitator::new(with.url.unwrap_or_default(), with.access, node, with.clock.clone())?;
                Ok((Arc::new(facilitator), None))
            }
            Self::Evm => {
                let node = Node::introduced(with.rpc_url.unwrap_or_default(), with.config.network)?;
                let facilitator = EvmFacilitator::new(node, with.gas_key.unwrap_or_default(), with.clock.clone(), Patience::default())?;
                Ok((Arc::new(facilitator), None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_says_its_name_and_what_it_needs() {
        let told = |kind: FacilitatorKind| (kind.to_string(), kind.plays(), kind.elsewhere(), kind.sends());
        let of = |name: &str, plays, elsewhere, sends| (name.to_owned(), plays, elsewhere, sends);
        assert_eq!(told(FacilitatorKind::Simulated), of("simulated", true, false, false));
        assert_eq!(told(FacilitatorKind::Http), of("http", false, true, false));
        assert_eq!(told(FacilitatorKind::Evm), of("evm", false, false, true));
    }
}
