//! The event by which a nonce was spent.

use alloy_primitives::B256;
use serde_json::json;

use super::{
    events::{CANCELED, Log, USED},
    node::{At, Block, Node, RpcError},
};
use crate::money::{Asset, x402::eip3009::Transfer};

/// Blocks whose events are asked for at once, and the fewest of them for nodes that allow no more.
const SPAN: u64 = 1_000;
const LEAST_SPAN: u64 = 10;

/// Questions for events in one judgement.
const MOST_QUESTIONS: u32 = 100;

/// Why a node decides nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undecided {
    #[error(transparent)]
    Node(#[from] RpcError),
    #[error("{0}")]
    Says(String),
}

impl Node {
    /// The event by which the nonce was spent, after about this time.
    pub(super) async fn event(&self, asset: &Asset, transfer: &Transfer, safe: &Block, after_secs: u64) -> Result<Log, Undecided> {
        let first = self.block_before(safe, after_secs).await?;
        let (last, mut from, mut span) = (safe.number.to::<u64>(), first, SPAN);
        for _ in 0..MOST_QUESTIONS {
            if from > last {
                break;
            }
            let to = (from + span - 1).min(last);
            match self.events(asset, transfer, from, to).await {
                Ok(logs) => match logs.into_iter().find(|log| log.spends(transfer, asset)) {
                    Some(event) => return Ok(event),
                    None => from = to + 1,
                },
                // It may be more than the node looks through at once.
                Err(RpcError::Said { .. }) if span > LEAST_SPAN => span = (span / 4).max(LEAST_SPAN),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Undecided::Says(format!("the nonce is spent, but no event from block {first} to {} says how", from.min(last + 1) - 1)))
    }

    async fn events(&self, asset: &Asset, transfer: &Transfer, from: u64, to: u64) -> Result<Vec<Log>, RpcError> {
        let topics: (_, B256, B256) = ([USED, CANCELED], transfer.from.into_word(), transfer.nonce);
        let (from, to) = (format!("{from:#x}"), format!("{to:#x}"));
        let filter = json!({ "address": asset.address, "topics": topics, "fromBlock": from, "toBlock": to });
        self.ask("eth_getLogs", json!([filter])).await
    }

    /// The number of a block that is not younger than that time, and not much older.
    async fn block_before(&self, safe: &Block, secs: u64) -> Result<u64, RpcError> {
        let older = async |number| Ok::<_, RpcError>(self.block(At::Number(number)).await?.timestamp.to::<u64>() <= secs);
        let (mut young, mut step) = (safe.number.to::<u64>(), SPAN);
        let mut old = loop {
            let number = young.saturating_sub(step);
            if number == 0 || older(number).await? {
                break number;
            }
            (young, step) = (number, step * 2);
        };
        while young - old > SPAN {
            let middle = old + (young - old) / 2;
            if older(middle).await? { old = middle } else { young = middle }
        }
        Ok(old)
    }
}
