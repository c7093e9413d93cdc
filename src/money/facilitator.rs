//! Who verifies and settles: one trait for all.

pub(super) mod kind;

use async_trait::async_trait;

use super::{Payment, Settlement, settlement::SettlementKind};

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
        kind: SettlementKind::X402,
        transaction,
        network: payment.network.caip2.to_owned(),
        asset: payment.network.asset.to_owned(),
        amount: payment.authorization.value.clone(),
        payer: payment.authorization.from.clone(),
        scheme: "exact".to_owned(),
        version: Some(payment.version),
    }
}
