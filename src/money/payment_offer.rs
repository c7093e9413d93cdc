//! The payment that a caller offers.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::payments::run_limits::RunLimitReached;

/// How long an idempotency key of a credit identifies the same call, from its first use. Afterwards it can be charged
/// again.
pub const IDEMPOTENCY_KEY_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const MAX_IDEMPOTENCY_KEY: usize = 255;

/// Version of the x402 protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireVersion {
    /// Version 1, with `X-PAYMENT`.
    V1,
    /// Version 2, with `PAYMENT-SIGNATURE`.
    V2,
}

/// The payment that a caller offers.
#[derive(Debug, Clone)]
pub enum OfferedPayment {
    /// No payment.
    Nothing,
    /// An x402 payment, as base64 of JSON or as the JSON itself.
    X402 {
        /// The version, by the header that it was sent in.
        version: WireVersion,
        /// The header's value.
        header: String,
    },
    /// Developer credit.
    Credit(CreditOffer),
}

impl OfferedPayment {
    /// Returns whether the same payment can be used again, and so may already have bought an answer.
    pub fn repeatable(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::X402 { .. } => true,
            Self::Credit(credit) => credit.idempotency_key.is_some(),
        }
    }

    /// Gives a call on credit without an idempotency key one from `key`, so that its answer is stored.
    pub fn name(&mut self, key: impl FnOnce() -> String) {
        if let Self::Credit(credit) = self {
            credit.idempotency_key.get_or_insert_with(key);
        }
    }
}

/// A developer credit that a caller offers.
#[derive(Debug, Clone)]
pub struct CreditOffer {
    /// The token, as shown to the admin who minted it.
    pub token: String,
    /// Identifies repetitions of a call. 1 to 255 visible ASCII characters.
    pub idempotency_key: Option<String>,
    /// Limits lookups of the token, and counts it as wrong if no credit has it.
    pub observer: Option<Arc<dyn CredentialObserver>>,
}

/// Limits how many wrong credentials of a caller are looked up.
pub trait CredentialObserver: fmt::Debug + Send + Sync {
    /// Begins the lookup of a credential, which counts as wrong until the returned lookup is dropped.
    ///
    /// # Errors
    ///
    /// [`Bound::Credentials`](crate::RunLimit::Credentials) if the caller has sent too many wrong credentials,
    /// [`Bound::CredentialChecks`](crate::RunLimit::CredentialChecks) if too many are being checked.
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn CredentialLookup>, RunLimitReached>>;
}

/// A lookup of a credential that has begun.
pub trait CredentialLookup: Send {
    /// Counts the credential as wrong.
    fn saw_wrong(self: Box<Self>);
}

/// Returns a valid idempotency key, or a description of the problem.
pub(super) fn checked_key(key: String) -> Result<String, String> {
    let fits = (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(key) } else { Err(format!("`Idempotency-Key` must have 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters")) }
}
