//! Who verifies and settles: one trait for all.

pub(super) mod ledger;
pub(super) mod remote;
pub(super) mod simulated;

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use self::{ledger::Ledger, remote::HttpFacilitator, simulated::SimulatedFacilitator};
use super::{ConfigError, Payment, PaymentConfig, Settlement};
use crate::{base::clock::Clock, store::Store};

/// Who verifies and settles, as settings name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FacilitatorKind {
    /// A ledger in the store; real signatures, no real money.
    #[default]
    Simulated,
    /// An x402 facilitator over HTTP.
    Http,
}

/// A facilitator, and the ledger that it settles on where that is our own.
type Started = (Arc<dyn Facilitator>, Option<Arc<Ledger>>);

/// What a facilitator is made with.
pub struct Means<'a> {
    /// Where payments are made, and to whom.
    pub config: &'a PaymentConfig,
    /// Where it is, if it is elsewhere.
    pub url: Option<&'a str>,
    /// A node of the network, to look settlements up at.
    pub rpc_url: Option<&'a str>,
    /// Where a ledger of our own is kept.
    pub store: &'a Arc<dyn Store>,
    /// The time that a ledger of our own goes by.
    pub clock: &'a Clock,
}

impl FacilitatorKind {
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
            Self::Http => Ok((Arc::new(HttpFacilitator::new(with.url.unwrap_or_default(), with.rpc_url)?), None)),
        }
    }
}

/// What a facilitator says of a payment before the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It would settle now.
    Valid,
    /// It would not.
    Invalid {
        /// Code of x402, where it has one.
        reason: String,
        /// For people.
        message: String,
    },
    /// No clear answer: the call is not admitted.
    Unavailable(String),
}

/// How a settlement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleOutcome {
    /// Money moved.
    Settled(Settlement),
    /// Nothing was taken, and will not be.
    Refused {
        /// Code of x402, where it has one.
        reason: String,
        /// For people.
        message: String,
    },
    /// No clear answer: money may have moved. Ask again with [`Facilitator::resolve`].
    Unknown(String),
}

/// The reason of a refusal that has nothing against the payment: the facilitator does not serve this host, or does not take
/// what it asks for.
pub(crate) const NOT_SERVED: &str = "facilitator_unavailable";

/// Verifies payments and moves money.
#[async_trait]
pub trait Facilitator: Send + Sync + 'static {
    /// Whether the payment would settle now.
    async fn verify(&self, payment: &Payment) -> Verdict;

    /// Moves the money. Called at most once for a payment by a host that did not crash.
    async fn settle(&self, payment: &Payment) -> SettleOutcome;

    /// Finds out what became of a settlement that did not answer. Asks with the identical payload,
    /// whose nonce lets it move money once at most.
    async fn resolve(&self, payment: &Payment) -> SettleOutcome;

    /// `simulated`, `http`.
    fn name(&self) -> &'static str;

    /// True when the money is play money.
    fn simulated(&self) -> bool {
        false
    }
}

/// The settlement of `payment` in `transaction`.
pub(super) fn settlement(payment: &Payment, transaction: String) -> Settlement {
    Settlement {
        kind: super::SettlementKind::X402,
        transaction,
        network: payment.network.caip2.to_owned(),
        asset: payment.network.asset.to_owned(),
        amount: payment.authorization.value.clone(),
        payer: payment.authorization.from.clone(),
        scheme: "exact".to_owned(),
        version: Some(payment.version),
    }
}
