//! What a receipt says.

use serde::{Deserialize, Serialize};

use super::OfferReceipt;
use crate::{
    base::{
        clock::Timestamp,
        id::{EndpointId, ReceiptId},
    },
    store::{Batch, Formatted, Store, StoreError, Table, schema},
    tool::{MicroUsd, Slug},
};

pub(super) const RECEIPTS: Table<ReceiptId, Stored> = schema::RECEIPTS.holding();

/// All of a receipt that is known before the money moves. Stored with the intent to settle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    /// Its own id.
    pub receipt_id: ReceiptId,
    /// The tool that was called.
    pub slug: Slug,
    /// The endpoint behind the slug.
    pub endpoint_id: EndpointId,
    /// Hash of the handler that ran.
    pub version: String,
    /// What the call cost: nothing where its owner made it.
    pub price_usd: MicroUsd,
    /// Whether its owner called the tool, free of charge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
    /// The tool's address, as the payer was asked to pay for it.
    pub resource_url: String,
    /// [`super::request_hash`] of the call.
    pub request_hash: String,
    /// [`super::json_hash`] of the result, or [`super::bytes_hash`] where it is not JSON.
    pub result_hash: String,
    /// When the call began.
    pub started_at: Timestamp,
    /// When the receipt was made.
    pub issued_at: Timestamp,
}

/// How a call was paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payment {
    /// Nothing.
    Free,
    /// By developer credit, of this id.
    Credit {
        /// Id of the credit.
        credit: String,
    },
    /// Tokens, on a network.
    X402(Transfer),
}

/// A settled x402 payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// CAIP-2, for v1 payments too.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// In the asset's smallest units.
    pub amount: String,
    /// Hash of the transaction.
    pub transaction: String,
    /// Address, in full.
    pub payer: String,
    /// Scheme of x402.
    pub scheme: String,
    /// Wire version that it was paid in.
    pub x402_version: u8,
    /// True if a ledger of our own moved the balance, and no chain.
    pub simulated: bool,
}

/// How a call was paid, as its receipt says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// By x402.
    X402,
    /// By prepaid credit.
    Credit,
    /// Not at all.
    Free,
}

/// A receipt that nobody has signed: what the signature covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What the call said of itself.
    #[serde(flatten)]
    pub draft: Draft,
    /// How it was paid.
    pub kind: Kind,
    /// Whether no real money moved although the receipt tells of a payment.
    pub simulated: bool,
    /// In the asset's smallest units. This and what follows: x402 only, but for `payer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// Address of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<String>,
    /// CAIP-2 name of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// What moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// Shortened: `0x1234…abcd`. Of a credit its id, shortened too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<String>,
    /// Scheme of x402.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Wire version that it was paid in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x402_version: Option<u8>,
    /// The same, as x402's extension has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer_receipt: Option<OfferReceipt>,
}

/// A receipt as its reader gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// What is signed.
    #[serde(flatten)]
    pub record: Record,
    /// Compact JWS (EdDSA) whose payload is the canonical JSON of the record.
    pub signature: String,
}

impl Record {
    /// The record of a call that cost nothing.
    #[must_use]
    pub fn free(draft: Draft) -> Self {
        Self {
            draft,
            kind: Kind::Free,
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

    /// The record of a call paid by developer credit.
    #[must_use]
    pub fn credit(draft: Draft, credit: &str) -> Self {
        Self { kind: Kind::Credit, payer: Some(shortened(credit)), ..Self::free(draft) }
    }

    pub(super) fn x402(draft: Draft, transfer: Transfer, offer_receipt: OfferReceipt) -> Self {
        Self {
            kind: Kind::X402,
            simulated: transfer.simulated,
            payer: Some(shortened(&transfer.payer)),
            amount: Some(transfer.amount),
            asset: Some(transfer.asset),
            network: Some(transfer.network),
            transaction: Some(transfer.transaction),
            scheme: Some(transfer.scheme),
            x402_version: Some(transfer.x402_version),
            offer_receipt: Some(offer_receipt),
            ..Self::free(draft)
        }
    }

    /// The record as the store keeps it, to be signed when it is fetched.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }
}

impl Signed {
    /// What stores it.
    #[must_use]
    pub fn stored(&self) -> Batch {
        RECEIPTS.put(&self.record.draft.receipt_id, &Stored(to_bytes(self)))
    }
}

/// A receipt of a paid call as the store keeps it.
///
/// # Errors
///
/// The store's.
pub async fn paid(store: &dyn Store, id: &ReceiptId) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(RECEIPTS.get(store, id).await?.map(|stored| stored.0))
}

/// The JSON of a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored(pub Vec<u8>);

impl Formatted for Stored {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        (format <= Self::FORMAT).then(|| Self(bytes.to_vec()))
    }
}

fn to_bytes(receipt: &impl Serialize) -> Vec<u8> {
    // Most fit, so that the buffer does not grow step by step.
    let mut bytes = Vec::with_capacity(1 << 10);
    serde_json::to_writer(&mut bytes, receipt).expect("a receipt has text keys");
    bytes
}

/// The first six and the last four characters of an address; short texts as they are.
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
