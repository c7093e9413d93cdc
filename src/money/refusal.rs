//! Why a payment does not admit a call, or a result is withheld.

use std::time::Duration;

use tollhouse_base::id::PaymentId;
use tollhouse_store::StoreError;
use tollhouse_tool::MicroUsd;

use super::{
    credit::OverBudget,
    payments::{record::SettlementNotice, run_limits::RunLimitReached},
};

/// Why a payment does not admit a call. Nothing was taken, unless the reason says otherwise.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum Refusal {
    #[error("payment required")]
    NoPayment,
    /// `reason` is an x402 code, and `message` is for people.
    #[error("{message}")]
    Invalid { reason: String, message: String },
    /// The client's payment name (x402 payment-identifier) is invalid.
    #[error("the `id` of payment-identifier must have 16 to 128 characters of A-Z, a-z, 0-9, `_` and `-`")]
    Misnamed,
    #[error(
        "the authorization ends in {} s, but the tool can run for {} s and settling can take {} s; sign for the `maxTimeoutSeconds` of the challenge",
        .remaining.as_secs(), .wall.as_secs(), .margin.as_secs()
    )]
    TooShort { remaining: Duration, wall: Duration, margin: Duration },
    #[error(transparent)]
    Slowed(#[from] RunLimitReached),
    /// The limit for all payers together is used up.
    #[error("failed settlements have used up the host's gas allowance for this hour")]
    GasSpent { wait: Duration },
    #[error("this payment was made for another request")]
    Reused,
    /// Others change its record faster than this request can.
    #[error("payment `{0}` is in use by other requests")]
    InProgress(PaymentId),
    #[error("payment `{0}` was charged, and its answer is lost")]
    AnswerLost(PaymentId),
    #[error("payment `{0}` was charged, and its answer is not stored, or no longer")]
    AnswerExpired(PaymentId),
    /// It was settled before the run, and no run has produced an answer.
    #[error("payment `{payment}` was charged before the run, and {}", if *is_refunded { "was refunded" } else { "has no runs left" })]
    NoMoreRuns { payment: PaymentId, receipt: String, is_refunded: bool },
    /// It was settled before the run, and a reorganization of the chain has undone the settlement.
    #[error("a reorganization of the chain undid payment `{0}`; the tool runs after the payment has settled again")]
    Reorganized(PaymentId),
    #[error("this tool charges before it runs, so a call with developer credit needs an `Idempotency-Key`")]
    KeyRequired,
    /// The reason is in the facilitator's words, for the log.
    #[error("the facilitator, or the node of the network, could not verify the payment")]
    FacilitatorUnavailable(String),
    /// The idempotency key of a call on credit is malformed. The text describes how.
    #[error("{0}")]
    KeyInvalid(String),
    #[error("no developer credit has this token")]
    CreditUnknown,
    #[error("this developer credit was revoked")]
    CreditRevoked,
    #[error("this developer credit is frozen")]
    CreditFrozen,
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    #[error("the developer credit has {balance} USD left, and the call costs {price} USD")]
    InsufficientCredit { balance: MicroUsd, price: MicroUsd },
    /// The payment's money has moved, but no run can begin for this reason.
    #[error("{0}")]
    Moved(Box<Refusal>),
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
    #[error("the settlement was refused, and nothing was charged: {message}")]
    Refused {
        reason: String,
        message: String,
        /// The settle response for the payer. `None` for credit, or if another replica found the refusal.
        notice: Option<SettlementNotice>,
    },
    /// A budget of an admin does not allow the debit of a credit. Nothing was taken.
    #[error(transparent)]
    OverBudget(OverBudget),
    /// It is unknown whether money moved. The intent is kept until it is known.
    #[error("the settlement was not confirmed, so it is not known yet whether the payment was charged")]
    Unknown { payment: PaymentId },
    /// Nothing was taken.
    #[error(transparent)]
    Store(#[from] StoreError),
}
