//! Errors of refunds.

use tollhouse_store::StoreError;
use tollhouse_tool::{MicroUsd, public_texts};

use crate::CreditError;

pub(super) const MAX_REASON: usize = public_texts::MAX_MONEY_REASON;

/// Maximum number of refunds per receipt, so that its record stays small.
pub(super) const MAX_REFUNDS: usize = 50;

/// Why a refund was not made.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum RefundError {
    /// An invalid field. `pointer` is its JSON Pointer.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("a reason must have at most {MAX_REASON} characters and no control characters")]
    Reason,
    #[error("no receipt has this id")]
    Unknown,
    #[error("nothing was paid for this receipt")]
    NothingPaid,
    #[error("the amount exceeds what is left: {paid} USD was paid, of which {refunded} USD was refunded")]
    TooMuch { paid: MicroUsd, refunded: MicroUsd },
    #[error("a receipt can have at most {MAX_REFUNDS} refunds")]
    TooMany,
    #[error("this transaction is already recorded for the receipt with {0} USD")]
    OtherAmount(MicroUsd),
    #[error("this `Idempotency-Key` was used for another refund")]
    Reused,
    #[error(transparent)]
    Credit(CreditError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CreditError> for RefundError {
    fn from(error: CreditError) -> Self {
        match error {
            CreditError::Store(store) => Self::Store(store),
            error => Self::Credit(error),
        }
    }
}
