//! Converts the errors of all crates to API errors, in one place.
//!
//! Only this crate knows API codes. No match that chooses a code has a `_` arm, so a new error does not compile until
//! it has a code.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinError;
use tollhouse_account::{builder::BuilderError, session::SessionError};
use tollhouse_base::log_gate::LogGate;
use tollhouse_call::{CallError, QuoteError, SellerError};
use tollhouse_capability::secret::SecretError;
use tollhouse_catalog::{FindError, IndexLoading, PublishError};
use tollhouse_money::{
    CreditError, LedgerError, QuoteRefusal, ReconcileError, Refusal, ResolutionError, RouteError, payout::PayoutError, refund::RefundError,
};
use tollhouse_protocol::StopReason;
use tollhouse_store::StoreError;
use tollhouse_tool::{Mismatch, finding::Finding};

use super::{ApiError, RateLimitPolicy, whole_seconds};
use crate::Code;

/// Seconds after which to repeat a search that arrived while the search index was loading.
const SEARCHED_AGAIN_SECS: u64 = 5;

/// Limits the lines about requests that fail while the store is unavailable.
static STORE_FAILED: LogGate = LogGate::new();

/// Logs what went wrong in the host. The caller only gets the code `internal`.
macro_rules! internal {
    ($($log:tt)*) => {{
        tracing::error!($($log)*);
        Code::Internal.into()
    }};
}

/// An error that can concern one field of a body.
pub trait AboutBody: Sized {
    /// Converts it to an API error. `code` applies to an invalid field.
    fn about(self, code: Code) -> ApiError;
}

impl Code {
    /// Returns the code for the error of a call.
    #[must_use]
    pub fn of_call(error: &CallError) -> Self {
        match error {
            CallError::UnknownEndpoint(_) => Code::UnknownEndpoint,
            CallError::Paused(..) => Code::EndpointPaused,
            CallError::InvalidJson(_) => Code::InvalidJson,
            CallError::BodyTooLarge { .. } => Code::BodyTooLarge,
            CallError::UnsupportedMediaType { .. } => Code::UnsupportedMediaType,
            CallError::Input(_) => Code::InvalidInput,
            CallError::Refused(refusal) => Self::of_refusal(refusal),
            CallError::PaymentRequired(_) | CallError::SettlementRefused(_) => Code::PaymentRequired,
            CallError::PaymentReused(_) => Code::PaymentReused,
            CallError::Quote { reason: QuoteRefusal::Expired { .. }, .. } => Code::QuoteExpired,
            CallError::Quote { reason: QuoteRefusal::Unknown | QuoteRefusal::OtherTool, .. } => Code::QuoteInvalid,
            CallError::Joined(_) | CallError::TooManyJoins { .. } => Code::PaymentInProgress,
            CallError::SettlementUnknown(_) => Code::SettlementUnknown,
            CallError::PaidRunFailed(_) => Code::PaidRunFailed,
            CallError::AnswerOwed(_) => Code::AnswerOwed,
            CallError::NotReady(_) => Code::NotReady,
            CallError::MaybeCharged(error) => Self::of_call(error),
            CallError::OverShare(_) | CallError::StoppedTooOften { .. } => Code::RateLimited,
            CallError::CreditTooLow(_) => Code::CreditTooLow,
            CallError::Busy { .. } | CallError::Held { .. } | CallError::NoSandbox => Code::Busy,
            CallError::Threw(_) | CallError::Misbehaved(_) => Code::HandlerFailed,
            CallError::Output(_) | CallError::Unreadable(_) => Code::InvalidOutput,
            CallError::Stopped(reason) => Self::from_stop(reason),
            CallError::Cancelled | CallError::StreamUnread(_) => Code::Cancelled,
            CallError::Store(_) => Code::StoreUnavailable,
            CallError::SourceLost(_) => Code::SourceUnavailable,
            CallError::SecretsUnavailable => Code::SecretsUnavailable,
            CallError::Internal => Code::CallLost,
        }
    }

    fn of_refusal(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NoPayment | Refusal::Invalid { .. } | Refusal::TooShort { .. } => Code::PaymentRequired,
            Refusal::Misnamed => Code::InvalidPaymentIdentifier,
            Refusal::Slowed(_) => Code::RateLimited,
            Refusal::GasSpent { .. } => Code::GasSpent,
            Refusal::Reused => Code::PaymentReused,
            Refusal::InProgress(_) => Code::PaymentInProgress,
            Refusal::AnswerLost(_) => Code::AnswerLost,
            Refusal::AnswerExpired(_) => Code::AnswerExpired,
            Refusal::NoMoreRuns { .. } => Code::NoMoreRuns,
            Refusal::Reorganized(_) => Code::SettlementUnknown,
            Refusal::KeyRequired => Code::KeyRequired,
            Refusal::FacilitatorUnavailable(_) => Code::FacilitatorUnavailable,
            Refusal::KeyInvalid(_) => Code::InvalidRequest,
            Refusal::CreditUnknown => Code::WrongCredit,
            Refusal::CreditRevoked => Code::CreditRevoked,
            Refusal::CreditFrozen => Code::CreditFrozen,
            Refusal::OverBudget(_) => Code::BudgetExceeded,
            Refusal::InsufficientCredit { .. } => Code::CreditTooLow,
            Refusal::Moved(refusal) => Self::of_refusal(refusal),
            Refusal::Store(_) => Code::StoreUnavailable,
        }
    }

    fn from_stop(reason: &StopReason) -> Self {
        match reason {
            StopReason::CpuTime { .. } => Code::CpuTimeExceeded,
            StopReason::WallTime { .. } => Code::WallTimeExceeded,
            StopReason::Memory { .. } => Code::MemoryExceeded,
            StopReason::SchemaTime { .. } | StopReason::SchemaMemory { .. } | StopReason::Unlisted { .. } => Code::SchemaTooCostly,
            StopReason::OutputSize { .. } | StopReason::OutputDepth { .. } => Code::OutputTooLarge,
            StopReason::Ops { .. } => Code::OpLimitExceeded,
            StopReason::Deadlock => Code::HandlerFailed,
            StopReason::Crashed => Code::SandboxCrashed,
        }
    }
}

impl From<&CallError> for ApiError {
    fn from(error: &CallError) -> Self {
        if let CallError::MaybeCharged(error) = error {
            return Self::from(&**error).maybe_charged();
        }
        let fault = Self::new(Code::of_call(error), error.to_string());
        match error {
            CallError::Input(mismatch) | CallError::Output(mismatch) => fault.with("problems", json!(mismatch.problems)),
            CallError::Unreadable(reason) => fault.with("problems", json!(Mismatch::whole(reason.to_string()).problems)),
            CallError::PaymentRequired(challenge) | CallError::SettlementRefused(challenge) | CallError::PaymentReused(Some(challenge)) => {
                Self { challenge: Some(Arc::clone(challenge)), ..fault }
            }
            CallError::Quote { current, .. } => fault.with("quote", current.json()),
            CallError::Refused(Refusal::InProgress(payment)) | CallError::Joined(payment) | CallError::SettlementUnknown(payment) => fault
                .hint(format!("Check GET /ai/payments/{payment} for the result. Do not pay again before that"))
                .with("paymentId", json!(payment)),
            CallError::TooManyJoins { payment, retry_after, .. } => fault
                .hint(format!("Check GET /ai/payments/{payment}, or send the same payment again later. Do not pay again before that"))
                .with("paymentId", json!(payment))
                .retry_after(whole_seconds(*retry_after)),
            CallError::Refused(Refusal::AnswerLost(payment) | Refusal::AnswerExpired(payment)) | CallError::AnswerOwed(payment) => {
                fault.with("paymentId", json!(payment))
            }
            CallError::Refused(Refusal::NoMoreRuns { payment, receipt, is_refunded }) => {
                let fault = fault.with("paymentId", json!(payment)).with("receiptId", json!(receipt));
                if *is_refunded { fault.hint("The receipt lists the refund. Sign a new payment for another call") } else { fault }
            }
            CallError::PaidRunFailed(failure) => fault.paid(failure),
            CallError::Busy { retry_after } | CallError::Held { retry_after } => fault.retry_after(retry_after.as_secs().max(1)),
            CallError::StoppedTooOften { retry_after: wait } | CallError::Refused(Refusal::GasSpent { wait }) => {
                fault.retry_after(whole_seconds(*wait))
            }
            CallError::OverShare(over) => fault.retry_after(over.seconds),
            CallError::Refused(Refusal::Slowed(slowed)) => {
                let policy = RateLimitPolicy { name: slowed.bound.policy(), max: slowed.max, window_secs: slowed.window.as_secs() };
                Self::rate_limited(policy, whole_seconds(slowed.wait), error.to_string())
            }
            CallError::Refused(Refusal::OverBudget(over)) => fault.with("budget", json!(over)),
            CallError::NoSandbox | CallError::Store(_) | CallError::NotReady(_) => fault.retry_after(1),
            _ => fault,
        }
    }
}

impl From<QuoteError> for ApiError {
    fn from(error: QuoteError) -> Self {
        let message = error.to_string();
        match error {
            QuoteError::Call(error) => error.into(),
            QuoteError::Crowded(_) => Self::new(Code::RateLimited, message).retry_after(1),
            QuoteError::Route(RouteError::Start { pointer, known, .. }) => {
                Self::invalid(Code::InvalidMember, message, pointer).with("known", json!(known))
            }
            QuoteError::Route(RouteError::NoRoute(_)) => Self::new(Code::NoRoute, message),
            QuoteError::Route(RouteError::Unavailable(reason)) => {
                tracing::warn!(reason, "the route provider did not answer");
                Code::RoutesUnavailable.into()
            }
            QuoteError::Seller(SellerError::Url(_)) => Self::invalid(Code::InvalidMember, message, "/url"),
            QuoteError::Seller(SellerError::Unreachable(reason)) => {
                Self::new(Code::SellerUnreachable, message).with("reason", json!(reason.code()))
            }
            QuoteError::Seller(SellerError::Redirected { to }) => {
                Self::new(Code::SellerUnreachable, message).with("reason", json!("redirected")).with("location", json!(to))
            }
            QuoteError::Seller(SellerError::NotPaid { status }) => Self::new(Code::NotPaid, message).with("status", json!(status)),
            QuoteError::Seller(SellerError::Unreadable(_)) => Self::new(Code::SellerUnreadable, message),
        }
    }
}

impl From<FindError> for ApiError {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Store(store) => store.into(),
            lost @ FindError::SourceLost(_) => CallError::from(lost).into(),
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        Self::from(&error)
    }
}

/// For a call that several requests may have joined.
impl From<Arc<CallError>> for ApiError {
    fn from(error: Arc<CallError>) -> Self {
        Self::from(&*error)
    }
}

/// For a task of the host that panicked or was canceled.
impl From<JoinError> for ApiError {
    fn from(error: JoinError) -> Self {
        internal!(%error, "a task of a request panicked or was canceled")
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match STORE_FAILED.pass() {
            Some(skipped) => tracing::error!(%error, skipped, "the store failed during a request"),
            None => tracing::debug!(%error, "the store failed during a request"),
        }
        Self::from(Code::StoreUnavailable).retry_after(1)
    }
}

impl From<IndexLoading> for ApiError {
    fn from(reading: IndexLoading) -> Self {
        Self::new(Code::Busy, reading.to_string()).retry_after(SEARCHED_AGAIN_SECS)
    }
}

impl AboutBody for PublishError {
    fn about(self, code: Code) -> ApiError {
        let message = self.to_string();
        match self {
            PublishError::Field { pointer, .. } => ApiError::invalid(code, message, &pointer),
            PublishError::SlugTaken(_) => ApiError::new(Code::SlugTaken, message),
            PublishError::Unknown(_) => ApiError::new(Code::UnknownEndpoint, message),
            PublishError::Changed(revision) => ApiError::new(Code::RevisionChanged, message).with("revision", json!(revision)),
            PublishError::Load(position) => {
                ApiError::new(Code::InvalidHandler, message).with("at", json!({ "line": position.line, "column": position.column }))
            }
            PublishError::AttestationRequired => ApiError::new(Code::AttestationRequired, message),
            PublishError::Blocked(findings) => {
                let findings: Vec<_> = findings.iter().map(Finding::brief).collect();
                ApiError::new(Code::ContentBlocked, message).with("findings", json!(findings))
            }
            PublishError::UnknownVersion => ApiError::new(Code::UnknownVersion, message),
            PublishError::UnderReview => ApiError::new(Code::UnderReview, message),
            PublishError::OwnerSuspended => ApiError::new(Code::BuilderSuspended, message),
            PublishError::TakenDown => ApiError::new(Code::TakenDown, message),
            PublishError::TooMany(_) | PublishError::TooManyRetired(_) | PublishError::Full(_) => {
                ApiError::new(Code::TooManyEndpoints, message)
            }
            PublishError::Crowded(_) => ApiError::new(Code::RateLimited, message).retry_after(1),
            PublishError::NothingToDecide => ApiError::new(Code::NothingToReview, message),
            PublishError::Pool(pool) => CallError::from(pool).into(),
            PublishError::Store(store) => store.into(),
            PublishError::Source(_) => StoreError::Away(message).into(),
            PublishError::Lost(_) => ApiError::new(Code::SourceUnavailable, message),
            PublishError::Corrupt(_) | PublishError::Shipped(_) => internal!(message, "could not read or publish a tool"),
        }
    }
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        error.about(Code::InvalidEndpoint)
    }
}

impl AboutBody for BuilderError {
    fn about(self, code: Code) -> ApiError {
        let message = self.to_string();
        match self {
            BuilderError::Field { pointer, .. } => ApiError::invalid(code, message, pointer),
            BuilderError::Unknown => ApiError::new(Code::UnknownBuilder, message),
            BuilderError::WrongState(_) => ApiError::new(Code::WrongState, message),
            BuilderError::Store(StoreError::Conflict) => ApiError::new(Code::ChangedMeanwhile, "the builder was changed at the same time"),
            BuilderError::Store(store) => store.into(),
            BuilderError::Random(_) => internal!(message, "could not create a builder or its key"),
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(store) => store.into(),
            SessionError::Random(error) => internal!(%error, "could not create a session"),
        }
    }
}

impl From<BuilderError> for ApiError {
    fn from(error: BuilderError) -> Self {
        error.about(Code::InvalidRegistration)
    }
}

impl AboutBody for PayoutError {
    fn about(self, code: Code) -> ApiError {
        let message = self.to_string();
        match self {
            PayoutError::Field { pointer, .. } => ApiError::invalid(code, message, pointer),
            PayoutError::NoSettings => ApiError::new(Code::PayoutSettingsMissing, message),
            PayoutError::BelowMinimum { amount, minimum } => {
                ApiError::new(Code::BelowMinimum, message).with("payout", json!({ "amountUsd": amount, "minimumUsd": minimum }))
            }
            PayoutError::Unknown => ApiError::new(Code::UnknownPayout, message),
            PayoutError::NotOwner => Code::NotOwner.into(),
            PayoutError::Changed(revision) => ApiError::new(Code::RevisionChanged, message).with("revision", json!(revision)),
            PayoutError::WrongState { from, .. } => ApiError::new(Code::WrongState, message).with("status", json!(from)),
            PayoutError::Store(store) => store.into(),
        }
    }
}

impl From<PayoutError> for ApiError {
    fn from(error: PayoutError) -> Self {
        error.about(Code::InvalidPayout)
    }
}

impl From<SecretError> for ApiError {
    fn from(error: SecretError) -> Self {
        let message = error.to_string();
        match error {
            SecretError::Field { pointer, .. } => Self::invalid(Code::InvalidSecret, message, pointer),
            SecretError::Unknown(_) => Self::new(Code::UnknownSecret, message),
            SecretError::Deleted(slug) => Self::unknown_endpoint(slug.as_str()),
            SecretError::GivenKey | SecretError::GivenSharedKey | SecretError::SharedKey => Self::new(Code::MasterKeyGiven, message),
            SecretError::Store(store) => store.into(),
            SecretError::Unopened => Self::new(Code::SecretsUnavailable, message),
            SecretError::Random | SecretError::Key(_) => internal!(message, "could not change a secret or the master key"),
        }
    }
}

impl From<CreditError> for ApiError {
    fn from(error: CreditError) -> Self {
        let message = error.to_string();
        match error {
            CreditError::Unknown => Self::new(Code::UnknownCredit, message),
            CreditError::Store(store) => store.into(),
            CreditError::Reused => Self::new(Code::PaymentReused, message),
            CreditError::Revoked => Self::new(Code::CreditRevoked, message),
            CreditError::NotRevoked => Self::new(Code::WrongState, message),
            CreditError::Changed(revision) => Self::new(Code::RevisionChanged, message).with("revision", json!(revision)),
            CreditError::Nothing | CreditError::TooMuch => Self::invalid(Code::InvalidCredit, message, "/amountUsd"),
            CreditError::Label => Self::invalid(Code::InvalidCredit, message, "/label"),
            CreditError::Reason => Self::invalid(Code::InvalidDecision, message, "/reason"),
            CreditError::Key(_) => Self::bad_request(message),
            CreditError::Random(_) => internal!(message, "could not create a credit"),
        }
    }
}

impl From<RefundError> for ApiError {
    fn from(error: RefundError) -> Self {
        let message = error.to_string();
        match error {
            RefundError::Field { pointer, .. } => Self::invalid(Code::InvalidRefund, message, pointer),
            RefundError::Reason => Self::invalid(Code::InvalidRefund, message, "/reason"),
            RefundError::OtherAmount(_) => Self::invalid(Code::InvalidRefund, message, "/amountUsd"),
            RefundError::Unknown => Self::new(Code::UnknownReceipt, message),
            RefundError::NothingPaid | RefundError::TooMany => Self::new(Code::NotRefundable, message),
            RefundError::TooMuch { paid, refunded } => {
                Self::new(Code::RefundTooLarge, message).with("refund", json!({ "paidUsd": paid, "refundedUsd": refunded }))
            }
            RefundError::Reused => Self::new(Code::PaymentReused, message),
            RefundError::Credit(credit) => credit.into(),
            RefundError::Store(store) => store.into(),
        }
    }
}

impl From<ResolutionError> for ApiError {
    fn from(error: ResolutionError) -> Self {
        let message = error.to_string();
        match error {
            ResolutionError::Unknown => Code::UnknownPayment.into(),
            ResolutionError::WrongState(state) | ResolutionError::Overtaken(state) => {
                Self::new(Code::WrongState, message).with("state", json!(state))
            }
            ResolutionError::Transaction(_) | ResolutionError::NotPaid => Self::invalid(Code::InvalidDecision, message, "/transaction"),
            ResolutionError::Undecided(reason) => {
                Self::new(Code::FacilitatorUnavailable, "the result of the settlement is still unknown").hint(reason)
            }
            ResolutionError::Store(store) => store.into(),
        }
    }
}

impl From<ReconcileError> for ApiError {
    fn from(error: ReconcileError) -> Self {
        match error {
            ReconcileError::UnknownNetwork(_) | ReconcileError::NoNode(_) => Self::bad_request(error.to_string()),
            ReconcileError::Node(_) => {
                let message = "the chain could not be read, so it was not compared with the ledger";
                Self::new(Code::FacilitatorUnavailable, message).hint(error.to_string())
            }
            ReconcileError::Store(store) => store.into(),
        }
    }
}

impl From<LedgerError> for ApiError {
    fn from(error: LedgerError) -> Self {
        let message = error.to_string();
        match error {
            LedgerError::Address(_) | LedgerError::TooMuch => Self::bad_request(message),
            LedgerError::Store(store) => store.into(),
            // Only transfers return these, and only the facilitator makes transfers.
            LedgerError::Insufficient { .. } | LedgerError::NonceUsed => {
                internal!(message, "the simulated ledger rejected an operation that moves no money")
            }
        }
    }
}

#[cfg(test)]
mod tests;
