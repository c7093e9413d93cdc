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
