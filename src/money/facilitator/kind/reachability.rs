//! Checks once whether a facilitator can be reached, for use before a host starts.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, Bytes, U64};
use alloy_sol_types::SolCall as _;
use serde_json::{Value, json};
use tollhouse_base::{boxed, clock::Clock};

use super::{
    FacilitatorKind, FacilitatorSite,
    remote::{FacilitatorClient, read_supported},
};
use crate::{
    Asset, Family,
    facilitator::{
        chain::{node::Node, nonce_use::balanceOfCall},
        reason::logged,
    },
};

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
}

impl FacilitatorSite<'_> {
    /// Checks the facilitator of the network without changing anything.
    #[boxed]
    pub async fn reach(&self) -> ReachReport {
        match self.kind {
            FacilitatorKind::Simulated => passing("play money, on a ledger of this host".to_owned()),
            FacilitatorKind::Http => self.supported().await,
            FacilitatorKind::Evm => self.chain().await,
        }
    }

    async fn supported(&self) -> ReachReport {
        let line = match FacilitatorClient::new(self.url.unwrap_or_default(), self.access, Clock::default()) {
            Ok(line) => line,
            Err(error) => return failing(error.to_string(), "set X402_FACILITATOR_URL to the facilitator's base URL"),
        };
        let started = Instant::now();
        let answer = read_supported(line.get("/supported", TIMEOUT).await);
        let elapsed = started.elapsed().as_millis();
        let body = match answer {
            Ok(body) => body,
            Err(reason) => {
                let reason = format!("`/supported` of the facilitator: {}", logged(&reason));
                return failing(
                    reason,
                    "check that the URL is its base URL, that this machine can reach it, and that it knows this host's key",
                );
            }
        };
        let kinds = body["kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
        let schemes: Vec<_> = kinds.iter().filter(|kind| self.matches_host(kind)).filter_map(|kind| kind["scheme"].as_str()).collect();
        if !schemes.contains(&"exact") {
            let all = kinds.len();
            return failing(
                format!(
                    "the facilitator answers in {elapsed} ms, and settles `exact` on {all} kinds of payment, but none of them on this network"
                ),
                "set TOLLHOUSE_NETWORK to a network that it settles, or TOLLHOUSE_NETWORK_FACILITATORS to another facilitator for this one",
            );
        }
        let mut listed: Vec<_> = schemes.iter().map(|scheme| scheme.chars().take(20).collect::<String>()).collect();
        listed.sort_unstable();
        listed.dedup();
        if self.network.family == Family::Solana
            && !kinds.iter().any(|kind| self.matches_host(kind) && kind["extra"]["feePayer"].is_string())
        {
            return failing(
                "the facilitator has no `feePayer` on this network".to_owned(),
                "ask its operator for one: without it, nobody can pay on this network",
            );
        }
        passing(format!("the facilitator answers in {elapsed} ms, and settles {}", listed.join(", ")))
    }

    fn matches_host(&self, kind: &Value) -> bool {
        kind["network"] == self.network.caip2 || kind["network"] == self.network.name
    }

    async fn chain(&self) -> ReachReport {
        const REMEDY: &str = "set TOLLHOUSE_RPC_URL or TOLLHOUSE_NETWORK_RPC_URLS to a node of that network that this machine can reach";
        let started = Instant::now();
        let node = match Node::new(self.rpc_url.unwrap_or_default(), self.network) {
            Ok(node) => node,
            Err(error) => return failing(error.to_string(), REMEDY),
        };
        match node.prove().await {
            Ok(()) => {
                let expected = format!("the node answers in {} ms, and serves this chain", started.elapsed().as_millis());
                ReachReport { no_estimate: self.estimate(&node).await.err(), ..passing(expected) }
            }
            Err(error) => failing(logged(&error.to_string()).to_owned(), REMEDY),
        }
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
    ReachReport { settles: true, schemes: message, remedy: "", no_estimate: None }
}

fn failing(message: String, remedy: &'static str) -> ReachReport {
    ReachReport { settles: false, schemes: message, remedy, no_estimate: None }
}
