//! Settlements that the chain may still take back, and those that it took back.

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::Timestamp,
    id::{PaymentId, ReceiptId},
};
use tollhouse_store::{Batch, Direction, Range, Store, StoreError, Table, schema};
use tollhouse_tool::{Owner, Slug};

use super::settlement::Settlement;

/// By network, block and receipt, as [`watched_key`] has it.
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
    /// Since when the node does not have it.
    pub(crate) missing_since: Option<Timestamp>,
}

/// A settlement whose transaction is in no block any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReorganizedSettlement {
    /// The settlement.
    pub(crate) settlement: WatchedSettlement,
    /// When that was noticed.
    pub at: Timestamp,
}

impl ReorganizedSettlement {
    /// Of which receipt it is.
    #[must_use]
    pub fn receipt_id(&self) -> &ReceiptId {
        &self.settlement.receipt_id
    }

    /// The transaction that is in no block.
    #[must_use]
    pub fn transaction(&self) -> &str {
        &self.settlement.transaction
    }

    /// CAIP-2 of its network.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.settlement.network
    }

    /// Whose tool it paid for.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.settlement.owner
    }

    /// The tool.
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

/// Has a settlement watched until its block stays; nothing where it stays already, or where the chain was not asked.
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

/// The watched settlements of a network.
pub(crate) fn watched_on(network: &str) -> Range<String> {
    WATCHED.under(&format!("{network}/"))
}

/// How many settlements were taken back; of more than `most` only that there are as many.
///
/// # Errors
///
/// The store's.
pub async fn count_reorganized(store: &dyn Store, most: usize) -> Result<usize, StoreError> {
    REORGANIZED.count(store, &REORGANIZED.all(), most).await
}

/// The newest of them, at most `limit`.
///
/// # Errors
///
/// The store's.
pub(crate) async fn list_reorganized(store: &dyn Store, limit: usize) -> Result<Vec<ReorganizedSettlement>, StoreError> {
    let rows = REORGANIZED.page(store, &REORGANIZED.all(), limit, Direction::Backward).await?;
    Ok(rows.into_iter().map(|row| row.value).collect())
}
