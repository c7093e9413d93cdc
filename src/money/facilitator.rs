//! Facilitators verify and settle payments. One trait covers all kinds.

pub(super) mod by_network;
pub(super) mod chain;
pub(super) mod chain_view;
mod exact;
pub(super) mod json_client;
pub(super) mod kind;
mod reason;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use self::{chain::node::Node, reason::RefusalText};
use super::{Network, OfferedX402, PaymentId, Settlement, StartedSettlement, settlement::SettlementKind};

/// A facilitator's verdict on a payment before the call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyResult {
    /// It would settle now.
    Valid,
    /// It would not settle now.
    Invalid {
        /// The x402 code, if there is one.
        reason: String,
        /// A message in our own words, which the payer reads.
        message: String,
    },
    /// There was no clear answer. The call is not admitted. The text is for the log.
    Unavailable(String),
}

/// How a settlement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleOutcome {
    /// Money moved.
    Settled(Settlement),
    /// Nothing was taken, and nothing will be.
    Refused {
        /// The x402 code, if there is one.
        reason: String,
        /// A message in our own words, which the payer reads.
        message: String,
    },
    /// Nobody was asked to move the money. The payment can be used again. The text is for the log.
    Unsent(String),
    /// There was no clear answer, and money may have moved. Look it up with [`Facilitator::resolve`]. The text is for
    /// the log.
    Unknown(String),
    /// Like unknown, but no node has the prepared transaction. Another one may be [prepared](Facilitator::prepare) for
    /// the same payment, recorded and sent. Money moves at most once. The text is for the log.
    Lost(String),
}

/// Gas that transactions have used, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurnedGas {
    /// Units of gas.
    pub gas: u64,
    /// Its cost, in the smallest unit of the network's native currency.
    pub wei: u128,
}

impl BurnedGas {
    /// Gas of an ordinary settlement. The dollar tokens take at most 110,000 for a key's transfer. The rest suffices
    /// for a wallet's contract that checks a signature or a passkey. Gas beyond it counts like burned gas even though
    /// the settlement pays, because its payer chooses the amount and may pay only a millionth of a dollar for it.
    pub const ORDINARY: u64 = 200_000;
}

/// The balance of an account that pays for gas, as last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasFunds {
    /// The balance, in the smallest unit of the network's native currency.
    pub wei: u128,
    /// Number of settlements that it pays for at the gas price of that time.
    pub settlements: u64,
}

impl GasFunds {
    /// Number of remaining settlements below which the operator is warned.
    const FEW: u64 = 1_000;

    /// Returns whether they pay for few settlements.
    pub fn is_low(self) -> bool {
        self.settlements < Self::FEW
    }
}

/// Gas that a successful settlement has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettlementGas {
    /// All of it that is not in `excess`.
    pub ordinary: BurnedGas,
    /// Gas beyond [`BurnedGas::ORDINARY`] that a payer who is a contract has chosen to use.
    pub excess: BurnedGas,
}

/// Why a settlement cannot begin. Nothing was taken, and nobody was asked to move money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareError {
    /// The payment cannot be settled.
    Refused {
        /// The x402 code.
        reason: String,
        /// A message in our own words, which the payer reads.
        message: String,
    },
    /// No payment can be settled now. The text is for the log.
    Away(String),
}

/// Code of a refusal that is not the payment's fault: the facilitator does not serve this host, or does not support its
/// requirements.
pub const NOT_SERVED: &str = "facilitator_unavailable";

/// Name of the facilitator that settles on no chain.
pub(super) const PLAYS: &str = "simulated";

/// Verifies payments and moves money.
#[async_trait]
pub trait Facilitator: Send + Sync + 'static {
    /// Checks whether the payment would settle now.
    async fn verify(&self, payment: &OfferedX402) -> VerifyResult;

    /// Returns the node of the chain of its settlements, if one is configured.
    fn node(&self) -> Option<&Arc<Node>> {
        None
    }

    /// Returns the node that can decide how a payment ended. There is one only if a contract stores the payment's nonce.
    fn chain_node(&self, payment: &OfferedX402) -> Option<&Arc<Node>> {
        self.node().filter(|_| payment.order().is_some())
    }

    /// Returns the payer's balance of the payment's token, in its smallest unit, or `None` if unknown.
    async fn balance(&self, payment: &OfferedX402) -> Option<u128> {
        self.chain_node(payment)?.balance(payment).await
    }

    /// Returns whether the payment's nonce is used as of the newest block: its money has moved, or never will. False if
    /// unknown.
    async fn is_spent(&self, payment: &OfferedX402) -> bool {
        match self.chain_node(payment) {
            Some(node) => node.is_recently_spent(payment).await == Ok(true),
            None => false,
        }
    }

    /// Takes the gas that reverted transactions for a payment have burned and that was not taken before.
    fn drain_burned(&self, _payment: &PaymentId) -> Option<BurnedGas> {
        None
    }

    /// Takes the gas that this host has paid for a successful settlement and that was not taken before.
    fn take_used(&self, _payment: &PaymentId) -> Option<SettlementGas> {
        None
    }

    /// Prepares the transaction, and returns its hash for the intent, which is stored before the transaction is sent.
    /// After an error nothing was taken.
    async fn prepare(&self, _payment: &OfferedX402) -> Result<Option<String>, PrepareError> {
        Ok(None)
    }

    /// Returns whether it fails for everybody now. A run whose settlement it could not prepare counts as unpaid
    /// otherwise. It must find out by a request that no payer can influence.
    async fn is_down(&self, _payment: &OfferedX402) -> bool {
        true
    }

    /// Discards a prepared transaction, which will not be sent.
    fn abandon(&self, _transaction: &str) {}

    /// Moves the money. Unless the host crashes, it is called at most once per payment.
    async fn settle(&self, payment: &OfferedX402, begun: &StartedSettlement) -> SettleOutcome;

    /// Looks up a settlement of this facilitator that got no answer. It sends the identical payload, whose nonce moves
    /// money at most once.
    async fn resolve(&self, payment: &OfferedX402, begun: &StartedSettlement) -> SettleOutcome;

    /// Looks up a settlement that another facilitator started. It moves no money and trusts only the chain.
    async fn look_up(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        match self.chain_node(payment) {
            Some(node) => node.look_up(payment, started).await,
            None => SettleOutcome::Unknown("no node is set, and without one the host cannot look at the chain".to_owned()),
        }
    }

    /// Looks up a payment whose transaction a reorganization of the chain has dropped, by its nonce. It moves nothing.
    /// [`SettleOutcome::Lost`] means that the nonce is unused and that the payment can be settled again.
    async fn find_again(&self, payment: &OfferedX402, started: &StartedSettlement) -> SettleOutcome {
        self.look_up(payment, started).await
    }

    /// Its name: `simulated`, `http` or `evm`.
    fn name(&self) -> &'static str;

    /// Its identity in intents: its name, and its address if it is remote.
    fn identity(&self) -> String {
        self.name().to_owned()
    }

    /// Returns who completes payers' transactions and pays their fees, on networks that need it. `None` while unknown.
    fn fee_payer(&self, _network: &Network) -> Option<String> {
        None
    }

    /// Returns the address that settles metered charges (scheme `upto`), which payers must name. `None` if unsupported.
    fn meter(&self, _network: &Network) -> Option<String> {
        None
    }

    /// Returns its status for operators.
    fn status(&self) -> Option<Value> {
        None
    }

    /// Returns the funds of the host's account for gas. `None` if the host pays for no gas, or if they are unknown.
    fn gas_funds(&self) -> Option<GasFunds> {
        None
    }

    /// Returns whether the money is play money.
    fn simulated(&self) -> bool {
        false
    }
}

/// Constructs the settlement of `payment` by `transaction`.
pub(super) fn settlement(payment: &OfferedX402, transaction: String) -> Settlement {
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

impl RefusalText {
    /// Returns it as the verdict on a payment.
    fn invalid(self) -> VerifyResult {
        VerifyResult::Invalid { reason: self.code.to_owned(), message: self.sentence.to_owned() }
    }

    fn refused(self) -> SettleOutcome {
        SettleOutcome::Refused { reason: self.code.to_owned(), message: self.sentence.to_owned() }
    }
}
