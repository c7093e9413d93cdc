//! Settlements that a reorganization of the chain may still undo, and those that it has undone.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_api::{Reorganization, ReorganizationState, SettlementLoss};
use tollhouse_base::{
    boxed,
    clock::Timestamp,
    id::{PaymentId, ReceiptId, ReplicaId},
};
use tollhouse_store::{Batch, Direction, Range, Store, StoreError, Table, schema};
use tollhouse_tool::{Owner, Slug};

use super::{payment_offer::WireVersion, settlement::Settlement};

/// The key is network, block and receipt: see [`WatchedSettlement::key`].
pub(crate) const WATCHED: Table<String, WatchedSettlement> = schema::WATCHED_SETTLEMENTS.holding();
pub(crate) const REORGANIZED: Table<ReceiptId, ReorganizedSettlement> = schema::REORGANIZED_SETTLEMENTS.holding();
pub(crate) const RESETTLED: Table<ReceiptId, ResettledSettlement> = schema::RESETTLED_SETTLEMENTS.holding();
tollhouse_store::json_values!(WatchedSettlement, ReorganizedSettlement, ResettledSettlement);

/// Maximum number of earlier transactions that are stored per settlement.
const MAX_FORMER: usize = 8;

/// A signed payment, as far as it is needed to look it up by its nonce and to settle it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignedPayment {
    pub(crate) version: WireVersion,
    /// The payment without its unsigned parts.
    pub(crate) payload: Value,
    pub(crate) requirements: Value,
    /// When its settlement began. A search of the chain starts there.
    pub(crate) started_at: Timestamp,
}

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
    pub(crate) signed: SignedPayment,
    /// Its earlier transactions, which reorganizations have undone, oldest first.
    pub(crate) former: Vec<String>,
}

/// A settlement whose transaction is no longer in a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReorganizedSettlement {
    pub(crate) settlement: WatchedSettlement,
    /// When it was noticed.
    pub at: Timestamp,
    pub(crate) recovery: Recovery,
    /// Why its money can no longer move, once the chain has shown it.
    pub lost: Option<SettlementLoss>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recovery {
    /// When its nonce is next looked up. `None` before the first lookup.
    pub(crate) next: Option<Timestamp>,
    pub(crate) lookups: u32,
    /// How often it was sent again.
    pub(crate) sendings: u32,
    /// The transaction that was last prepared to send it again. It is recorded before it is sent.
    pub(crate) transaction: Option<String>,
    /// The replica that is looking it up. Another one takes over after that one's lease ends.
    pub(crate) replica: Option<ReplicaId>,
}

/// A reorganized settlement that another transaction has made since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResettledSettlement {
    /// The transaction that moved the money.
    pub transaction: String,
    /// The transactions that reorganizations have undone, oldest first.
    pub former: Vec<String>,
    /// When it was found.
    pub at: Timestamp,
}

/// Returns the state of a receipt's settlement, or `None` if no reorganization has undone it.
pub(crate) async fn reorganization_of(store: &dyn Store, receipt: &ReceiptId) -> Result<Option<Reorganization>, StoreError> {
    let state = |state, transaction, former, since, lost| Some(Reorganization { state, transaction, former, since, lost });
    if let Some(ReorganizedSettlement { settlement, at, lost, .. }) = REORGANIZED.get(store, receipt).await? {
        return Ok(state(ReorganizationState::Reorganized, settlement.transaction, Vec::new(), at, lost));
    }
    let Some(ResettledSettlement { transaction, former, at }) = RESETTLED.get(store, receipt).await? else { return Ok(None) };
    Ok(state(ReorganizationState::Settled, transaction, former, at, None))
}

/// Returns the loss for the code of a refusal that the chain has shown to be final. `None` for other codes.
pub(crate) fn loss_of(reason: &str) -> Option<SettlementLoss> {
    Some(match reason {
        "authorization_canceled" => SettlementLoss::Canceled,
        "invalid_exact_evm_nonce_already_used" | "permit2_invalid_nonce" => SettlementLoss::UsedElsewhere,
        "invalid_exact_evm_payload_authorization_valid_before" | "permit2_deadline_expired" => SettlementLoss::Expired,
        _ => return None,
    })
}

/// Describes a loss for people.
pub(crate) fn describe_loss(loss: SettlementLoss) -> &'static str {
    match loss {
        SettlementLoss::Canceled => "the payer canceled the authorization",
        SettlementLoss::UsedElsewhere => "the payer used the nonce for another transfer",
        SettlementLoss::Expired => "the authorization expired unused",
    }
}

impl WatchedSettlement {
    pub(crate) fn key(&self) -> String {
        format!("{}{}", block_prefix(&self.network, self.block), self.receipt_id)
    }

    /// Replaces its transaction. The previous one becomes a former one.
    pub(crate) fn made_by(&mut self, transaction: &str) {
        let before = std::mem::replace(&mut self.transaction, transaction.to_owned());
        self.former.push(before);
        self.former.retain(|former| former != transaction);
        let max = self.former.len().saturating_sub(MAX_FORMER);
        self.former.drain(..max);
    }
}

/// Returns the row that watches a settlement until its block is final. Empty if the block is final already, or if the
/// chain was not read. `signed` can be `None` only if the chain was not read.
pub(crate) fn watch(
    payment: &PaymentId,
    receipt_id: &str,
    settlement: &Settlement,
    (owner, slug): (&Owner, Option<&Slug>),
    signed: Option<SignedPayment>,
) -> Batch {
    let Some(evidence) = settlement.evidence.as_ref().filter(|evidence| !evidence.is_final) else { return Batch::new() };
    let (Ok(receipt_id), Some(signed)) = (receipt_id.parse(), signed) else { return Batch::new() };
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
        signed,
        former: Vec::new(),
    };
    WATCHED.put(&watched.key(), &watched)
}

/// Returns the start of the keys of a block's settlements.
pub(crate) fn block_prefix(network: &str, block: u64) -> String {
    format!("{network}/{block:020}/")
}

/// Parses the block of a key.
pub(crate) fn block_of(key: &str) -> Option<u64> {
    key.split('/').nth(1)?.parse().ok()
}

pub(crate) fn watched_on(network: &str) -> Range<String> {
    WATCHED.under(&format!("{network}/"))
}

/// Counts settlements undone by a reorganization, up to `most`.
#[boxed]
pub async fn count_reorganized(store: &dyn Store, max: usize) -> Result<usize, StoreError> {
    REORGANIZED.count(store, &REORGANIZED.all(), max).await
}

/// Returns the newest settlements undone by a reorganization, at most `limit`.
pub(crate) async fn list_reorganized(store: &dyn Store, limit: usize) -> Result<Vec<ReorganizedSettlement>, StoreError> {
    let rows = REORGANIZED.page(store, &REORGANIZED.all(), limit, Direction::Backward).await?;
    Ok(rows.into_iter().map(|row| row.value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_transactions_of_a_settlement_are_listed_once() {
        let mut settlement = WatchedSettlement {
            receipt_id: ReceiptId::generate(),
            payment: PaymentId::of(&["a"]),
            network: "eip155:84532".to_owned(),
            transaction: "0xa".to_owned(),
            block: 7,
            block_hash: None,
            owner: Owner::Platform,
            slug: None,
            missing_since: None,
            signed: SignedPayment { version: WireVersion::V2, payload: Value::Null, requirements: Value::Null, started_at: Timestamp(0) },
            former: Vec::new(),
        };
        for (transaction, former) in [("0xb", vec!["0xa"]), ("0xa", vec!["0xb"]), ("0xc", vec!["0xb", "0xa"])] {
            settlement.made_by(transaction);
            assert_eq!(settlement.transaction, transaction);
            assert_eq!(settlement.former, former);
        }
    }
}
