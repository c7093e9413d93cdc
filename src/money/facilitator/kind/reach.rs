//! Whether those who settle can be reached, asked once: for who looks before a host starts.

use std::time::{Duration, Instant};

use serde_json::Value;
use tollhouse_base::clock::Clock;

use super::{
    FacilitatorKind, Site,
    remote::{Line, read_supported},
};
use crate::{
    Family,
    facilitator::{chain::node::Node, reason::logged},
};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Whether payments can be settled there, as far as it was asked.
    pub settles: bool,
    /// What it said, or why nothing.
    pub said: String,
    /// What to do where it does not.
    pub remedy: &'static str,
}

impl Site<'_> {
    /// Asks who settles on the network, and changes nothing.
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
        let asked = match Node::new(self.rpc_url.unwrap_or_default(), self.network) {
            Ok(node) => node.prove().await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match asked {
            Ok(()) => well(format!("the node answers in {} ms, and is of that chain", begun.elapsed().as_millis())),
            Err(why) => ill(logged(&why).to_owned(), REMEDY),
        }
    }
}

fn well(said: String) -> Reached {
    Reached { settles: true, said, remedy: "" }
}

fn ill(said: String, remedy: &'static str) -> Reached {
    Reached { settles: false, said, remedy }
}
