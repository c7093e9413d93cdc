//! What a caller offers.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Most characters of an idempotency key.
const MAX_IDEMPOTENCY_KEY: usize = 255;

/// Version of the x402 wire that a payment speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireVersion {
    /// `X-PAYMENT`.
    V1,
    /// `PAYMENT-SIGNATURE`.
    V2,
}

/// What a caller offers.
#[derive(Debug, Clone)]
pub enum Offered {
    /// No payment at all.
    Nothing,
    /// An x402 payment, as base64 of JSON or as the JSON itself.
    X402 {
        /// By which header it came.
        version: WireVersion,
        /// Its value, as it came.
        header: String,
    },
    /// Prepaid credit.
    Credit(CreditOffer),
}

impl Offered {
    /// Whether the same payment may be shown again: then it may have bought something.
    #[must_use]
    pub fn repeatable(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::X402 { .. } => true,
            Self::Credit(credit) => credit.idempotency_key.is_some(),
        }
    }

    /// Has a call on credit that nobody could repeat be named by what `key` makes, so that its answer is kept.
    pub fn name(&mut self, key: impl FnOnce() -> String) {
        if let Self::Credit(credit) = self {
            credit.idempotency_key.get_or_insert_with(key);
        }
    }
}

/// Developer credit, offered.
#[derive(Debug, Clone)]
pub struct CreditOffer {
    /// What the admin who minted it was shown.
    pub token: String,
    /// Makes a repeated call the same call. 1 to 255 visible ASCII characters.
    pub idempotency_key: Option<String>,
    /// Told if no credit has the token.
    pub observer: Option<Arc<dyn CredentialObserver>>,
}

/// Who wants to know of wrong credentials, from where they are looked up.
pub trait CredentialObserver: fmt::Debug + Send + Sync {
    /// A credential was shown that is none.
    fn saw_wrong(&self);
}

/// An idempotency key, or what is wrong with it.
pub(super) fn checked_key(key: String) -> Result<String, String> {
    let fits = (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(key) } else { Err(format!("`Idempotency-Key` is 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters")) }
}
