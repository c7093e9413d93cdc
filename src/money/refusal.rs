//! Why a payment does not admit a call, or a result is withheld.

use std::time::Duration;

use tollhouse_base::id::PaymentId;
use tollhouse_store::StoreError;
use tollhouse_tool::MicroUsd;

use super::{
    credit::OverBudget,
    payments::{record::SettlementNotice, run_limits::RunLimitReached},
};

/// Why a payment does not admit a call. Nothing was taken.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum Refusal {
    #[error("payment required")]
    NoPayment,
    /// `reason` is an x402 code, and `message` is for people.
    #[error("{message}")]
    Invalid { reason: String, message: String },
    /// The client's payment name (x402 payment-identifier) is invalid.
    #[error("payment-identifier: `id` is 16 to 128 of A-Z, a-z, 0-9, `_` and `-`")]
    Misnamed,
    #[error(
        "the authorization ends in {} s, and the tool may run for {} s and takes up to {} s to settle: sign for the `maxTimeoutSeconds` that are asked for",
        .remaining.as_secs(), .wall.as_secs(), .margin.as_secs()
    )]
    TooShort { remaining: Duration, wall: Duration, margin: Duration },
    #[error(transparent)]
    Slowed(#[from] RunLimitReached),
    /// The limit for all payers together is used up.
    #[error("settlements have burned as much gas without paying as the host allows in an hour")]
    GasSpent { wait: Duration },
    #[error("this payment was made for another request")]
    Reused,
    /// Others change its record faster than this request can.
    #[error("payment `{0}` is being used by other requests")]
    InProgress(PaymentId),
    #[error("payment `{0}` was charged, and the answer that it bought is lost")]
    AnswerLost(PaymentId),
    #[error("payment `{0}` was charged, and the answer that it bought is no longer kept")]
    AnswerExpired(PaymentId),
    /// It was settled before the run, and no run has produced an answer.
    #[error("payment `{payment}` was charged before the run, and the tool is not run for it any more")]
    NoMoreRuns { payment: PaymentId, receipt: String },
    /// It was settled before the run, and a reorganization of the chain has undone the settlement.
    #[error("a reorganization of the chain undid payment `{0}`: the tool runs once the payment is settled again")]
    Reorganized(PaymentId),
    #[error("this tool is charged before it runs: a call on developer credit needs an `Idempotency-Key`")]
    KeyRequired,
    /// The reason is in the facilitator's words, for the log.
    #[error("the facilitator could not verify the payment")]
    FacilitatorUnavailable(String),
    #[error("no developer credit has this token")]
    CreditUnknown,
    #[error("this developer credit was revoked")]
    CreditRevoked,
    #[error("this developer credit is frozen")]
    CreditFrozen,
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    #[error("developer credit is {balance} USD, the call costs {price} USD")]
    InsufficientCredit { balance: MicroUsd, price: MicroUsd },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Refusal {
    pub(super) fn invalid(reason: &str, message: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.to_owned(), message: message.into() }
    }
}

/// Why a result is withheld after its handler ran.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum SettleError {
    /// Nothing was taken.
    #[error("settlement was refused: {message}")]
    Refused {
        reason: String,
        message: String,
        /// The settle response for the payer. `None` for credit, or if another replica found the refusal.
        notice: Option<SettlementNotice>,
    },
    /// It is unknown whether money moved. The intent is kept until it is known.
    #[error("settlement was not confirmed")]
    Unknown { payment: PaymentId },
    /// Nothing was taken.
    #[error(transparent)]
    Store(#[from] StoreError),
}
