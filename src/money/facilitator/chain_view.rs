//! Read access to a chain beyond single payments: blocks, receipts, and transfers to an address.

use alloy_primitives::U256;
use async_trait::async_trait;

use crate::{Asset, Evidence, OfferedX402};

/// Why a chain could not be read, for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChainError(pub String);

/// The block of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxPlacement {
    /// Number of the block.
    pub block: u64,
    /// Hash of the block, if the node returned it.
    pub block_hash: Option<String>,
    /// Whether the transaction was not reverted.
    pub succeeded: bool,
}

/// A transfer of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTransfer {
    /// Number of the block.
    pub block: u64,
    /// Index of its event in the block.
    pub log: u64,
    /// Hash of the transaction.
    pub transaction: String,
    /// The sender.
    pub from: String,
    /// The amount in the token's smallest units.
    pub amount: U256,
}

/// A chain that can be read.
#[async_trait]
pub trait ChainView: Send + Sync + 'static {
    /// Returns the hash of a block, or `None` if there is no block with that number.
    async fn block_hash(&self, number: u64) -> Result<Option<String>, ChainError>;

    /// Returns the time of a block, in seconds since 1970.
    async fn block_secs(&self, number: u64) -> Result<u64, ChainError>;

    /// Returns the number of a block at or shortly before this time.
    async fn block_before(&self, secs: u64) -> Result<u64, ChainError>;

    /// Returns the number of the newest block.
    async fn newest(&self) -> Result<u64, ChainError>;

    /// Returns the number of the newest block that only a fault of the network can replace.
    async fn safe(&self) -> Result<u64, ChainError>;

    /// Returns the block of a transaction, or `None` if it is not in a block.
    async fn placed(&self, transaction: &str) -> Result<Option<TxPlacement>, ChainError>;

    /// Returns whether a transaction moved `amount` of a token to an address.
    async fn paid(&self, asset: &Asset, to: &str, transaction: &str, amount: U256) -> Result<bool, ChainError>;

    /// Returns the evidence that a transaction moved the money of this payment with the payment's own nonce, or `None`
    /// if the chain does not show this.
    async fn spent_by(&self, payment: &OfferedX402, transaction: &str) -> Result<Option<Evidence>, ChainError>;

    /// Returns the transfers of a token to an address within a range of blocks, and the last block that was searched.
    /// The search ends early once `most` transfers were found.
    async fn transfers(&self, asset: &Asset, to: &str, blocks: (u64, u64), most: usize) -> Result<(Vec<TokenTransfer>, u64), ChainError>;
}
