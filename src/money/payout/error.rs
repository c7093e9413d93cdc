//! Errors of payouts.

use tollhouse_store::StoreError;
use tollhouse_tool::MicroUsd;

use super::states::{PayoutStatus, next};

/// Why a payout failed, or its settings were rejected.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum PayoutError {
    /// An invalid field. `pointer` is its JSON Pointer.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("no payout address is set; set one with POST /ai/builders/payout-settings")]
    NoSettings,
    #[error("{amount} USD can be paid out, and the minimum is {minimum} USD")]
    BelowMinimum { amount: MicroUsd, minimum: MicroUsd },
    #[error("no payout has this id")]
    Unknown,
    #[error("this payout belongs to another builder")]
    NotOwner,
    #[error("a payout that is `{}` cannot become `{}`: {}", .from.as_str(), .to.as_str(), next(.from))]
    WrongState { from: PayoutStatus, to: PayoutStatus },
    /// Carries the current revision.
    #[error("the settings have changed; their current revision is {0}")]
    Changed(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}
