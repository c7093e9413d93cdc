//! Checks of a network's node, and of the account that pays for gas there, for operators.

use std::time::Instant;

use alloy_primitives::Address;
use tollhouse_base::clock::Clock;

use super::evm;
use crate::{
    GasFunds,
    facilitator::{
        chain::node::{BlockTag, Node, RpcError},
        reason::logged,
    },
};

/// Maximum age of a node's newest block, in seconds. All networks make a block every few seconds.
const MAX_HEAD_AGE_SECS: u64 = 300;

/// The account that pays for gas on a network, and its funds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GasAccount {
    /// The account's address.
    pub address: String,
    /// Its funds, or why they cannot be read.
    pub funds: Result<GasFunds, String>,
}

/// Checks the chain id and the newest block of a node. Returns a description, or why settlements cannot be looked up there.
pub(super) async fn follows_chain(node: &Node) -> Result<String, String> {
    let started = Instant::now();
    let block = node.block(BlockTag::Latest).await.map_err(|error| text(&error))?;
    let (elapsed, age) = (started.elapsed().as_millis(), Clock::default().now().as_secs().saturating_sub(block.timestamp.to()));
    if age > MAX_HEAD_AGE_SECS {
        return Err(format!("the newest block of the node is {age} s old, so the node does not follow the chain"));
    }
    Ok(format!("the node answers in {elapsed} ms, and its newest block is {age} s old"))
}

/// Reads the funds of the account that pays for gas.
pub(super) async fn gas_account(node: &Node, account: Address) -> GasAccount {
    GasAccount { address: account.to_checksum(None), funds: evm::funds_of(node, account).await.map_err(|error| text(&error)) }
}

fn text(error: &RpcError) -> String {
    logged(&error.to_string())
}
