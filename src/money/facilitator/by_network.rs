//! The facilitator of each network.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Facilitator, GasFunds, SettleOutcome, VerifyResult, chain::node::Node};
use crate::{Network, OfferedX402, StartedSettlement, network::NETWORKS};

/// The facilitators, one per network.
#[derive(Clone)]
pub struct Facilitators(Vec<(&'static Network, Arc<dyn Facilitator>)>);

/// Keeps the order of the settings.
impl FromIterator<(&'static Network, Arc<dyn Facilitator>)> for Facilitators {
    fn from_iter<T: IntoIterator<Item = (&'static Network, Arc<dyn Facilitator>)>>(each: T) -> Self {
        Self(each.into_iter().collect())
    }
}

/// Uses one facilitator for all networks.
impl<F: Facilitator> From<Arc<F>> for Facilitators {
    fn from(facilitator: Arc<F>) -> Self {
        NETWORKS.iter().map(|network| (*network, Arc::clone(&facilitator) as _)).collect()
    }
}

impl Facilitators {
    /// Returns the facilitator of a network. If there is none, returns one that admits nothing and leaves settlements
    /// open.
    pub(crate) fn of(&self, network: &Network) -> &dyn Facilitator {
        self.0.iter().find(|(known, _)| *known == network).map_or(&NoFacilitator, |(_, facilitator)| &**facilitator)
    }

    pub(crate) fn chains(&self) -> impl Iterator<Item = (&'static Network, Arc<Node>)> {
        self.0.iter().filter_map(|(network, facilitator)| Some((*network, Arc::clone(facilitator.node()?))))
    }

    pub(crate) fn networks(&self) -> impl Iterator<Item = &'static Network> {
        self.0.iter().map(|(network, _)| *network)
    }

    /// Returns whether the money is play money. It is so on all networks or on none.
    pub fn simulated(&self) -> bool {
        self.0.iter().any(|(_, facilitator)| facilitator.simulated())
    }

    /// Returns the first available status, for operators.
    pub fn status(&self) -> Option<Value> {
        self.0.iter().find_map(|(_, facilitator)| facilitator.status())
    }

    /// Returns the funds for gas on each network where the host pays for it and has seen them.
    pub fn gas_funds(&self) -> impl Iterator<Item = (&'static Network, GasFunds)> {
        self.0.iter().filter_map(|(network, facilitator)| Some((*network, facilitator.gas_funds()?)))
    }

    /// Returns the status of each facilitator by network.
    pub fn statuses(&self) -> Value {
        let statuses = self.0.iter().map(|(network, facilitator)| {
            (network.caip2.to_owned(), json!({ "facilitator": facilitator.name(), "status": facilitator.status() }))
        });
        Value::Object(statuses.collect())
    }
}

/// The facilitator of a network that the settings no longer name.
struct NoFacilitator;

impl NoFacilitator {
    const WHY: &str = "no facilitator is set for its network, so it stays open until you set one";
}

#[async_trait]
impl Facilitator for NoFacilitator {
    async fn verify(&self, _payment: &OfferedX402) -> VerifyResult {
        VerifyResult::Unavailable(Self::WHY.to_owned())
    }

    async fn settle(&self, _payment: &OfferedX402, _begun: &StartedSettlement) -> SettleOutcome {
        SettleOutcome::Unsent(Self::WHY.to_owned())
    }

    async fn resolve(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.look_up(payment, started).await
    }

    async fn look_up(&self, _payment: &OfferedX402, _begun: &StartedSettlement) -> SettleOutcome {
        SettleOutcome::Unknown(Self::WHY.to_owned())
    }

    fn name(&self) -> &'static str {
        "none"
    }
}
