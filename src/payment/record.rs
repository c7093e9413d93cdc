//! What the store knows of one payment.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{PaymentId, WireVersion};
use crate::{clock::Timestamp, id::RequestId};

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Bound to a call that is running. Nothing is taken.
    Reserved,
    /// The facilitator has been asked to settle, or is about to be.
    Settling,
    /// The money moved; receipt and answer are stored.
    Settled,
    /// The facilitator refused to settle. Nothing was taken.
    Refused,
    /// The call ended without a result. Nothing was taken, and the authorisation is unspent.
    Released,
}

/// An answer that can be given again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Empty when there is no receipt.
    pub receipt_id: String,
    /// What the payer is told of the settlement.
    pub settlement: Option<SettlementNotice>,
}

/// A settle response, and the wire it is told in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlementNotice {
    pub version: WireVersion,
    /// The JSON of `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`.
    pub body: String,
}

/// The state of a payment, as everyone may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentState {
    pub payment_id: PaymentId,
    pub state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    pub updated_at: Timestamp,
}

/// The record of one payment. Stored as postcard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) state: State,
    /// Whose reservation it is: no two admissions write the same bytes.
    holder: String,
    /// Hash of the request that the payment is bound to.
    pub(super) request: String,
    /// [`super::Payment::digest`]: who shows it holds the signed payment.
    pub(super) digest: String,
    pub(super) updated_ms: u64,
    pub(super) receipt_id: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) transaction: Option<String>,
    /// Present while settling.
    pub(super) intent: Option<Intent>,
    /// Present while settled and not yet forgotten.
    pub(super) answer: Option<StoredAnswer>,
}

/// All that a restart needs to finish a settlement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) version: WireVersion,
    /// JSON texts: postcard cannot hold a `Value`.
    pub(super) payload: String,
    pub(super) requirements: String,
    /// What the finisher makes the receipt from.
    pub(super) draft: Vec<u8>,
    pub(super) answer: StoredAnswer,
}

impl Record {
    pub(super) fn reserved(request: &str, digest: String, now: Timestamp) -> Self {
        Self {
            state: State::Reserved,
            holder: RequestId::generate().to_string(),
            request: request.to_owned(),
            digest,
            updated_ms: now.0,
            receipt_id: None,
            reason: None,
            transaction: None,
            intent: None,
            answer: None,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a record is plain data: encoding it into memory cannot fail")
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    pub(super) fn public(&self, id: &PaymentId) -> PaymentState {
        PaymentState {
            payment_id: id.clone(),
            state: self.state,
            receipt_id: self.receipt_id.clone(),
            reason: self.reason.clone(),
            transaction: self.transaction.clone(),
            updated_at: Timestamp(self.updated_ms),
        }
    }
}
