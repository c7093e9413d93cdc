//! From a settled payment to its receipt: once at the end of a call, or after a crash.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    id::{EndpointId, ReceiptId},
    payment::{Finished, Finisher, Settlement, StoredAnswer},
    receipt::Signer,
    store::{Space, Write},
    tool::{MicroUsd, Slug},
};

/// All of a receipt that is known before the money moves. Stored with the intent, so that a
/// restart can finish what a crash cut off.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptDraft {
    pub receipt_id: ReceiptId,
    pub slug: Slug,
    pub endpoint_id: EndpointId,
    pub version: String,
    pub price_usd: MicroUsd,
    pub resource_url: String,
    pub request_hash: String,
    pub result_hash: String,
    pub started_at: Timestamp,
    pub issued_at: Timestamp,
}

impl ReceiptDraft {
    /// The draft as the intent stores it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
