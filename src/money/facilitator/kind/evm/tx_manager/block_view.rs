//! Looks at the newest block for pending transactions.

use alloy_primitives::{Address, B256};
use futures_util::StreamExt as _;

use crate::facilitator::chain::{
    events::TxReceipt,
    node::{BlockTag, Node, RpcError},
};

/// Number of concurrent requests for receipts.
const AT_ONCE: usize = 16;

/// The result of reading a block.
pub(super) struct BlockView {
    pub(super) head: u64,
    /// Number of the signer's mined transactions, if requested.
    pub(super) used: Option<u64>,
    /// Number of the signer's mined and pending transactions, if requested.
    pub(super) pending: Option<u64>,
    pub(super) receipts: Vec<(u64, TxReceipt)>,
}

/// The counts of the signer's transactions to request.
#[derive(Debug, Clone, Copy)]
pub(super) struct TxCounts {
    /// Mined transactions.
    pub(super) used: bool,
    /// Mined transactions, and pending ones without a gap before them.
    pub(super) pending: bool,
}

/// Looks for sent transactions in the blocks since `before`.
pub(super) async fn looked(
    node: &Node,
    address: Address,
    sent: Vec<(u64, Vec<B256>)>,
    before: Option<u64>,
    counts: TxCounts,
) -> Result<BlockView, RpcError> {
    let head = node.block(BlockTag::Latest).await?.number.to();
    let used = if counts.used { Some(node.tx_count(address, "latest").await?) } else { None };
    let pending = if counts.pending { Some(node.tx_count(address, "pending").await?) } else { None };
    let searched = if Some(head) == before && !counts.used { Vec::new() } else { sent };
    let questions = searched.into_iter().flat_map(|(nonce, hashes)| hashes.into_iter().map(move |hash| (nonce, hash)));
    let request = questions.map(async |(nonce, hash)| Ok::<_, RpcError>(node.receipt(hash).await?.map(|receipt| (nonce, receipt))));
    let found: Vec<_> = futures_util::stream::iter(request).buffer_unordered(AT_ONCE).collect().await;
    let receipts = found.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
    Ok(BlockView { head, used, pending, receipts })
}
