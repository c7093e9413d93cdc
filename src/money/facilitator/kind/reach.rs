//! Checks once whether a facilitator can be reached, for use before a host starts.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, Bytes, U64};
use alloy_sol_types::SolCall as _;
use serde_json::{Value, json};
use tollhouse_base::clock::Clock;

use super::{
    FacilitatorKind, Site,
    remote::{Line, read_supported},
};
use crate::{
    Asset, Family,
    facilitator::{
        chain::{judge::balanceOfCall, node::Node},
        reason::logged,
    },
};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Whether payments can be settled there, as far as was checked.
    pub settles: bool,
    /// The answer, or why there is none.
    pub said: String,
    /// A remedy if it cannot settle.
    pub remedy: &'static str,
    /// Why gas cannot be estimated there, if that is needed and fails.
    pub no_estimate: Option<String>,
}

impl Site<'_> {
    /// Checks the facilitator of the network without changing anything.
    pub async fn reach(&self) -> Reached {
        match self.kind {
            FacilitatorKind::Simulated => well("play money, on a ledger of this host".to_owned()),
            FacilitatorKind::Http => self.supported().await,
            FacilitatorKind::Evm => self.chain().await,
        }
    }

    async fn supported(&self) -> Reached {
        let line = match Line::new(self.url.unwrap_or_default(), self.access, Clock::default()) {
            Ok(line) => line,
            Err(error) => return ill(error.to_string(), "set X402_FACILITATOR_URL to its base URL"),
        };
        let begun = Instant::now();
        let said = read_supported(line.get("/supported", PATIENCE).await);
        let took = begun.elapsed().as_millis();
        let body = match said {
            Ok(body) => body,
            Err(why) => {
                let why = format!("`/supported` of the facilitator: {}", logged(&why));
                return ill(
                    why,
                    "look whether the URL is its base, whether this machine may reach it, and whether it knows this host's key",
                );
            }
        };
        let kinds = body["kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
        let schemes: Vec<_> = kinds.iter().filter(|kind| self.is_of(kind)).filter_map(|kind| kind["scheme"].as_str()).collect();
        if !schemes.contains(&"exact") {
            let all = kinds.len();
            return ill(
                format!(
                    "the facilitator answers in {took} ms, and settles `exact` on {all} kinds of payment, none of them on this network"
                ),
                "name a network that it settles in TOLLHOUSE_NETWORK, or another facilitator for this one in TOLLHOUSE_NETWORK_FACILITATORS",
            );
        }
        let mut told: Vec<_> = schemes.iter().map(|scheme| scheme.chars().take(20).collect::<String>()).collect();
        told.sort_unstable();
        told.dedup();
        if self.network.family == Family::Solana && !kinds.iter().any(|kind| self.is_of(kind) && kind["extra"]["feePayer"].is_string()) {
            return ill(
                "the facilitator names no `feePayer` there".to_owned(),
                "ask whoever runs it: nobody can be asked to pay on that network",
            );
        }
        well(format!("the facilitator answers in {took} ms, and settles {}", told.join(", ")))
    }

    fn is_of(&self, kind: &Value) -> bool {
        kind["network"] == self.network.caip2 || kind["network"] == self.network.name
    }

    async fn chain(&self) -> Reached {
        const REMEDY: &str =
            "name a node of that network in TOLLHOUSE_RPC_URL or TOLLHOUSE_NETWORK_RPC_URLS, and look whether this machine may reach it";
        let begun = Instant::now();
        let node = match Node::new(self.rpc_url.unwrap_or_default(), self.network) {
            Ok(node) => node,
            Err(error) => return ill(error.to_string(), REMEDY),
        };
        match node.prove().await {
            Ok(()) => {
                let said = format!("the node answers in {} ms, and is of that chain", begun.elapsed().as_millis());
                Reached { no_estimate: self.estimate(&node).await.err(), ..well(said) }
            }
            Err(error) => ill(logged(&error.to_string()).to_owned(), REMEDY),
        }
    }

    /// Estimates the gas of a call that changes nothing.
    async fn estimate(&self, node: &Node) -> Result<(), String> {
        let Some(asset) = Asset::of(self.network).next() else { return Ok(()) };
        let data = balanceOfCall { account: Address::ZERO }.abi_encode();
        let call = json!({ "from": Address::ZERO, "to": asset.address, "data": Bytes::from(data) });
        let gas: Result<U64, _> = node.ask("eth_estimateGas", json!([call])).await;
        gas.map(drop).map_err(|error| logged(&error.to_string()).to_owned())
    }
}

fn well(said: String) -> Reached {
    Reached { settles: true, said, remedy: "", no_estimate: None }
}

fn ill(said: String, remedy: &'static str) -> Reached {
    Reached { settles: false, said, remedy, no_estimate: None }
}
