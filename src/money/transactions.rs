//! Records which transaction pays for which receipts.
//!
//! A transaction pays for one receipt only, unless the chain has shown that it spends a payment's nonce. A facilitator
//! that names it for a second payment is not trusted.

use serde::{Deserialize, Serialize};
use tollhouse_base::{clock::Timestamp, id::PaymentId};
use tollhouse_store::{Store, StoreError, Table, Tx, schema};

use super::settlement::{Settlement, SettlementKind};

const TRANSACTIONS: Table<String, PaidItems> = schema::TRANSACTIONS.holding();
tollhouse_store::json_values!(PaidItems);

const SENT_TRANSACTIONS: Table<String, TransactionPurpose> = schema::SENT_TRANSACTIONS.holding();
tollhouse_store::json_values!(TransactionPurpose);

const MAX_USES: usize = 64;

/// The refunds and payouts that an outgoing transaction is recorded for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct TransactionPurpose {
    uses: Vec<String>,
}

/// Maximum number of receipts per transaction. Facilitators that settle payments in batches stay far below.
const MAX_RECEIPTS: usize = 256;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct PaidItems {
    pub(crate) receipts: Vec<PaidReceipt>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaidReceipt {
    pub(crate) payment: PaymentId,
    pub(crate) receipt_id: String,
    pub(crate) at: Timestamp,
}

/// Adds to a commit that the transaction of `settlement` pays for a receipt. Returns the receipt that it already pays
/// for, if it cannot be trusted to pay for this one too.
pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    payment: &PaymentId,
    receipt_id: &str,
    settlement: &Settlement,
    at: Timestamp,
) -> Result<Option<String>, StoreError> {
    if settlement.kind != SettlementKind::X402 || settlement.transaction.is_empty() {
        return Ok(None);
    }
    let key = key(&settlement.network, &settlement.transaction);
    let mut paid = tx.get(&TRANSACTIONS, &key).await?.unwrap_or_default();
    if paid.receipts.iter().any(|paid| paid.payment == *payment) {
        return Ok(None);
    }
    let spends_nonce = settlement.evidence.as_ref().is_some_and(|evidence| evidence.spends_nonce);
    if let Some(other) = paid.receipts.first().filter(|_| !spends_nonce || paid.receipts.len() >= MAX_RECEIPTS) {
        return Ok(Some(other.receipt_id.clone()));
    }
    paid.receipts.push(PaidReceipt { payment: payment.clone(), receipt_id: receipt_id.to_owned(), at });
    tx.put(&TRANSACTIONS, &key, &paid);
    Ok(None)
}

/// Adds to a commit the purpose of an outgoing transaction: the id of a receipt or of a payout. Returns another
/// recorded purpose, if there is one: the transaction may serve several, or may have been entered twice by mistake.
pub(crate) async fn sent_for(tx: &mut Tx<'_>, transaction: &str, id: &str) -> Result<Option<String>, StoreError> {
    let key = transaction.to_owned();
    let mut sent = tx.get(&SENT_TRANSACTIONS, &key).await?.unwrap_or_default();
    let other = sent.uses.iter().find(|other| *other != id).cloned();
    if !sent.uses.iter().any(|known| known == id) && sent.uses.len() < MAX_USES {
        sent.uses.push(id.to_owned());
        tx.put(&SENT_TRANSACTIONS, &key, &sent);
    }
    if let Some(other) = &other {
        tracing::warn!(transaction, id, other, "an outgoing transaction is recorded for another receipt or payout already");
    }
    Ok(other)
}

/// Returns another receipt or payout that an outgoing transaction is recorded for, if there is one.
pub(crate) async fn also_sent_for(store: &dyn Store, transaction: &str, id: &str) -> Result<Option<String>, StoreError> {
    let sent = SENT_TRANSACTIONS.get(store, &transaction.to_owned()).await?.unwrap_or_default();
    Ok(sent.uses.into_iter().find(|other| other != id))
}

/// Returns a receipt that a transaction pays for, if there is one. Such a transaction cannot also be an outgoing one. The
/// commit fails if that changes.
pub(crate) async fn receipt_paid_by(tx: &mut Tx<'_>, network: &str, transaction: &str) -> Result<Option<String>, StoreError> {
    let paid = tx.get(&TRANSACTIONS, &key(network, transaction)).await?.unwrap_or_default();
    Ok(paid.receipts.into_iter().next().map(|paid| paid.receipt_id))
}

/// Returns the receipts that a transaction pays for, among those since transactions are recorded.
pub(crate) async fn paid_by(store: &dyn Store, network: &str, transaction: &str) -> Result<PaidItems, StoreError> {
    Ok(TRANSACTIONS.get(store, &key(network, transaction)).await?.unwrap_or_default())
}

fn key(network: &str, transaction: &str) -> String {
    format!("{network}/{transaction}")
}
