//! The event by which a nonce was spent.

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    events::{CANCELED, Log, USED},
    node::{At, Block, Node, RpcError},
};
use crate::{Asset, x402::eip3009::Transfer};

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

/// A walk through the events of a token, from block to block, in ranges that the node allows.
pub(super) struct Walk<'a> {
    node: &'a Node,
    filter: Value,
    first: u64,
    from: u64,
    last: u64,
    span: u64,
    questions: u32,
}

impl<'a> Walk<'a> {
    /// Through what `filter` names, from block `first` to `last`.
    pub(super) fn new(node: &'a Node, filter: Value, first: u64, last: u64) -> Self {
        Self { node, filter, first, from: first, last, span: SPAN, questions: 0 }
    }

    /// The events of the next range; `None` where there is none, or was asked enough.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Log>>, RpcError> {
        while self.from <= self.last && self.questions < MOST_QUESTIONS {
            self.questions += 1;
            let to = (self.from + self.span - 1).min(self.last);
            (self.filter["fromBlock"], self.filter["toBlock"]) = (json!(format!("{:#x}", self.from)), json!(format!("{to:#x}")));
            match self.node.ask("eth_getLogs", json!([self.filter])).await {
                Ok(logs) => {
                    self.from = to + 1;
                    return Ok(Some(logs));
                }
                // It may be more than the node looks through at once.
                Err(RpcError::Said { .. } | RpcError::Unclear { .. }) if self.span > LEAST_SPAN => {
                    self.span = (self.span / 4).max(LEAST_SPAN)
                }
                // So many events may lie in a few blocks.
                Err(RpcError::TooLarge(_)) if self.span > 1 => self.span = (self.span / 4).max(1),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The last block that was looked through; the one before the first where none was.
    pub(super) fn looked_to(&self) -> u64 {
        self.from.min(self.last + 1).saturating_sub(1)
    }

    /// None of the events so far says how a nonce was spent that is.
    pub(super) fn says_nothing(&self) -> Undecided {
        Undecided::Says(format!(
            "the nonce is spent, but no event from block {} to {} says how",
            self.first,
            self.from.min(self.last + 1) - 1
        ))
    }
}

impl Node {
    /// The event by which the nonce was spent, after about this time.
    pub(super) async fn event(&self, asset: &Asset, transfer: &Transfer, safe: &Block, after_secs: u64) -> Result<Log, Undecided> {
        let first = self.block_before(safe, after_secs).await?;
        let topics: (_, B256, B256) = ([USED, CANCELED], transfer.from.into_word(), transfer.nonce);
        let mut walk = Walk::new(self, json!({ "address": asset.address, "topics": topics }), first, safe.number.to());
        while let Some(logs) = walk.next().await? {
            if let Some(event) = logs.into_iter().find(|log| log.spends(transfer, asset)) {
                return Ok(event);
            }
        }
        Err(walk.says_nothing())
    }

    /// The number of a block that is not younger than that time, and not much older.
    pub(super) async fn block_before(&self, safe: &Block, secs: u64) -> Result<u64, RpcError> {
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
