//! A look at the newest block, for transactions that are on their way.

use alloy_primitives::{Address, B256, U64};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::json;

use crate::facilitator::chain::{
    events::Receipt,
    node::{Node, RpcError},
};

/// Receipts asked for at once.
const AT_ONCE: usize = 16;

/// What there is to see at a block.
pub(super) struct Looked {
    pub(super) head: u64,
    /// How many transactions of the signer are in blocks, if that was asked.
    pub(super) used: Option<u64>,
    /// How many with those that are in none, if that was.
    pub(super) pending: Option<u64>,
    pub(super) receipts: Vec<(u64, Receipt)>,
}

/// Which transactions of the signer are to be counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    /// Those in blocks.
    pub(super) used: bool,
    /// With those that are in none and wait for nothing that is missing.
    pub(super) pending: bool,
}

/// The newest block, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    number: U64,
}

/// What there is to see since block `before` of those that were sent.
pub(super) async fn looked(
    node: &Node,
    address: Address,
    sent: Vec<(u64, Vec<B256>)>,
    before: Option<u64>,
    counts: Counts,
) -> Result<Looked, RpcError> {
    let head: Head = node.ask("eth_getBlockByNumber", json!(["latest", false])).await?;
    let head = head.number.to::<u64>();
    let used: Option<U64> = match counts.used {
        true => Some(node.ask("eth_getTransactionCount", json!([address, "latest"])).await?),
        false => None,
    };
    let pending: Option<U64> = match counts.pending {
        true => Some(node.ask("eth_getTransactionCount", json!([address, "pending"])).await?),
        false => None,
    };
    let searched = if Some(head) == before && !counts.used { Vec::new() } else { sent };
    let questions = searched.into_iter().flat_map(|(nonce, hashes)| hashes.into_iter().map(move |hash| (nonce, hash)));
    let asked = questions.map(async |(nonce, hash)| {
        let receipt: Option<Receipt> = node.ask("eth_getTransactionReceipt", json!([hash])).await?;
        Ok::<_, RpcError>(receipt.map(|receipt| (nonce, receipt)))
    });
    let found: Vec<_> = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
    let receipts = found.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
    Ok(Looked { head, used: used.map(|used| used.to()), pending: pending.map(|pending| pending.to()), receipts })
}
