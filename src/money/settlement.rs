//! Money that moved.

use serde::{Deserialize, Serialize};

use super::offered::WireVersion;

/// Money that moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// What moved.
    pub kind: SettlementKind,
    /// Transaction hash; empty for credit.
    pub transaction: String,
    /// CAIP-2; empty for credit.
    pub network: String,
    /// Token address; empty for credit.
    pub asset: String,
    /// In the asset's smallest units; for credit in micro-USD.
    pub amount: String,
    /// Address of the payer; id of the credit for credit.
    pub payer: String,
    /// Scheme of x402; `credit` for credit.
    pub scheme: String,
    /// Wire version that it was paid in; `None` for credit.
    pub version: Option<WireVersion>,
    /// What the chain says of it; `None` where only a facilitator's word is known.
    #[serde(skip)]
    pub evidence: Option<Evidence>,
}

/// What the chain says of a settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Number of the block that the transaction was seen in.
    pub block: u64,
    /// Its hash, where the node told it.
    pub block_hash: Option<String>,
    /// Whether the transaction is known to have spent this payment's nonce: then it pays for no other payment by the same transfer.
    pub spends_nonce: bool,
    /// Whether the block stays but for a fault of the network.
    pub is_final: bool,
}

/// What a settlement moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettlementKind {
    /// Tokens, on a network.
    X402,
    /// A credit's balance.
    Credit,
}
