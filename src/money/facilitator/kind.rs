//! The kinds of facilitators, and their construction.

pub(crate) mod evm;
pub(crate) mod ledger;
mod reachability;
pub(crate) mod remote;
pub(crate) mod simulated;

use std::{fmt, sync::Arc};

use clap::ValueEnum;
use serde::Deserialize;
use tollhouse_base::clock::Clock;
use tollhouse_store::Store;

use self::{
    evm::{EvmFacilitator, TxTimeouts},
    ledger::Ledger,
    remote::HttpFacilitator,
    simulated::SimulatedFacilitator,
};
pub use self::{reachability::ReachReport, remote::FacilitatorAccess};
use super::{Facilitator, by_network::Facilitators, chain::node::Node};
use crate::{Asset, ConfigError, Family, Network};

/// A kind of facilitator, as named in the settings.
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

/// Formats the name used in the settings.
impl fmt::Display for FacilitatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// The facilitator of a network, as configured.
pub struct FacilitatorSite<'a> {
    /// The network.
    pub network: &'static Network,
    /// The kind of facilitator.
    pub kind: FacilitatorKind,
    /// Its URL, if it is remote.
    pub url: Option<&'a str>,
    /// Its credentials, if it is remote.
    pub access: &'a FacilitatorAccess,
    /// URL of a node of the network, for looking up settlements.
    pub rpc_url: Option<&'a str>,
    /// Number of blocks that a settlement needs to count, including its own.
    pub confirmations: u64,
}

/// The dependencies for constructing facilitators.
pub struct FacilitatorParts<'a> {
    /// One site per network, in the order of the settings.
    pub sites: &'a [FacilitatorSite<'a>],
    /// The default token.
    pub asset: &'static Asset,
    /// Private key that pays the gas of our own transactions: 32 bytes in hex.
    pub gas_key: Option<&'a str>,
    /// Store of the simulated ledger and of nonces that hosts share.
    pub store: &'a Arc<dyn Store>,
    /// Clock of the simulated ledger.
    pub clock: &'a Clock,
}

impl Facilitators {
    /// Constructs the configured facilitators, and the simulated ledger if one uses it.
    pub fn start(with: &FacilitatorParts<'_>) -> Result<(Self, Option<Arc<Ledger>>), ConfigError> {
        let plays = with.sites.iter().any(|site| site.kind.is_simulated());
        let ledger = plays.then(|| Arc::new(Ledger::new(Arc::clone(with.store), with.asset)));
        let started = with.sites.iter().map(|site| Ok((site.network, site.start(with, ledger.as_ref())?)));
        Ok((started.collect::<Result<_, ConfigError>>()?, ledger))
    }
}

impl FacilitatorSite<'_> {
    fn start(&self, with: &FacilitatorParts<'_>, ledger: Option<&Arc<Ledger>>) -> Result<Arc<dyn Facilitator>, ConfigError> {
        let clock = with.clock.clone();
        Ok(match (self.kind, ledger) {
            (FacilitatorKind::Simulated, Some(ledger)) => Arc::new(SimulatedFacilitator::new(Arc::clone(ledger), clock)),
            (FacilitatorKind::Simulated, None) => unreachable!("there is a ledger where one plays"),
            (FacilitatorKind::Http, _) => {
                let http = HttpFacilitator::new(self.url.unwrap_or_default(), self.access, self.node()?, clock)?;
                Arc::new(http.watching(self.network))
            }
            (FacilitatorKind::Evm, _) => {
                let node = Node::introduced(self.rpc_url.unwrap_or_default(), self.network, self.confirmations)?;
                Arc::new(EvmFacilitator::new(node, with.gas_key.unwrap_or_default(), with.store, clock, TxTimeouts::default())?)
            }
        })
    }

    /// Returns the node for looking up settlements, if one is configured.
    fn node(&self) -> Result<Option<Arc<Node>>, ConfigError> {
        let network = self.network.caip2;
        match (self.network.family, self.rpc_url) {
            (Family::Evm { .. }, Some(url)) => return Node::introduced(url, self.network, self.confirmations).map(Some),
            (Family::Evm { .. }, None) => tracing::warn!(
                network,
                "no node is set in `TOLLHOUSE_RPC_URL` or `TOLLHOUSE_NETWORK_RPC_URLS`: a settlement whose result the facilitator does not \
                 report stays open until you set one"
            ),
            (Family::Solana, _) => tracing::warn!(
                network,
                "no node of this network is set: a settlement whose result the facilitator does not report stays open until it does"
            ),
        }
        Ok(None)
    }
}

impl FacilitatorKind {
    /// Returns whether it moves play money. Then no payout address is required, and the host is not for public use.
    pub fn is_simulated(self) -> bool {
        self == Self::Simulated
    }

    /// Returns whether it is remote and needs a URL.
    pub fn is_remote(self) -> bool {
        self == Self::Http
    }

    /// Returns whether it sends its own transactions, which needs a node and a key.
    pub fn sends_transactions(self) -> bool {
        self == Self::Evm
    }

    /// Returns whether it settles on networks of this family.
    pub fn settles_on(self, family: Family) -> bool {
        self == Self::Http || matches!(family, Family::Evm { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_and_requirements() {
        let describe = |kind: FacilitatorKind| (kind.to_string(), kind.is_simulated(), kind.is_remote(), kind.sends_transactions());
        let of = |name: &str, plays, elsewhere, sends| (name.to_owned(), plays, elsewhere, sends);
        assert_eq!(describe(FacilitatorKind::Simulated), of("simulated", true, false, false));
        assert_eq!(describe(FacilitatorKind::Http), of("http", false, true, false));
        assert_eq!(describe(FacilitatorKind::Evm), of("evm", false, false, true));
    }
}
