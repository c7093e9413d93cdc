//! The receipt of x402's offer-receipt extension, as a JWS.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::draft::{Draft, Transfer};

/// What goes into a settlement's `extensions["offer-receipt"].info.receipt`, and into the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferReceipt {
    /// Always `jws`.
    pub format: String,
    /// Compact JWS; its `kid` is a `did:jwk` URL of a key in the host's JWK set.
    pub signature: String,
}

/// The extension's payload, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payload {
    pub(super) version: u8,
    pub(super) network: String,
    pub(super) resource_url: String,
    pub(super) payer: String,
    /// Seconds since 1970.
    pub(super) issued_at: u64,
    pub(super) transaction: String,
}

impl OfferReceipt {
    pub(super) const FORMAT: &'static str = "jws";

    /// The `extensions` of a settle response that carries it.
    #[must_use]
    pub fn extensions(&self) -> Value {
        json!({ "offer-receipt": { "info": { "receipt": self } } })
    }
}

impl Payload {
    pub(super) fn new(draft: &Draft, transfer: &Transfer) -> Self {
        Self {
            version: 1,
            network: transfer.network.clone(),
            resource_url: draft.resource_url.clone(),
            payer: transfer.payer.clone(),
            issued_at: draft.issued_at.as_secs(),
            transaction: transfer.transaction.clone(),
        }
    }
}
