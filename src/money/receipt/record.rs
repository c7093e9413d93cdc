//! The content of a receipt.

use serde::{Deserialize, Serialize};
use tollhouse_base::{boxed, clock::Timestamp, id::ReceiptId};
use tollhouse_store::{Batch, Direction, Store, StoreError, Table, schema};

use super::{
    offer::{OfferReceipt, PaymentKind, ReceiptDraft},
    stored::StoredReceipt,
};
use crate::{Settlement, WireVersion};

pub(crate) const RECEIPTS: Table<ReceiptId, StoredReceipt> = schema::RECEIPTS.holding();

/// An unsigned receipt: the signed content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnsignedReceipt {
    /// The data about the call.
    #[serde(flatten)]
    pub draft: ReceiptDraft,
    /// The means of payment.
    pub kind: PaymentKind,
    /// Whether no real money moved, although the receipt is for a payment.
    pub simulated: bool,
    /// The amount in the token's smallest units. This and the following fields are set only for x402, except for
    /// `payer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// Address of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// CAIP-2 id of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The transaction that moved the money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// The payer's address, shortened to `0x1234…abcd`, or the id of a credit, also shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<String>,
    /// The x402 scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The x402 version of the payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x402_version: Option<u8>,
    /// The receipt of x402's extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer_receipt: Option<OfferReceipt>,
}

/// A signed receipt, as its reader gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The signed content.
    #[serde(flatten)]
    pub record: UnsignedReceipt,
    /// Compact JWS (EdDSA) whose payload is the canonical JSON of the record.
    pub signature: String,
}

impl UnsignedReceipt {
    /// Parses a stored receipt, without its signature.
    pub(crate) fn of(stored: &StoredReceipt) -> Option<Self> {
        serde_json::from_slice(&stored.json).ok()
    }

    /// Constructs the record of a free call.
    pub fn free(draft: ReceiptDraft) -> Self {
        Self {
            draft,
            kind: PaymentKind::Free,
            simulated: false,
            amount: None,
            asset: None,
            network: None,
            transaction: None,
            payer: None,
            scheme: None,
            x402_version: None,
            offer_receipt: None,
        }
    }

    /// Constructs the record of a call paid by developer credit.
    pub fn credit(draft: ReceiptDraft, credit: &str) -> Self {
        Self { kind: PaymentKind::Credit, payer: Some(shortened(credit)), ..Self::free(draft) }
    }

    /// Constructs the record of an x402 payment. `simulated` marks play money.
    pub(super) fn x402(draft: ReceiptDraft, settlement: &Settlement, simulated: bool, offer_receipt: OfferReceipt) -> Self {
        Self {
            kind: PaymentKind::X402,
            simulated,
            payer: Some(shortened(&settlement.payer)),
            amount: Some(settlement.amount.clone()),
            asset: Some(settlement.asset.clone()),
            network: Some(settlement.network.clone()),
            transaction: Some(settlement.transaction.clone()),
            scheme: Some(settlement.scheme.clone()),
            x402_version: Some(if settlement.version == Some(WireVersion::V1) { 1 } else { 2 }),
            offer_receipt: Some(offer_receipt),
            ..Self::free(draft)
        }
    }

    /// Encodes the record for the store. It is signed when fetched.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }
}

impl Receipt {
    /// Returns the row that stores it.
    #[must_use]
    pub fn stored(&self) -> Batch {
        RECEIPTS.put(&self.record.draft.receipt_id, &StoredReceipt { json: to_bytes(self) })
    }
}

/// Returns the JSON of a paid call's receipt.
#[boxed]
pub async fn paid(store: &dyn Store, id: &ReceiptId) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(RECEIPTS.get(store, id).await?.map(|stored| stored.json))
}

/// Returns when the newest receipt of a paid call was made.
pub async fn newest_at(store: &(impl Store + ?Sized)) -> Result<Option<Timestamp>, StoreError> {
    let newest = RECEIPTS.readable(store, &RECEIPTS.all(), 1, Direction::Backward).await?;
    Ok(newest.first().map(|(id, _)| id.made_at()))
}

fn to_bytes(receipt: &impl Serialize) -> Vec<u8> {
    // Large enough for most receipts, so that the buffer does not grow.
    let mut bytes = Vec::with_capacity(1 << 10);
    serde_json::to_writer(&mut bytes, receipt).expect("a receipt has text keys");
    bytes
}

/// Shortens an address to its first six and last four characters. Short texts stay unchanged.
pub fn shortened(address: &str) -> String {
    let chars = address.chars().count();
    if chars <= 12 {
        return address.to_owned();
    }
    address.chars().take(6).chain(['…']).chain(address.chars().skip(chars - 4)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shortened() {
        assert_eq!(shortened("0x857b06519E91e3A54538791bDbb0E22373e36b66"), "0x857b…6b66");
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(""), "");
    }
}
