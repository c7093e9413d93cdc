//! Why a payout is not made.

use tollhouse_store::StoreError;
use tollhouse_tool::MicroUsd;

use super::status::Status;

/// Why a payout did not happen, or its settings were not taken.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum PayoutError {
    /// `pointer` is the field.
    #[error("{message}")]
    Field { pointer: &'static str, message: String },
    #[error("say first where payouts go: POST /ai/builders/payout-settings")]
    NoSettings,
    #[error("{amount} USD wait to be paid out, the minimum is {minimum} USD")]
    BelowMinimum { amount: MicroUsd, minimum: MicroUsd },
    #[error("no payout has this id")]
    Unknown,
    #[error("this payout is another builder's")]
    NotOwner,
    #[error("a payout that is `{}` cannot become `{}`", .from.as_str(), .to.as_str())]
    WrongState { from: Status, to: Status },
    /// It holds the revision that there is.
    #[error("the settings are at revision {0}")]
    Changed(u64),
    #[error(transparent)]
    Store(#[from] StoreError),
}
