//! The kinds of facilitators, and their construction.

pub(crate) mod evm;
pub(crate) mod ledger;
mod node_check;
pub(crate) mod remote;
pub(crate) mod simulated;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, Bytes, U64};
use alloy_sol_types::SolCall as _;
use clap::ValueEnum;
use futures_util::future::OptionFuture;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_base::{boxed, clock::Clock};
use tollhouse_store::Store;

use self::{
    evm::{EvmFacilitator, TxTimeouts, signer_of},
    ledger::Ledger,
    remote::{FacilitatorClient, HttpFacilitator, identity_of, read_supported},
    simulated::SimulatedFacilitator,
};
pub use self::{node_check::GasAccount, remote::FacilitatorAccess};
use super::{Facilitator, by_network::Facilitators, chain::node::Node};
use crate::{
    Asset, ConfigError, Family, Network,
    facilitator::{chain::nonce_use::balanceOfCall, reason::logged},
};

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
    /// The network whose payments it verifies and settles.
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
        let plays = with.sites.iter().any(|site| site.kind == FacilitatorKind::Simulated);
        let ledger = plays.then(|| Arc::new(Ledger::new(Arc::clone(with.store), with.asset)));
        let started = with.sites.iter().map(|site| Ok((site.network, site.start(with, ledger.as_ref())?)));
        Ok((started.collect::<Result<_, ConfigError>>()?, ledger))
    }
}

impl FacilitatorSite<'_> {
    /// Checks the form of its URLs, its credentials and `gas_key`, as far as it uses them. Sends no request.
    ///
    /// # Errors
    ///
    /// Those with which [`Facilitators::start`] would fail.
    pub fn check(&self, gas_key: Option<&str>) -> Result<(), ConfigError> {
        if self.kind == FacilitatorKind::Http {
            self.access.check(self.url.unwrap_or_default())?;
        }
        if self.kind != FacilitatorKind::Simulated
            && self.network.chain_id().is_some()
            && let Some(url) = self.rpc_url
        {
            Node::parse_url(url)?;
        }
        if self.kind.sends_transactions() {
            signer_of(gas_key.unwrap_or_default())?;
        }
        Ok(())
    }

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
    /// Returns whether the host sends the transactions of settlements itself, for which it needs a node and a key for gas.
    pub fn sends_transactions(self) -> bool {
        self == Self::Evm
    }

    /// Returns the identity of a facilitator in intents: its kind, and its URL without secrets if it is remote.
    pub fn identity(self, url: Option<&str>) -> String {
        let url = url.filter(|_| self == Self::Http).and_then(|url| Url::parse(url).ok());
        url.map_or_else(|| self.to_string(), identity_of)
    }

    /// Returns whether it settles on networks of this family.
    pub fn settles_on(self, family: Family) -> bool {
        self == Self::Http || matches!(family, Family::Evm { .. })
    }
}

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachReport {
    /// Whether payments can be settled there, as far as was checked.
    pub settles: bool,
    /// The answer, or why there is none.
    pub schemes: String,
    /// A remedy if it cannot settle.
    pub remedy: &'static str,
    /// Why gas cannot be estimated there, if that is needed and fails.
    pub no_estimate: Option<String>,
    /// Whether the node follows the chain, or why settlements cannot be looked up there. `None` without a node.
    pub node: Option<Result<String, String>>,
    /// The account that pays for gas, if there is one.
    pub gas: Option<GasAccount>,
}

/// Why a facilitator does not settle, and the remedy.
type Unreached = (String, &'static str);

impl FacilitatorSite<'_> {
    /// Checks the facilitator of the network, its node, and the account of `gas_key`, without changing anything.
    #[boxed]
    pub async fn reach(&self, gas_key: Option<&str>) -> ReachReport {
        let reached = match self.kind {
            FacilitatorKind::Simulated => Ok(passing("play money, on a ledger of this host".to_owned())),
            FacilitatorKind::Http => {
                let (reached, node) = tokio::join!(self.supported(), self.looked_up());
                return ReachReport { node, ..reached.unwrap_or_else(failing) };
            }
            FacilitatorKind::Evm => self.chain(gas_key).await,
        };
        reached.unwrap_or_else(failing)
    }

    /// Checks the node that settlements of a remote facilitator are looked up on, if there is one.
    async fn looked_up(&self) -> Option<Result<String, String>> {
        let url = self.rpc_url.filter(|_| self.network.chain_id().is_some())?;
        Some(match Node::new(url, self.network) {
            Ok(node) => node_check::follows_chain(&node).await,
            Err(error) => Err(error.to_string()),
        })
    }

    async fn supported(&self) -> Result<ReachReport, Unreached> {
        let line = FacilitatorClient::new(self.url.unwrap_or_default(), self.access, Clock::default())
            .map_err(|error| (error.to_string(), "set X402_FACILITATOR_URL to the facilitator's base URL"))?;
        let started = Instant::now();
        let body = read_supported(line.get("/supported", TIMEOUT).await).map_err(|reason| {
            (
                format!("`/supported` of the facilitator: {}", logged(&reason)),
                "check that the URL is its base URL, that this machine can reach it, and that it knows this host's key",
            )
        })?;
        let elapsed = started.elapsed().as_millis();
        let kinds = body["kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
        let schemes: Vec<_> = kinds.iter().filter(|kind| self.matches_host(kind)).filter_map(|kind| kind["scheme"].as_str()).collect();
        if !schemes.contains(&"exact") {
            let all = kinds.len();
            return Err((
                format!(
                    "the facilitator answers in {elapsed} ms, and settles `exact` on {all} kinds of payment, but none of them on this network"
                ),
                "set TOLLHOUSE_NETWORK to a network that it settles, or TOLLHOUSE_NETWORK_FACILITATORS to another facilitator for this one",
            ));
        }
        let mut listed: Vec<_> = schemes.iter().map(|scheme| scheme.chars().take(20).collect::<String>()).collect();
        listed.sort_unstable();
        listed.dedup();
        if self.network.family == Family::Solana
            && !kinds.iter().any(|kind| self.matches_host(kind) && kind["extra"]["feePayer"].is_string())
        {
            return Err((
                "the facilitator has no `feePayer` on this network".to_owned(),
                "ask its operator for one: without it, nobody can pay on this network",
            ));
        }
        Ok(passing(format!("the facilitator answers in {elapsed} ms, and settles {}", listed.join(", "))))
    }

    fn matches_host(&self, kind: &Value) -> bool {
        kind["network"] == self.network.caip2 || kind["network"] == self.network.name
    }

    async fn chain(&self, gas_key: Option<&str>) -> Result<ReachReport, Unreached> {
        const REMEDY: &str = "set TOLLHOUSE_RPC_URL or TOLLHOUSE_NETWORK_RPC_URLS to a node of that network that this machine can reach";
        let started = Instant::now();
        let node = Node::new(self.rpc_url.unwrap_or_default(), self.network).map_err(|error| (error.to_string(), REMEDY))?;
        node.prove().await.map_err(|error| (logged(&error.to_string()).to_owned(), REMEDY))?;
        let expected = format!("the node answers in {} ms, and serves this chain", started.elapsed().as_millis());
        let signer = gas_key.map(signer_of).transpose();
        let signer = signer.map_err(|error| (error.to_string(), "set TOLLHOUSE_GAS_KEY_FILE to a file with a key"))?;
        let gas = OptionFuture::from(signer.map(|signer| node_check::gas_account(&node, signer)));
        let (estimated, follows, gas) = tokio::join!(self.estimate(&node), node_check::follows_chain(&node), gas);
        Ok(ReachReport { no_estimate: estimated.err(), node: Some(follows), gas, ..passing(expected) })
    }

    /// Estimates the gas of a call that changes nothing.
    async fn estimate(&self, node: &Node) -> Result<(), String> {
        let Some(asset) = Asset::of(self.network).next() else { return Ok(()) };
        let data = balanceOfCall { account: Address::ZERO }.abi_encode();
        let call = json!({ "from": Address::ZERO, "to": asset.address, "data": Bytes::from(data) });
        let gas: Result<U64, _> = node.rpc("eth_estimateGas", json!([call])).await;
        gas.map(drop).map_err(|error| logged(&error.to_string()).to_owned())
    }
}

fn passing(message: String) -> ReachReport {
    ReachReport { settles: true, schemes: message, remedy: "", no_estimate: None, node: None, gas: None }
}

fn failing((schemes, remedy): Unreached) -> ReachReport {
    ReachReport { settles: false, remedy, ..passing(schemes) }
}

/// Returns the address of the account whose key pays for gas: 32 bytes in hex.
///
/// # Errors
///
/// [`ConfigError::GasKey`].
pub fn gas_address(key: &str) -> Result<String, ConfigError> {
    signer_of(key).map(|signer| signer.to_checksum(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_and_one_sends_transactions() {
        let kinds = [FacilitatorKind::Simulated, FacilitatorKind::Http, FacilitatorKind::Evm];
        assert_eq!(kinds.map(|kind| kind.to_string()), ["simulated", "http", "evm"]);
        assert_eq!(kinds.map(FacilitatorKind::sends_transactions), [false, false, true]);
        let url = Some("https://user:key@x402.example/v2/?key=1");
        assert_eq!(kinds.map(|kind| kind.identity(url)), ["simulated", "http https://x402.example/v2", "evm"]);
    }
}
