//! Errors of developer credits.

use tollhouse_store::StoreError;
use tollhouse_tool::{MicroUsd, public_texts};

pub(super) const MAX_LABEL: usize = public_texts::MAX_CREDIT_LABEL;

/// Maximum length of an admin's reason, in characters.
pub(super) const MAX_REASON: usize = public_texts::MAX_DECISION_REASON;

/// Why a credit was not created, found or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum CreditError {
    #[error("the amount of a credit must be above 0 USD")]
    Nothing,
    #[error("a balance can be at most {} USD", MicroUsd::MAX.to_usd())]
    TooMuch,
    #[error("no credit has this id")]
    Unknown,
    #[error("the credit is revoked")]
    Revoked,
    #[error("the credit is not revoked")]
    NotRevoked,
    /// Carries the current revision.
    #[error("the budgets have changed; their current revision is {0}")]
    Changed(u64),
    #[error("a reason must have at most {MAX_REASON} characters")]
    Reason,
    #[error("a label must have at most {MAX_LABEL} characters")]
    Label,
    #[error("{0}")]
    Key(String),
    #[error("this `Idempotency-Key` was used for another credit")]
    Reused,
    #[error("no random bytes are available: {0}")]
    Random(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
