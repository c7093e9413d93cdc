//! What is read of a chain beside single payments: blocks, receipts, and transfers to an address.

use std::{fmt, sync::Arc};

use alloy_primitives::{Address, B256, U64, U256};
use serde::Deserialize;
use serde_json::json;

use super::{
    events::{Log, MOVED, Receipt},
    node::{At, Node, RpcError},
    search::Walk,
};
use crate::money::Asset;

/// How far below the newest block one stays, where the node names no safe block.
const FAR_BELOW: u64 = 1_000;

/// A chain, read through a node of the settings.
#[derive(Clone)]
pub struct ChainReader(Arc<Node>);

impl fmt::Debug for ChainReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChainReader").field(&self.0.network().caip2).finish()
    }
}

/// Where a transaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::money) struct Placed {
    pub(in crate::money) block: u64,
    pub(in crate::money) block_hash: Option<String>,
    /// Whether it was not reverted.
    pub(in crate::money) succeeded: bool,
}

/// A transfer of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::money) struct TokenTransfer {
    pub(in crate::money) block: u64,
    pub(in crate::money) log: u64,
    pub(in crate::money) transaction: String,
    pub(in crate::money) from: String,
    pub(in crate::money) amount: U256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numbered {
    number: U64,
    hash: B256,
    timestamp: U64,
}

impl ChainReader {
    pub(in crate::money) fn new(node: Arc<Node>) -> Self {
        Self(node)
    }

    /// The hash of a block; `None` where the node has no block of that number.
    pub(in crate::money) async fn block_hash(&self, number: u64) -> Result<Option<String>, RpcError> {
        let block: Option<Numbered> = self.0.ask("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await?;
        Ok(block.map(|block| block.hash.to_string()))
    }

    /// When a block was made, in seconds since 1970.
    pub(in crate::money) async fn block_secs(&self, number: u64) -> Result<u64, RpcError> {
        Ok(self.0.block(At::Number(number)).await?.timestamp.to())
    }

    /// The newest block: its number, and when it was made.
    pub(in crate::money) async fn newest(&self) -> Result<(u64, u64), RpcError> {
        self.0.proven().await?;
        let block: Numbered = self.0.ask("eth_getBlockByNumber", json!(["latest", false])).await?;
        Ok((block.number.to(), block.timestamp.to()))
    }

    /// The newest block that stays but for a fault of the network.
    pub(in crate::money) async fn safe(&self) -> Result<u64, RpcError> {
        match self.0.block(At::Safe).await {
            Ok(block) => Ok(block.number.to()),
            Err(RpcError::Said { .. } | RpcError::Unclear { .. }) => Ok(self.newest().await?.0.saturating_sub(FAR_BELOW)),
            Err(error) => Err(error),
        }
    }

    /// Where a transaction is; `None` where it is in no block.
    pub(in crate::money) async fn placed(&self, transaction: &str) -> Result<Option<Placed>, RpcError> {
        let receipt: Option<Receipt> = self.0.ask("eth_getTransactionReceipt", json!([transaction])).await?;
        Ok(receipt.map(|receipt| Placed {
            block: receipt.block_number.to(),
            block_hash: receipt.block_hash.map(|hash| hash.to_string()),
            succeeded: receipt.status == U64::ONE,
        }))
    }

    /// Whether a transaction moved so much of a token to an address.
    pub(in crate::money) async fn paid(&self, asset: &Asset, to: &str, transaction: &str, amount: U256) -> Result<bool, RpcError> {
        let Ok(to) = to.parse() else { return Ok(false) };
        let receipt: Option<Receipt> = self.0.ask("eth_getTransactionReceipt", json!([transaction])).await?;
        let moved = |log: &Log| log.moved_to(to, asset).is_some_and(|(_, moved)| moved == amount);
        Ok(receipt.is_some_and(|receipt| receipt.status == U64::ONE && receipt.logs.iter().any(moved)))
    }

    /// The number of a block that is not younger than that time, and not much older.
    pub(in crate::money) async fn block_before(&self, secs: u64) -> Result<u64, RpcError> {
        self.0.proven().await?;
        let newest = self.0.block(At::Latest).await?;
        self.0.block_before(&newest, secs).await
    }

    /// The transfers of a token to an address, from block `first` to at most `last`, and the last block that was looked through: no
    /// further than until `most` transfers were found.
    pub(in crate::money) async fn transfers(
        &self,
        asset: &Asset,
        to: Address,
        (first, last): (u64, u64),
        most: usize,
    ) -> Result<(Vec<TokenTransfer>, u64), RpcError> {
        let filter = json!({ "address": asset.address, "topics": (MOVED, (), to.into_word()) });
        let mut walk = Walk::new(&self.0, filter, first, last);
        let mut found = Vec::new();
        while found.len() < most
            && let Some(logs) = walk.next().await?
        {
            found.extend(logs.iter().filter_map(|log| TokenTransfer::of(log, asset, to)));
        }
        Ok((found, walk.looked_to()))
    }
}

impl TokenTransfer {
    fn of(log: &Log, asset: &Asset, to: Address) -> Option<Self> {
        let (from, amount) = log.moved_to(to, asset)?;
        Some(Self { block: log.block()?, log: log.index(), transaction: log.transaction_hash.to_string(), from: from.to_string(), amount })
    }
}
