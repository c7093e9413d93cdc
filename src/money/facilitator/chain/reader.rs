//! Reads a chain through a node.

use alloy_primitives::{Address, B256, U64, U256};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use super::{
    events::{EventLog, MOVED, TxReceipt},
    node::{BlockTag, Node, RpcError},
    search::Walk,
};
use crate::{
    Asset, Evidence, OfferedX402,
    facilitator::chain_view::{ChainError, ChainView, TokenTransfer, TxPlacement},
};

/// Distance from the newest block that is treated as safe if the node names no safe block.
const FAR_BELOW: u64 = 1_000;

impl From<RpcError> for ChainError {
    fn from(error: RpcError) -> Self {
        Self(error.to_string())
    }
}

#[derive(Deserialize)]
struct Hashed {
    hash: B256,
}

#[async_trait]
impl ChainView for Node {
    async fn block_hash(&self, number: u64) -> Result<Option<String>, ChainError> {
        let block: Option<Hashed> = self.ask("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await?;
        Ok(block.map(|block| block.hash.to_string()))
    }

    async fn block_secs(&self, number: u64) -> Result<u64, ChainError> {
        Ok(self.block(BlockTag::Number(number)).await?.timestamp.to())
    }

    async fn block_before(&self, secs: u64) -> Result<u64, ChainError> {
        let newest = self.block(BlockTag::Latest).await?;
        Ok(Self::block_before(self, &newest, secs).await?)
    }

    async fn newest(&self) -> Result<u64, ChainError> {
        Ok(self.block(BlockTag::Latest).await?.number.to())
    }

    async fn safe(&self) -> Result<u64, ChainError> {
        match self.block(BlockTag::Safe).await {
            Ok(block) => Ok(block.number.to()),
            Err(RpcError::Said { .. } | RpcError::Unclear { .. }) => Ok(self.newest().await?.saturating_sub(FAR_BELOW)),
            Err(error) => Err(error.into()),
        }
    }

    async fn placed(&self, transaction: &str) -> Result<Option<TxPlacement>, ChainError> {
        let receipt: Option<TxReceipt> = self.ask("eth_getTransactionReceipt", json!([transaction])).await?;
        Ok(receipt.map(|receipt| TxPlacement {
            block: receipt.block_number.to(),
            block_hash: receipt.block_hash.map(|hash| hash.to_string()),
            succeeded: receipt.status == U64::ONE,
        }))
    }

    async fn paid(&self, asset: &Asset, to: &str, transaction: &str, amount: U256) -> Result<bool, ChainError> {
        let Ok(to) = to.parse() else { return Ok(false) };
        let receipt: Option<TxReceipt> = self.ask("eth_getTransactionReceipt", json!([transaction])).await?;
        let moved = |log: &EventLog| log.moved_to(to, asset).is_some_and(|(_, moved)| moved == amount);
        Ok(receipt.is_some_and(|receipt| receipt.status == U64::ONE && receipt.logs.iter().any(moved)))
    }

    async fn spent_by(&self, payment: &OfferedX402, transaction: &str) -> Result<Option<Evidence>, ChainError> {
        let Ok(hash) = transaction.parse() else { return Ok(None) };
        Self::spent_by(self, payment, hash).await.map_err(|reason| ChainError(reason.to_string()))
    }

    async fn transfers(
        &self,
        asset: &Asset,
        to: &str,
        (first, last): (u64, u64),
        max: usize,
    ) -> Result<(Vec<TokenTransfer>, u64), ChainError> {
        let to: Address = to.parse().map_err(|_| ChainError(format!("`{to}` is not an address")))?;
        let filter = json!({ "address": asset.address, "topics": (MOVED, (), to.into_word()) });
        let mut walk = Walk::new(self, filter, first, last);
        let mut found = Vec::new();
        while found.len() < max
            && let Some(logs) = walk.next().await?
        {
            found.extend(logs.iter().filter_map(|log| transfer(log, asset, to)));
        }
        Ok((found, walk.looked_to()))
    }
}

fn transfer(log: &EventLog, asset: &Asset, to: Address) -> Option<TokenTransfer> {
    let (from, amount) = log.moved_to(to, asset)?;
    let transaction = log.transaction_hash.to_string();
    Some(TokenTransfer { block: log.block()?, log: log.index(), transaction, from: from.to_string(), amount })
}
