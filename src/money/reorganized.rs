//! Settlements that a reorganization of the chain may still undo, and those that it has undone.

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{PaymentId, ReceiptId},
};
use tollhouse_store::{Batch, Direction, Range, Store, StoreError, Table, schema};
use tollhouse_tool::{Owner, Slug};

use super::settlement::Settlement;

/// The key is network, block and receipt: see [`WatchedSettlement::key`].
pub(crate) const WATCHED: Table<String, WatchedSettlement> = schema::WATCHED_SETTLEMENTS.holding();
pub(crate) const REORGANIZED: Table<ReceiptId, ReorganizedSettlement> = schema::REORGANIZED_SETTLEMENTS.holding();
tollhouse_store::json_values!(WatchedSettlement, ReorganizedSettlement);

/// A settlement whose block may still be replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchedSettlement {
    pub(crate) receipt_id: ReceiptId,
    pub(crate) payment: PaymentId,
    pub(crate) network: String,
    pub(crate) transaction: String,
    pub(crate) block: u64,
    pub(crate) block_hash: Option<String>,
    pub(crate) owner: Owner,
    pub(crate) slug: Option<Slug>,
    /// When the node was first found not to have it.
    pub(crate) missing_since: Option<Timestamp>,
}

/// A settlement whose transaction is no longer in a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReorganizedSettlement {
    pub(crate) settlement: WatchedSettlement,
    /// When it was noticed.
    pub at: Timestamp,
}

impl ReorganizedSettlement {
    /// Returns the receipt.
    #[must_use]
    pub fn receipt_id(&self) -> &ReceiptId {
        &self.settlement.receipt_id
    }

    /// Returns the transaction.
    #[must_use]
    pub fn transaction(&self) -> &str {
        &self.settlement.transaction
    }

    /// Returns the network's CAIP-2 id.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.settlement.network
    }

    /// Returns the owner of the paid tool.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.settlement.owner
    }

    /// Returns the paid tool.
    #[must_use]
    pub fn slug(&self) -> Option<&Slug> {
        self.settlement.slug.as_ref()
    }
}

impl WatchedSettlement {
    pub(crate) fn key(&self) -> String {
        format!("{}/{:020}/{}", self.network, self.block, self.receipt_id)
    }
}

/// Returns the row that watches a settlement until its block is final. Empty if the block is final already, or if the
/// chain was not read.
pub(crate) fn watch(payment: &PaymentId, receipt_id: &str, settlement: &Settlement, owner: &Owner, slug: Option<&Slug>) -> Batch {
    let Some(evidence) = settlement.evidence.as_ref().filter(|evidence| !evidence.is_final) else { return Batch::new() };
    let Ok(receipt_id) = receipt_id.parse() else { return Batch::new() };
    let watched = WatchedSettlement {
        receipt_id,
        payment: payment.clone(),
        network: settlement.network.clone(),
        transaction: settlement.transaction.clone(),
        block: evidence.block,
        block_hash: evidence.block_hash.clone(),
        owner: owner.clone(),
        slug: slug.cloned(),
        missing_since: None,
    };
    WATCHED.put(&watched.key(), &watched)
}

/// Returns the range of watched settlements on a network.
pub(crate) fn watched_on(network: &str) -> Range<String> {
    WATCHED.under(&format!("{network}/"))
}

/// Counts settlements undone by a reorganization, up to `most`.
///
/// # Errors
///
/// Errors of the store.
pub async fn count_reorganized(store: &dyn Store, most: usize) -> Result<usize, StoreError> {
    REORGANIZED.count(store, &REORGANIZED.all(), most).await
}

/// Returns the newest settlements undone by a reorganization, at most `limit`.
///
/// # Errors
///
/// Errors of the store.
pub(crate) async fn list_reorganized(store: &dyn Store, limit: usize) -> Result<Vec<ReorganizedSettlement>, StoreError> {
    let rows = REORGANIZED.page(store, &REORGANIZED.all(), limit, Direction::Backward).await?;
    Ok(rows.into_iter().map(|row| row.value).collect())
}
