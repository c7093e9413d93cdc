//! Who verifies and settles: one trait for all.

pub(super) mod by_network;
pub(super) mod chain;
mod exact;
pub(super) mod kind;
pub(super) mod post;
mod reason;
mod upto;
pub(super) mod view;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use self::view::ChainView;
use super::{Begun, BurnedGas, Network, Payment, PaymentId, Settlement, settlement::SettlementKind};

/// What a facilitator says of a payment before the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It would settle now.
    Valid,
    /// It would not.
    Invalid {
        /// Code of x402, where it has one.
        reason: String,
        /// For people. In our own words: payers read it.
        message: String,
    },
    /// No clear answer, for the log: the call is not admitted.
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
        /// For people. In our own words: payers read it.
        message: String,
    },
    /// Nobody was asked to move the money, for the reason told to the log: the payment may be shown again.
    Unsent(String),
    /// No clear answer, for the log: money may have moved. Ask again with [`Facilitator::resolve`].
    Unknown(String),
    /// As unknown, but no node has the transaction that was prepared, for the reason told to the log: another one may be
    /// [prepared](Facilitator::prepare) for the same payment, recorded and sent. Money moves for it at most once.
    Lost(String),
}

/// Why a settlement cannot begin. Nothing was taken, and nobody was asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unprepared {
    /// The payment cannot be settled.
    Refused {
        /// Code of x402.
        reason: String,
        /// For people. In our own words: payers read it.
        message: String,
    },
    /// Nothing can be, for the reason told to the log.
    Away(String),
}

/// The reason of a refusal that has nothing against the payment: the facilitator does not serve this host, or does not take
/// what it asks for.
pub const NOT_SERVED: &str = "facilitator_unavailable";

/// Name of the facilitator whose money is on no chain.
pub(super) const PLAYS: &str = "simulated";

/// Verifies payments and moves money.
#[async_trait]
pub trait Facilitator: Send + Sync + 'static {
    /// Whether the payment would settle now.
    async fn verify(&self, payment: &Payment) -> Verdict;

    /// What the payer of a payment has of its token, in the token's smallest unit; `None` where nobody tells.
    async fn balance(&self, _payment: &Payment) -> Option<u128> {
        None
    }

    /// Whether the nonce of a payment is used by the newest block: its money has moved, or never will. False where nobody tells.
    async fn is_spent(&self, _payment: &Payment) -> bool {
        false
    }

    /// What reverted transactions for a payment have burned that was not asked for before.
    fn take_burned(&self, _payment: &PaymentId) -> Option<BurnedGas> {
        None
    }

    /// Gas that a settlement which paid has used beyond [`BurnedGas::ORDINARY`], and that was not asked for before.
    fn take_excess(&self, _payment: &PaymentId) -> Option<BurnedGas> {
        None
    }

    /// Readies what will move the money, and names it for the intent, which is on disk before it is sent.
    ///
    /// # Errors
    ///
    /// How it has ended before it began: nothing was taken.
    async fn prepare(&self, _payment: &Payment) -> Result<Option<String>, Unprepared> {
        Ok(None)
    }

    /// Lets go of what was prepared: it is not sent.
    fn abandon(&self, _transaction: &str) {}

    /// Moves the money. Called at most once for a payment by a host that did not crash.
    async fn settle(&self, payment: &Payment, begun: &Begun) -> SettleOutcome;

    /// Finds out what became of a settlement of its own that did not answer. Asks with the identical payload,
    /// whose nonce lets it move money once at most.
    async fn resolve(&self, payment: &Payment, begun: &Begun) -> SettleOutcome;

    /// Finds out what became of a settlement that another facilitator was asked for: moves nothing, and takes nobody's word but
    /// that of the chain where the money is.
    async fn look_up(&self, _payment: &Payment, _begun: &Begun) -> SettleOutcome {
        SettleOutcome::Unknown("the facilitator in force has no chain to ask".to_owned())
    }

    /// `simulated`, `http`, `evm`.
    fn name(&self) -> &'static str;

    /// What intents name it by: its name, and where it is if it is elsewhere.
    fn identity(&self) -> String {
        self.name().to_owned()
    }

    /// Who completes the transactions of payers and pays for them, on a network where somebody has to; `None` while that is not known.
    fn fee_payer(&self, _network: &Network) -> Option<String> {
        None
    }

    /// Who takes what was charged of what was permitted, as payers have to name it (scheme `upto`); `None` where it does not do that.
    fn meter(&self, _network: &Network) -> Option<String> {
        None
    }

    /// The chain that its settlements are on, where a node can be asked.
    fn chain(&self) -> Option<Arc<dyn ChainView>> {
        None
    }

    /// How it fares, for operators.
    fn status(&self) -> Option<Value> {
        None
    }

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
        network: payment.asset.network.caip2.to_owned(),
        asset: payment.asset.address.to_owned(),
        amount: payment.amount(),
        payer: payment.signed.sender().to_owned(),
        scheme: payment.requirements["scheme"].as_str().unwrap_or("exact").to_owned(),
        version: Some(payment.version),
        evidence: None,
    }
}

/// At most so many characters of a text of others.
fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}
