//! Searches for the event that spent a nonce.

use alloy_primitives::B256;
use serde_json::{Value, json};
use tollhouse_base::{boxed, plural::plural_range};

use super::{
    events::{CANCELED, EventLog, USED},
    node::{Block, BlockTag, MAX_LARGE_ANSWER_BYTES, Node, RpcError},
};
use crate::{Asset, facilitator::json_client::MAX_ANSWER_BYTES, x402::eip3009::Transfer};

/// Number of blocks per request for events, and the minimum for nodes that allow fewer.
const SPAN: u64 = 1_000;
const LEAST_SPAN: u64 = 10;

/// Maximum number of requests for events per decision.
const MAX_QUESTIONS: u32 = 100;

/// Why a node's answers decide nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecided {
    #[error(transparent)]
    Node(#[from] RpcError),
    #[error("{0}")]
    Evidence(String),
}

impl Undecided {
    /// Returns whether the reason can concern this one request, so that others can still succeed.
    pub(crate) fn is_of_one_request(&self) -> bool {
        match self {
            Self::Node(RpcError::Unsent(_) | RpcError::Silent(_) | RpcError::WrongChain(..)) => false,
            Self::Node(error) => !error.is_rate_refusal(),
            Self::Evidence(_) => true,
        }
    }
}

/// An iteration over the events of a token, block by block, in ranges that the node allows.
pub(crate) struct Walk<'a> {
    node: &'a Node,
    filter: Value,
    first: u64,
    from: u64,
    last: u64,
    span: u64,
    questions: u32,
    max_bytes: usize,
}

impl<'a> Walk<'a> {
    /// Iterates over the events that match `filter`, from block `first` to `last`.
    pub(crate) fn new(node: &'a Node, filter: Value, first: u64, last: u64) -> Self {
        Self { node, filter, first, from: first, last, span: SPAN, questions: 0, max_bytes: MAX_ANSWER_BYTES }
    }

    /// Iterates over the events of many senders, which need larger answers.
    pub(crate) fn with_large_answers(self) -> Self {
        Self { max_bytes: MAX_LARGE_ANSWER_BYTES, ..self }
    }

    /// Skips the next block, whose events were [too large](RpcError::TooLarge). Returns its number.
    pub(crate) fn skip_block(&mut self) -> u64 {
        self.from += 1;
        self.from - 1
    }

    /// Returns the events of the next range, or `None` at the end or after the maximum number of requests.
    #[boxed]
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<EventLog>>, RpcError> {
        while self.from <= self.last && self.questions < MAX_QUESTIONS {
            self.questions += 1;
            let to = (self.from + self.span - 1).min(self.last);
            (self.filter["fromBlock"], self.filter["toBlock"]) = (json!(format!("{:#x}", self.from)), json!(format!("{to:#x}")));
            match self.node.rpc_for("eth_getLogs", json!([self.filter]), self.max_bytes).await {
                Ok(logs) => {
                    self.from = to + 1;
                    return Ok(Some(logs));
                }
                // The range may be too large for the node.
                Err(RpcError::Answered { .. } | RpcError::Unclear { .. }) if self.span > LEAST_SPAN => {
                    self.span = (self.span / 4).max(LEAST_SPAN)
                }
                // Even a few blocks can have too many events.
                Err(RpcError::TooLarge { .. }) if self.span > 1 => self.span = (self.span / 4).max(1),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns the last block that was searched, or the one before the first if there was none.
    pub(crate) fn looked_to(&self) -> u64 {
        self.from.min(self.last + 1).saturating_sub(1)
    }

    /// The error for a nonce that is spent although no event so far shows how.
    pub(super) fn inconclusive(&self) -> Undecided {
        Undecided::Evidence(format!(
            "the nonce is spent, but no event in {} shows how",
            plural_range("block", self.first, self.from.min(self.last + 1) - 1)
        ))
    }
}

impl Node {
    /// Finds the event that spent the nonce, after about this time.
    pub(super) async fn event(&self, asset: &Asset, transfer: &Transfer, safe: &Block, after_secs: u64) -> Result<EventLog, Undecided> {
        let first = self.search_back(safe, after_secs).await?;
        let topics: (_, B256, B256) = ([USED, CANCELED], transfer.from.into_word(), transfer.nonce);
        let mut walk = Walk::new(self, json!({ "address": asset.address, "topics": topics }), first, safe.number.to());
        while let Some(logs) = walk.next().await? {
            if let Some(event) = logs.into_iter().find(|log| log.spends(transfer, asset)) {
                return Ok(event);
            }
        }
        Err(walk.inconclusive())
    }

    /// Returns the number of a block at or shortly before this time.
    pub(crate) async fn search_back(&self, safe: &Block, secs: u64) -> Result<u64, RpcError> {
        let older = async |number| Ok::<_, RpcError>(self.block(BlockTag::Number(number)).await?.timestamp.to::<u64>() <= secs);
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
