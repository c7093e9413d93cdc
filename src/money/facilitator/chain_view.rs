//! Reads a chain beyond single payments: blocks, receipts, and transfers to an address.

use alloy_primitives::{Address, U64, U256};
use serde_json::json;

use super::chain::{
    events::{EventLog, MOVED, TxReceipt},
    node::{Block, BlockTag, MAX_LARGE_ANSWER_BYTES, Node, RpcError},
    nonce_use::evidence,
    search::{Undecided, Walk},
};
use crate::{Asset, Evidence};

/// Distance from the newest block that is treated as safe if the node names no safe block.
const FAR_BELOW: u64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenTransfer {
    pub(crate) block: u64,
    /// Index of its event in the block.
    pub(crate) log: u64,
    /// Hash of the transaction.
    pub(crate) transaction: String,
    /// The sender.
    pub(crate) from: String,
    /// The amount in the token's smallest units.
    pub(crate) amount: U256,
}

/// The transfers in a range of blocks.
#[derive(Debug)]
pub(crate) struct FoundTransfers {
    pub(crate) transfers: Vec<TokenTransfer>,
    /// The last block that was searched.
    pub(crate) last: u64,
    /// Whether no block was skipped because its transfers are too many to read.
    pub(crate) is_complete: bool,
}

impl Node {
    /// Returns the hash of a block, or `None` if there is no block with that number.
    pub(crate) async fn block_hash(&self, number: u64) -> Result<Option<String>, Undecided> {
        let block: Option<Block> = self.rpc("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await?;
        Ok(block.map(|block| block.hash.to_string()))
    }

    /// Returns the time of a block, in seconds since 1970.
    pub(crate) async fn block_secs(&self, number: u64) -> Result<u64, Undecided> {
        Ok(self.block(BlockTag::Number(number)).await?.timestamp.to())
    }

    /// Returns the number of a block at or shortly before this time.
    pub(crate) async fn block_before(&self, secs: u64) -> Result<u64, Undecided> {
        let newest = self.block(BlockTag::Latest).await?;
        Ok(self.search_back(&newest, secs).await?)
    }

    /// Returns the number of the newest block.
    pub(crate) async fn newest(&self) -> Result<u64, Undecided> {
        Ok(self.block(BlockTag::Latest).await?.number.to())
    }

    /// Returns the number of the newest block that only a fault of the network can replace.
    pub(crate) async fn safe(&self) -> Result<u64, Undecided> {
        match self.block(BlockTag::Safe).await {
            Ok(block) => Ok(block.number.to()),
            Err(RpcError::Answered { .. } | RpcError::Unclear { .. }) => Ok(self.newest().await?.saturating_sub(FAR_BELOW)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the block of a transaction, or `None` if it is not in a block or was reverted.
    pub(crate) async fn placed(&self, transaction: &str) -> Result<Option<Evidence>, Undecided> {
        let receipt: Option<TxReceipt> = self.rpc_for("eth_getTransactionReceipt", json!([transaction]), MAX_LARGE_ANSWER_BYTES).await?;
        Ok(receipt.filter(|receipt| receipt.status == U64::ONE).map(|receipt| evidence(&receipt, false)))
    }

    /// Returns whether a transaction moved `amount` of a token to an address.
    pub(crate) async fn paid(&self, asset: &Asset, to: &str, transaction: &str, amount: U256) -> Result<bool, Undecided> {
        let Ok(to) = to.parse() else { return Ok(false) };
        let receipt: Option<TxReceipt> = self.rpc_for("eth_getTransactionReceipt", json!([transaction]), MAX_LARGE_ANSWER_BYTES).await?;
        let moved = |log: &EventLog| log.moved_to(to, asset).is_some_and(|(_, moved)| moved == amount);
        Ok(receipt.is_some_and(|receipt| receipt.status == U64::ONE && receipt.logs.iter().any(moved)))
    }

    /// Returns the transfers of a token to an address within a range of blocks, without those of zero, which anybody
    /// can make. The search ends early once `max` transfers were found.
    pub(crate) async fn transfers(
        &self,
        asset: &Asset,
        to: &str,
        (first, last): (u64, u64),
        max: usize,
    ) -> Result<FoundTransfers, Undecided> {
        let to: Address = to.parse().map_err(|_| Undecided::Evidence(format!("`{to}` is not an address")))?;
        let filter = json!({ "address": asset.address, "topics": (MOVED, (), to.into_word()) });
        let mut walk = Walk::new(self, filter, first, last).with_large_answers();
        let (mut transfers, mut is_complete) = (Vec::new(), true);
        while transfers.len() < max {
            match walk.next().await {
                Ok(Some(logs)) => {
                    transfers.extend(logs.iter().filter_map(|log| transfer(log, asset, to)).filter(|transfer| !transfer.amount.is_zero()));
                }
                Ok(None) => break,
                Err(error @ RpcError::TooLarge { .. }) => {
                    let block = walk.skip_block();
                    tracing::warn!(network = self.network().caip2, block, %error, "a block has too many transfers to read and is skipped");
                    is_complete = false;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(FoundTransfers { transfers, last: walk.looked_to(), is_complete })
    }
}

fn transfer(log: &EventLog, asset: &Asset, to: Address) -> Option<TokenTransfer> {
    let (from, amount) = log.moved_to(to, asset)?;
    let transaction = log.transaction_hash.to_string();
    Some(TokenTransfer { block: log.block()?, log: log.index(), transaction, from: from.to_string(), amount })
}
