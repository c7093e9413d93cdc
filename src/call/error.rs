//! Why a call ended without a result.

use std::{sync::Arc, time::Duration};

use tollhouse_base::cpu_share::OverCpuShare;
use tollhouse_catalog::FindError;
use tollhouse_money::{
    NOT_SERVED, OfferedPayment, PaymentId, QuoteDocument, QuoteRefusal, Refusal, SettleError, StoredAnswer, Unanswered, X402Challenge,
    receipt::PaymentKind,
};
use tollhouse_pool::PoolError;
use tollhouse_protocol::{StopReason, Thrown};
use tollhouse_store::StoreError;
use tollhouse_tool::{Mismatch, PortabilityIssue, Slug};

/// Error code in records of calls whose handler reported a failure itself: by an error status, or by `isError` in MCP
/// blocks.
pub const ERROR_STATUS: &str = "error_status";

/// A call that was charged and has no answer.
#[derive(Debug)]
pub struct PaidFailure {
    /// The details of the payment for the payer.
    pub unanswered: Unanswered,
    /// Why there is no answer. `None` if another host ran the tool, whose own caller gets the cause.
    pub cause: Option<PaidCause>,
}

/// Why a call that was charged has no answer.
#[derive(Debug)]
pub enum PaidCause {
    /// The handler reported a failure in its answer.
    Answered(StoredAnswer),
    Error(Box<CallError>),
}

/// The limit on joined requests that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinsFull {
    /// The limit for one payment.
    #[error("no more requests can wait for its result; the maximum is {0}")]
    Payment(usize),
    /// The limit for one address.
    #[error("no more requests from your address can wait for running calls; the maximum is {0}")]
    Address(usize),
}

/// Why a call ended without a result. The table in `front` defines the public error.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no tool is named `{0}`")]
    UnknownEndpoint(String),
    /// The tool accepts no calls, for this reason.
    #[error("the tool `{0}` is paused{1}")]
    Paused(Slug, &'static str),
    /// The body is not JSON, or is nested too deep.
    #[error("{0}")]
    InvalidJson(String),
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge { limit: u64 },
    /// `takes` lists the types that the tool takes.
    #[error("the body is `{media}`; send {takes}")]
    UnsupportedMediaType { media: String, takes: String },
    #[error("the input does not match the tool's `inputSchema`: {0}")]
    Input(#[source] Mismatch),
    /// There is no payment, or it does not admit the call. Carries the challenge.
    #[error("{}", .0.error)]
    PaymentRequired(Arc<X402Challenge>),
    /// The payment bought something else. For an x402 payment, carries a challenge for fronts whose clients pay when they
    /// get one.
    #[error("{}", Refusal::Reused)]
    PaymentReused(Option<Arc<X402Challenge>>),
    /// The named quote is not valid. Carries a valid one.
    #[error("{reason}")]
    Quote { reason: QuoteRefusal, current: Box<QuoteDocument> },
    /// A refusal that needs no challenge.
    #[error(transparent)]
    Refused(Refusal),
    /// The payment is in use by a run, and this request may not wait for its end.
    #[error("payment `{payment}` is in use by another request, and {full}")]
    TooManyJoins { payment: PaymentId, full: JoinsFull, retry_after: Duration },
    /// The payment was charged before the run, which failed. The same payment runs the tool again.
    #[error("payment `{}` was charged before the run, and the tool did not answer", .0.unanswered.payment)]
    PaidRunFailed(Arc<PaidFailure>),
    /// The payment was charged before the run, and no run is in flight.
    #[error("payment `{0}` was charged before the run, and the tool has not answered yet")]
    AnswerOwed(PaymentId),
    #[error(transparent)]
    OverShare(#[from] OverCpuShare),
    /// The credit does not cover the call, before the run or after it. The text describes why. Nothing was taken.
    #[error("{0}")]
    CreditTooLow(String),
    #[error("no worker became free in time")]
    Busy { retry_after: Duration },
    #[error("the tool is paused for a moment because it failed repeatedly")]
    Held { retry_after: Duration },
    #[error("too many of your recent calls to this tool hit a limit; other callers are not affected")]
    StoppedTooOften { retry_after: Duration },
    #[error("no sandbox could be started")]
    NoSandbox,
    #[error("handler failed: {}", .0.message)]
    Threw(Thrown),
    #[error("handler failed: {0}")]
    Misbehaved(String),
    #[error("the result does not match the tool's `outputSchema`: {0}")]
    Output(#[source] Mismatch),
    #[error("the result is not portable JSON: {0}")]
    Unreadable(PortabilityIssue),
    #[error(transparent)]
    Stopped(StopReason),
    /// The handler ran, but its payment was not settled. Nothing was taken.
    #[error("{}", .0.error)]
    SettlementRefused(Arc<X402Challenge>),
    /// It is unknown whether money moved.
    #[error("the settlement was not confirmed, so it is not known yet whether the payment was charged")]
    SettlementUnknown(PaymentId),
    /// The joined call ended with an error that only its own caller may see.
    #[error("the call that uses payment `{0}` ended without an answer")]
    Joined(PaymentId),
    /// Nothing was taken, unless the answer was being streamed.
    #[error("the caller canceled the call")]
    Cancelled,
    /// A part of a streamed answer waited for so long.
    #[error("the caller did not read the streamed answer for {} s", .0.as_secs_f32())]
    StreamUnread(Duration),
    #[error("the store is unavailable")]
    Store(#[from] StoreError),
    /// The host takes no calls, for this reason.
    #[error("the host does not accept calls: {0}")]
    NotReady(String),
    /// The call was refused before its payment was looked up, or after its money moved. So the payment may be charged.
    #[error("{0}")]
    MaybeCharged(Box<CallError>),
    /// The object with the source is missing or damaged. Another host of the store may have it.
    #[error("the source of the tool `{0}` cannot be read on this host")]
    SourceLost(Slug),
    #[error("a secret of the tool cannot be decrypted; the operator of the host must fix this")]
    SecretsUnavailable,
    /// A fault of the host. It is logged.
    #[error("the host failed")]
    Internal,
}

/// Maximum length of an unknown name that is repeated, in bytes.
const MAX_UNKNOWN: usize = Slug::MAX_BYTES;

impl CallError {
    /// Constructs the error for an unknown slug, of which only the start is repeated if it is long.
    pub fn unknown_endpoint(slug: &str) -> Self {
        let end = slug.floor_char_boundary(MAX_UNKNOWN);
        Self::UnknownEndpoint(if end < slug.len() { format!("{}…", &slug[..end]) } else { slug.to_owned() })
    }

    /// Marks a refusal that came before the offered payment was looked up, if the payment may have been sent before.
    pub(super) fn before_lookup(self, offered: &OfferedPayment) -> Self {
        if offered.repeatable() { Self::MaybeCharged(Box::new(self)) } else { self }
    }

    /// Returns whether the handler ran and failed.
    pub fn is_the_tools(&self) -> bool {
        matches!(self, Self::Threw(_) | Self::Misbehaved(_) | Self::Output(_) | Self::Unreadable(_) | Self::Stopped(_))
    }

    /// Returns whether a run with this outcome was completed or canceled by its caller, so that nobody pays for the
    /// work.
    pub fn is_of_a_run(&self) -> bool {
        self.is_the_tools() || matches!(self, Self::Cancelled)
    }

    /// Converts the refusal of a payment. `challenge` builds a challenge with a reason.
    ///
    /// A credit that does not pay gets no challenge: a client with a wallet would pay it, against the wish of its owner.
    pub(super) fn refused(refusal: Refusal, challenge: impl FnOnce(&str) -> X402Challenge) -> Self {
        match refusal {
            // The reason is an x402 code. The message is the host's own, whoever found the problem.
            Refusal::Invalid { reason, message } => Self::PaymentRequired(Arc::new(challenge(&reason).explained(&message))),
            Refusal::TooShort { .. } => {
                let challenge = challenge("invalid_exact_evm_payload_authorization_valid_before");
                Self::PaymentRequired(Arc::new(challenge.explained(&refusal.to_string())))
            }
            Refusal::InsufficientCredit { .. } => Self::CreditTooLow(refusal.to_string()),
            Refusal::NoPayment => Self::PaymentRequired(Arc::new(challenge(&refusal.to_string()))),
            Refusal::Reused => Self::PaymentReused(Some(Arc::new(challenge("payment_reused")))),
            Refusal::Reorganized(payment) => Self::SettlementUnknown(payment),
            Refusal::Moved(refusal) => Self::MaybeCharged(Box::new(Self::refused(*refusal, challenge))),
            Refusal::Store(error) => Self::Store(error),
            plain => Self::Refused(plain),
        }
    }

    /// Converts the failure of a settlement by `kind`. `challenge` builds a challenge with a reason.
    pub(super) fn unsettled(error: SettleError, kind: PaymentKind, challenge: impl FnOnce(&str) -> X402Challenge) -> Self {
        match error {
            SettleError::Refused { message, .. } if kind == PaymentKind::Credit => Self::CreditTooLow(message),
            SettleError::Refused { reason, message, .. } if reason == NOT_SERVED => Self::Refused(Refusal::FacilitatorUnavailable(message)),
            SettleError::Refused { reason, notice, .. } => {
                Self::SettlementRefused(Arc::new(X402Challenge { failed: notice, ..challenge(&reason) }))
            }
            SettleError::OverBudget(over) => Self::Refused(Refusal::OverBudget(over)),
            SettleError::Unknown { payment } => Self::SettlementUnknown(payment),
            SettleError::Store(error) => Self::Store(error),
        }
    }
}

impl From<FindError> for CallError {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Store(error) => Self::Store(error),
            FindError::SourceLost(slug) => Self::SourceLost(slug),
        }
    }
}

impl From<PoolError> for CallError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Busy { retry_after } => Self::Busy { retry_after },
            PoolError::Held { retry_after } => Self::Held { retry_after },
            PoolError::Slowed { retry_after } => Self::StoppedTooOften { retry_after },
            PoolError::Load(error) => Self::Misbehaved(format!("the handler does not load: {error}")),
            PoolError::Schema(fault) => Self::Misbehaved(format!("`{}` is invalid: {fault}", fault.side)),
            PoolError::Stopped(reason) => Self::Stopped(reason),
            error @ (PoolError::Spawn(_) | PoolError::FewUsers { .. }) => {
                tracing::error!(%error);
                Self::NoSandbox
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_money::WireVersion;

    use super::*;

    #[test]
    fn refusal_before_the_lookup_may_be_of_a_charged_payment() {
        let refused = |offered| CallError::NotReady("its clock is wrong".to_owned()).before_lookup(&offered);
        let shown = OfferedPayment::X402 { version: WireVersion::V2, header: String::new() };
        assert!(matches!(refused(shown), CallError::MaybeCharged(_)));
        assert!(matches!(refused(OfferedPayment::Nothing), CallError::NotReady(_)));
    }

    #[test]
    fn moved_payment_that_cannot_begin_a_run_may_be_charged() {
        let moved = Refusal::Moved(Box::new(Refusal::GasSpent { wait: Duration::ZERO }));
        let refused = CallError::refused(moved, |_| panic!("no challenge is needed"));
        assert!(matches!(&refused, CallError::MaybeCharged(error) if matches!(**error, CallError::Refused(Refusal::GasSpent { .. }))));
    }

    #[test]
    fn credit_that_cannot_be_debited_gets_no_challenge() {
        let refused =
            || SettleError::Refused { reason: "insufficient_funds".to_owned(), message: "it was revoked".to_owned(), notice: None };
        let by_credit = CallError::unsettled(refused(), PaymentKind::Credit, |_| panic!("no challenge is needed"));
        assert!(matches!(&by_credit, CallError::CreditTooLow(message) if message == "it was revoked"), "{by_credit:?}");
        let by_x402 = CallError::unsettled(refused(), PaymentKind::X402, |_| X402Challenge::default());
        assert!(matches!(by_x402, CallError::SettlementRefused(_)), "{by_x402:?}");
    }
}
