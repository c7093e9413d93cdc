//! Started settlements and their results.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;

use super::payment_offer::WireVersion;

/// A settled payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The kind of money that moved.
    pub kind: SettlementKind,
    /// Transaction hash; empty for credit.
    pub transaction: String,
    /// CAIP-2 id of the network; empty for credit.
    pub network: String,
    /// Token address; empty for credit.
    pub asset: String,
    /// Amount in the token's smallest units; for credit in micro-USD.
    pub amount: String,
    /// Address of the payer, or the id of the credit.
    pub payer: String,
    /// The x402 scheme, or `credit`.
    pub scheme: String,
    /// The x402 version of the payment; `None` for credit.
    pub version: Option<WireVersion>,
    /// Evidence from the chain; `None` if only the facilitator reported it.
    #[serde(skip)]
    pub evidence: Option<Evidence>,
}

/// Evidence of a settlement from the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Number of the transaction's block.
    pub block: u64,
    /// Hash of the block, if the node returned it.
    pub block_hash: Option<String>,
    /// Whether the transaction is known to have spent this payment's nonce. Then its transfer pays for no other
    /// payment.
    pub spends_nonce: bool,
    /// Whether only a fault of the network can replace the block.
    pub is_final: bool,
}

/// The kind of money that a settlement moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettlementKind {
    /// Tokens on a network.
    X402,
    /// A credit's balance.
    Credit,
}

/// A started settlement, as recorded in its intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedSettlement {
    /// When the intent was written.
    pub at: Timestamp,
    /// [Identity](super::Facilitator::identity) of the facilitator that had to move the money. `None` if it is not
    /// known.
    pub facilitator: Option<String>,
    /// The transaction that was prepared for it.
    pub transaction: Option<String>,
}
