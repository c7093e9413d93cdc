//! What is read of a chain beside single payments: blocks, receipts, and transfers to an address.

use alloy_primitives::U256;
use async_trait::async_trait;

use crate::Asset;

/// Why a chain could not be read, for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChainError(pub String);

/// Where a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Number of its block.
    pub block: u64,
    /// Hash of the block, where the node told it.
    pub block_hash: Option<String>,
    /// Whether it was not reverted.
    pub succeeded: bool,
}

/// A transfer of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTransfer {
    /// Number of its block.
    pub block: u64,
    /// Place of its event in the block.
    pub log: u64,
    /// Hash of its transaction.
    pub transaction: String,
    /// Who paid.
    pub from: String,
    /// In the token's smallest units.
    pub amount: U256,
}

/// A chain that can be read.
#[async_trait]
pub trait ChainView: Send + Sync + 'static {
    /// The hash of a block; `None` where there is no block of that number.
    async fn block_hash(&self, number: u64) -> Result<Option<String>, ChainError>;

    /// When a block was made, in seconds since 1970.
    async fn block_secs(&self, number: u64) -> Result<u64, ChainError>;

    /// The number of a block that is not younger than that time, and not much older.
    async fn block_before(&self, secs: u64) -> Result<u64, ChainError>;

    /// The number of the newest block.
    async fn newest(&self) -> Result<u64, ChainError>;

    /// The number of the newest block that stays but for a fault of the network.
    async fn safe(&self) -> Result<u64, ChainError>;

    /// Where a transaction is; `None` where it is in no block.
    async fn placed(&self, transaction: &str) -> Result<Option<Placed>, ChainError>;

    /// Whether a transaction moved so much of a token to an address.
    async fn paid(&self, asset: &Asset, to: &str, transaction: &str, amount: U256) -> Result<bool, ChainError>;

    /// The transfers of a token to an address, from the first block to at most the last one, and the last block that was looked through:
    /// no further than until `most` transfers were found.
    async fn transfers(&self, asset: &Asset, to: &str, blocks: (u64, u64), most: usize) -> Result<(Vec<TokenTransfer>, u64), ChainError>;
}
