//! The comparison of the ledger with a chain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::constant::True;

/// A comparison of a range of blocks with the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reconciliation {
    /// Always true.
    pub ok: True,
    /// The network.
    pub network: String,
    /// The first block.
    pub from_block: u64,
    /// The last block.
    pub to_block: u64,
    /// Number of transfers to the host's address in these blocks.
    pub transfers: u64,
    /// Number of receipts of payments on the network within the time of these blocks.
    pub receipts: u64,
    /// Transfers without a receipt.
    pub unknown: Vec<UnknownTransfer>,
    /// Receipts whose transaction contains no such transfer.
    pub missing: Vec<MissingTransfer>,
    /// Transactions with fewer transfers than receipts.
    pub doubled: Vec<DoubledTransaction>,
    /// Whether there are more differences than the lists contain. Compare a shorter time then.
    pub truncated: bool,
    /// Whether there are no differences.
    pub agrees: bool,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A transfer without a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UnknownTransfer {
    /// Its transaction.
    pub transaction: String,
    /// Its block.
    pub block: u64,
    /// Index of its event in the block.
    pub log_index: u64,
    /// The sender.
    pub from: String,
    /// Address of the token.
    pub asset: String,
    /// The amount, in the smallest unit of the token.
    pub amount: String,
}

/// A receipt whose transaction contains no such transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MissingTransfer {
    /// The receipt.
    pub receipt_id: String,
    /// Its transaction.
    pub transaction: String,
    /// Address of the token.
    pub asset: String,
    /// The amount, in the smallest unit of the token.
    pub amount: String,
}

/// A transaction with fewer transfers than receipts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DoubledTransaction {
    /// The transaction.
    pub transaction: String,
    /// Number of its transfers.
    pub transfers: u64,
    /// The receipts that name it.
    pub receipt_ids: Vec<String>,
}
