//! From a settled payment to its receipt: once at the end of a call, or after a crash.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    builder::Builder,
    id::CallId,
    payment::{Finished, Finisher, Settlement, SettlementKind, StoredAnswer, WireVersion},
    receipt::{Draft, OfferReceipt, Payment, Record, Signer, Transfer},
    store::{Space, Write},
    tool::Owner,
};

/// All that the last commit of a call is made from. Stored with the intent to settle.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Closing {
    pub receipt: Draft,
    pub call: CallId,
    /// Who earns.
    pub owner: Owner,
    /// Who becomes a builder by this payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder: Option<Builder>,
}

/// Makes receipts.
#[derive(Debug)]
pub struct ReceiptFinisher {
    signer: Arc<Signer>,
    /// Whether the money is play money.
    simulated: bool,
}

impl ReceiptFinisher {
    #[must_use]
    pub fn new(signer: Arc<Signer>, simulated: bool) -> Self {
        Self { signer, simulated }
    }

    /// The receipt of a free call, to be stored. Unsigned: it is signed when it is asked for.
    #[must_use]
    pub fn free(draft: Draft) -> Write {
        let key = draft.receipt_id.as_str().as_bytes().to_vec();
        Self::write(key, Record::free(draft).to_bytes())
    }

    /// A receipt's place in the store.
    pub(super) fn write(key: Vec<u8>, receipt: Vec<u8>) -> Write {
        Write { space: Space::Receipts, key, value: Some(receipt) }
    }

    /// A closing as an intent stores it.
    #[must_use]
    pub fn encode(closing: &Closing) -> Vec<u8> {
        serde_json::to_vec(closing).expect("a closing has text keys")
    }

    fn payment(&self, settlement: &Settlement) -> Payment {
        match settlement.kind {
            SettlementKind::Credit => Payment::Credit { credit: settlement.payer.clone() },
            SettlementKind::X402 => Payment::X402(Transfer {
                network: settlement.network.clone(),
                asset: settlement.asset.clone(),
                amount: settlement.amount.clone(),
                transaction: settlement.transaction.clone(),
                payer: settlement.payer.clone(),
                scheme: settlement.scheme.clone(),
                x402_version: if settlement.version == Some(WireVersion::V1) { 1 } else { 2 },
                simulated: self.simulated,
            }),
        }
    }
}

impl Finisher for ReceiptFinisher {
    fn finish(&self, draft: &[u8], settlement: &Settlement, mut answer: StoredAnswer) -> Finished {
        let closing: Closing = serde_json::from_slice(draft).expect("an intent holds the closing that `encode` made");
        answer.receipt_id = closing.receipt.receipt_id.to_string();
        let receipt = self.signer.receipt(closing.receipt, self.payment(settlement));
        let extensions = receipt.record.offer_receipt.as_ref().map(OfferReceipt::extensions);
        let key = answer.receipt_id.clone().into_bytes();
        let mut writes = vec![Self::write(key, receipt.to_bytes())];
        writes.extend(closing.builder.as_ref().map(Builder::write));
        Finished { writes, answer, extensions }
    }
}
