//! The facilitators there are, and the making of each.

pub(crate) mod evm;
pub(crate) mod ledger;
mod reach;
pub(crate) mod remote;
pub(crate) mod simulated;

use std::{fmt, sync::Arc};

use clap::ValueEnum;
use serde::Deserialize;
use tollhouse_base::clock::Clock;
use tollhouse_store::Store;

use self::{
    evm::{EvmFacilitator, Patience},
    ledger::Ledger,
    remote::HttpFacilitator,
    simulated::SimulatedFacilitator,
};
pub use self::{reach::Reached, remote::FacilitatorAccess};
use super::{Facilitator, by_network::Facilitators, chain::node::Node};
use crate::{Asset, ConfigError, Family, Network};

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

/// Who settles on a network, and where.
pub struct Site<'a> {
    /// The network.
    pub network: &'static Network,
    /// What kind of a facilitator.
    pub kind: FacilitatorKind,
    /// Where it is, if it is elsewhere.
    pub url: Option<&'a str>,
    /// By what it knows us, if it is elsewhere.
    pub access: &'a FacilitatorAccess,
    /// A node of the network, to look settlements up at.
    pub rpc_url: Option<&'a str>,
    /// Blocks that a settlement needs before it counts, its own among them.
    pub confirmations: u64,
}

/// What facilitators are made with.
pub struct Means<'a> {
    /// One for each network, in the order of the settings.
    pub sites: &'a [Site<'a>],
    /// The token that is meant where none is named.
    pub asset: &'static Asset,
    /// What pays the gas of transactions of our own: 32 bytes in hex.
    pub gas_key: Option<&'a str>,
    /// Where a ledger of our own is kept, and what hosts that share it have counted of their key.
    pub store: &'a Arc<dyn Store>,
    /// The time that a ledger of our own goes by.
    pub clock: &'a Clock,
}

impl Facilitators {
    /// Those of the settings, and the ledger that they settle on where that is our own.
    ///
    /// # Errors
    ///
    /// An address that is no URL, a key that is none.
    pub fn start(with: &Means<'_>) -> Result<(Self, Option<Arc<Ledger>>), ConfigError> {
        let plays = with.sites.iter().any(|site| site.kind.plays());
        let ledger = plays.then(|| Arc::new(Ledger::new(Arc::clone(with.store), with.asset)));
        let started = with.sites.iter().map(|site| Ok((site.network, site.start(with, ledger.as_ref())?)));
        Ok((started.collect::<Result<_, ConfigError>>()?, ledger))
    }
}

impl Site<'_> {
    fn start(&self, with: &Means<'_>, ledger: Option<&Arc<Ledger>>) -> Result<Arc<dyn Facilitator>, ConfigError> {
        let clock = with.clock.clone();
        Ok(match (self.kind, ledger) {
            (FacilitatorKind::Simulated, Some(ledger)) => Arc::new(SimulatedFacilitator::new(Arc::clone(ledger), clock)),
            (FacilitatorKind::Simulated, None) => unreachable!("there is a ledger where one plays"),
            (FacilitatorKind::Http, _) => {
                let http = HttpFacilitator::new(self.url.unwrap_or_default(), self.access, self.node()?, clock)?;
                Arc::new(http.asked_about(self.network))
            }
            (FacilitatorKind::Evm, _) => {
                let node = Node::introduced(self.rpc_url.unwrap_or_default(), self.network, self.confirmations)?;
                Arc::new(EvmFacilitator::new(node, with.gas_key.unwrap_or_default(), with.store, clock, Patience::default())?)
            }
        })
    }

    /// The node that settlements are looked up at, if there is one.
    fn node(&self) -> Result<Option<Arc<Node>>, ConfigError> {
        let network = self.network.caip2;
        match (self.network.family, self.rpc_url) {
            (Family::Evm { .. }, Some(url)) => return Node::introduced(url, self.network, self.confirmations).map(Some),
            (Family::Evm { .. }, None) => tracing::warn!(
                network,
                "no node is named in `TOLLHOUSE_RPC_URL` or `TOLLHOUSE_NETWORK_RPC_URLS`: a settlement whose end the facilitator does not \
                 tell stays open until one is"
            ),
            (Family::Solana, _) => tracing::warn!(
                network,
                "no node of this network can be asked: a settlement whose end the facilitator does not tell stays open until it does"
            ),
        }
        Ok(None)
    }
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

    /// Whether it settles on networks of this family.
    #[must_use]
    pub fn settles_on(self, family: Family) -> bool {
        match (self, family) {
            (Self::Http, _) | (Self::Simulated | Self::Evm, Family::Evm { .. }) => true,
            (Self::Simulated | Self::Evm, Family::Solana) => false,
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
