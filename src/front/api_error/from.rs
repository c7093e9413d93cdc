//! Converts the errors of all crates to API errors, in one place.
//!
//! The other crates know no API codes. No match here has a `_` arm, so a new error does not compile until it has a
//! code.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinError;
use tollhouse_account::{builder::BuilderError, session::SessionError};
use tollhouse_call::{CallError, QuoteError, SellerError};
use tollhouse_capability::secret::SecretError;
use tollhouse_catalog::{IndexLoading, PublishError};
use tollhouse_money::{CreditError, LedgerError, QuoteRefusal, RouteError, payout::PayoutError, refund::RefundError};
use tollhouse_protocol::StopReason;
use tollhouse_store::StoreError;
use tollhouse_tool::{Mismatch, finding::Finding};

use super::{ApiError, RateLimitPolicy, whole_seconds};
use crate::Code;

/// Seconds after which to repeat a search that arrived while the search index was loading.
const SEARCHED_AGAIN_SECS: u64 = 5;

/// Seconds within which a host that has started knows the versions of all others.
const OLDER_HOSTS_SECS: u64 = 5;

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
            CallError::Paused(_) | CallError::OwnerSuspended(_) | CallError::UnderReview(_) | CallError::TakenDown(_) => {
                Code::EndpointPaused
            }
            CallError::InvalidJson(_) => Code::InvalidJson,
            CallError::BodyTooLarge { .. } => Code::BodyTooLarge,
            CallError::UnsupportedMediaType(_) => Code::UnsupportedMediaType,
            CallError::Input(_) => Code::InvalidInput,
            CallError::PaymentRequired(_) | CallError::SettlementRefused(_) => Code::PaymentRequired,
            CallError::PaymentReused(_) => Code::PaymentReused,
            CallError::Quote { reason: QuoteRefusal::Expired { .. }, .. } => Code::QuoteExpired,
            CallError::Quote { reason: QuoteRefusal::Unknown | QuoteRefusal::OtherTool, .. } => Code::QuoteInvalid,
            CallError::PaymentMisnamed => Code::InvalidPaymentIdentifier,
            CallError::PaymentInProgress(_) | CallError::Joined(_) => Code::PaymentInProgress,
            CallError::FacilitatorUnavailable(_) => Code::FacilitatorUnavailable,
            CallError::SettlementUnknown(_) => Code::SettlementUnknown,
            CallError::AnswerLost(_) => Code::AnswerLost,
            CallError::AnswerExpired(_) => Code::AnswerExpired,
            CallError::PaidRunFailed(_) => Code::PaidRunFailed,
            CallError::AnswerOwed(_) => Code::AnswerOwed,
            CallError::NoMoreRuns { .. } => Code::NoMoreRuns,
            CallError::KeyRequired => Code::KeyRequired,
            CallError::NotReady(_) => Code::NotReady,
            CallError::OverShare(_) | CallError::Slowed(_) | CallError::StoppedTooOften { .. } => Code::RateLimited,
            CallError::CreditFrozen => Code::CreditFrozen,
            CallError::OverBudget(_) => Code::BudgetExceeded,
            CallError::Busy { .. } | CallError::Held { .. } | CallError::NoSandbox => Code::Busy,
            CallError::GasSpent { .. } => Code::GasSpent,
            CallError::Threw(_) | CallError::Misbehaved(_) => Code::HandlerFailed,
            CallError::Output(_) | CallError::Unreadable(_) => Code::InvalidOutput,
            CallError::Stopped(reason) => Self::of_stop(reason),
            CallError::Cancelled => Code::Cancelled,
            CallError::Store(_) => Code::StoreUnavailable,
            CallError::SecretsUnavailable => Code::SecretsUnavailable,
            CallError::Internal => Code::CallLost,
        }
    }

    fn of_stop(reason: &StopReason) -> Self {
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
        let fault = Self::new(Code::of_call(error), error.to_string());
        match error {
            CallError::Input(mismatch) | CallError::Output(mismatch) => fault.with("problems", json!(mismatch.problems)),
            CallError::Unreadable(reason) => fault.with("problems", json!(Mismatch::whole(reason.to_string()).problems)),
            CallError::PaymentRequired(challenge) | CallError::SettlementRefused(challenge) | CallError::PaymentReused(challenge) => {
                fault.challenged(challenge)
            }
            CallError::Quote { current, .. } => fault.with("quote", current.json()),
            CallError::PaymentInProgress(payment) | CallError::Joined(payment) | CallError::SettlementUnknown(payment) => fault
                .hint(format!("ask GET /ai/payments/{payment} what became of it; do not pay again before it says so"))
                .with("paymentId", json!(payment)),
            CallError::AnswerLost(payment) | CallError::AnswerExpired(payment) | CallError::AnswerOwed(payment) => {
                fault.with("paymentId", json!(payment))
            }
            CallError::NoMoreRuns { payment, receipt } => fault.with("paymentId", json!(payment)).with("receiptId", json!(receipt)),
            CallError::PaidRunFailed(failure) => fault.paid(failure),
            CallError::Busy { retry_after } | CallError::Held { retry_after } => fault.retry_after(retry_after.as_secs().max(1)),
            CallError::StoppedTooOften { retry_after } | CallError::GasSpent { retry_after } => {
                fault.retry_after(whole_seconds(*retry_after))
            }
            CallError::OverShare(over) => fault.retry_after(over.seconds),
            CallError::Slowed(slowed) => {
                let policy = RateLimitPolicy { name: slowed.bound.policy(), max: slowed.max, window_secs: slowed.window.as_secs() };
                Self::rate_limited(policy, whole_seconds(slowed.wait), error.to_string())
            }
            CallError::OverBudget(over) => fault.with("budget", json!(over)),
            CallError::NoSandbox | CallError::Store(_) | CallError::NotReady(_) => fault.retry_after(1),
            CallError::UnknownEndpoint(_)
            | CallError::Paused(_)
            | CallError::OwnerSuspended(_)
            | CallError::UnderReview(_)
            | CallError::TakenDown(_)
            | CallError::InvalidJson(_)
            | CallError::BodyTooLarge { .. }
            | CallError::UnsupportedMediaType(_)
            | CallError::PaymentMisnamed
            | CallError::FacilitatorUnavailable(_)
            | CallError::CreditFrozen
            | CallError::KeyRequired
            | CallError::Threw(_)
            | CallError::Misbehaved(_)
            | CallError::Stopped(_)
            | CallError::Cancelled
            | CallError::SecretsUnavailable
            | CallError::Internal => fault,
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
                tracing::warn!(reason, "whoever knows the routes did not answer");
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
        tracing::error!(%error, "a task of a request ended abnormally");
        Code::Internal.into()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store did not answer a request");
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
            PublishError::OlderHosts => ApiError::new(Code::OlderHosts, message).retry_after(OLDER_HOSTS_SECS),
            PublishError::NothingToDecide => ApiError::new(Code::NothingToReview, message),
            PublishError::Pool(pool) => CallError::from(pool).into(),
            PublishError::Store(store) => store.into(),
            PublishError::Source(_) | PublishError::Lost(_) => StoreError::Away(message).into(),
            PublishError::Corrupt(_) | PublishError::Shipped(_) => {
                tracing::error!(message, "an endpoint could not be read or published");
                Code::Internal.into()
            }
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
            BuilderError::Store(StoreError::Conflict) => {
                ApiError::new(Code::ChangedMeanwhile, "the builder was changed at the same time; ask again")
            }
            BuilderError::Store(store) => store.into(),
            BuilderError::Random(_) => {
                tracing::error!(message, "a builder or their key could not be made");
                Code::Internal.into()
            }
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(store) => store.into(),
            SessionError::Random(error) => {
                tracing::error!(%error, "nobody can sign in");
                Code::Internal.into()
            }
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
            SecretError::GivenKey | SecretError::SharedKey => Self::new(Code::MasterKeyGiven, message),
            SecretError::Store(store) => store.into(),
            SecretError::Unopened => Self::new(Code::SecretsUnavailable, message),
            SecretError::Random | SecretError::Key(_) => {
                tracing::error!(message, "a secret or the master key could not be changed");
                Code::Internal.into()
            }
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
            CreditError::Random(_) => {
                tracing::error!(message, "a credit could not be made");
                Code::Internal.into()
            }
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
            RefundError::NothingPaid | RefundError::BeforeTheLedger | RefundError::TooMany => Self::new(Code::NotRefundable, message),
            RefundError::TooMuch { paid, refunded } => {
                Self::new(Code::RefundTooLarge, message).with("refund", json!({ "paidUsd": paid, "refundedUsd": refunded }))
            }
            RefundError::Reused => Self::new(Code::PaymentReused, message),
            RefundError::Credit(credit) => credit.into(),
            RefundError::Store(store) => store.into(),
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
            LedgerError::Insufficient { .. } | LedgerError::NonceUsed { .. } => {
                tracing::error!(message, "the simulated ledger refused what moves no money");
                Code::Internal.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Party;
    use tollhouse_money::{PaymentId, X402Challenge};

    fn away() -> StoreError {
        StoreError::Away("a planned fault".to_owned())
    }

    fn party(fault: impl Into<ApiError>) -> Party {
        fault.into().code().row().fault
    }

    #[test]
    fn call_that_was_charged_and_host_that_takes_none_say_which_it_is() {
        let payment = PaymentId::of(&["credit", "key"]);
        let expired = ApiError::from(&CallError::AnswerExpired(payment));
        assert_eq!((expired.code(), expired.code().row().status.as_u16()), (Code::AnswerExpired, 410));
        let not_ready = ApiError::from(&CallError::NotReady("its clock is wrong".to_owned()));
        assert_eq!((not_ready.code(), not_ready.retry_after_secs()), (Code::NotReady, Some(1)));
        let older = ApiError::from(PublishError::OlderHosts);
        assert_eq!((older.code(), older.retry_after_secs()), (Code::OlderHosts, Some(OLDER_HOSTS_SECS)));
    }

    #[test]
    fn what_the_store_did_not_do_is_the_hosts_fault_anyone_who_asked_it() {
        let locked = StoreError::LockTimeout("a planned fault".to_owned());
        for store in [away(), StoreError::Unknown("a planned fault".to_owned()), StoreError::Conflict, StoreError::Contended, locked] {
            for fault in [
                ApiError::from(store.clone()),
                CallError::Store(store.clone()).into(),
                PublishError::Store(store.clone()).into(),
                PublishError::Store(store.clone()).about(Code::InvalidPolicy),
                PayoutError::Store(store.clone()).into(),
                SecretError::Store(store.clone()).into(),
                CreditError::Store(store.clone()).into(),
                RefundError::Store(store.clone()).into(),
                LedgerError::Store(store).into(),
            ] {
                assert_eq!((fault.code(), fault.retry_after_secs()), (Code::StoreUnavailable, Some(1)));
            }
        }
        assert_eq!(ApiError::from(BuilderError::Store(away())).code(), Code::StoreUnavailable);
    }

    #[tokio::test]
    async fn what_broke_within_the_host_is_the_hosts_fault() {
        let random = || "no entropy".to_owned();
        assert_eq!(party(BuilderError::Random(random())), Party::Host);
        assert_eq!(party(CreditError::Random(random())), Party::Host);
        assert_eq!(party(SecretError::Random), Party::Host);
        assert_eq!(party(SecretError::Unopened), Party::Host);
        assert_eq!(party(PublishError::Corrupt(String::new())), Party::Host);
        assert_eq!(party(PublishError::Shipped(String::new())), Party::Host);
        assert_eq!(party(LedgerError::Insufficient { balance: 0, requested: 1 }), Party::Host);
        assert_eq!(party(CallError::FacilitatorUnavailable(String::new())), Party::Host);
        assert_eq!(party(CallError::SecretsUnavailable), Party::Host);
        assert_eq!(party(CallError::NoSandbox), Party::Host);
        assert_eq!(party(CallError::Internal), Party::Host);
        assert_eq!(ApiError::from(CallError::Internal).code(), Code::CallLost);
        let ended = tokio::spawn(std::future::pending::<()>());
        ended.abort();
        assert_eq!(party(ended.await.unwrap_err()), Party::Host);
    }

    #[test]
    fn a_refused_payment_has_its_challenge_with_it() {
        let challenge = Arc::new(X402Challenge { error: "insufficient_funds".to_owned(), ..X402Challenge::default() });
        for error in [CallError::PaymentRequired(Arc::clone(&challenge)), CallError::SettlementRefused(Arc::clone(&challenge))] {
            let fault = ApiError::from(error);
            assert_eq!((fault.code(), fault.challenge()), (Code::PaymentRequired, Some(&*challenge)));
            assert_eq!(fault.envelope()["error"]["message"], "insufficient_funds");
        }
        let reused = ApiError::from(CallError::PaymentReused(Arc::clone(&challenge)));
        assert_eq!((reused.code(), reused.challenge()), (Code::PaymentReused, Some(&*challenge)), "one front asks anew, the other refuses");
        assert!(reused.envelope().get("paymentRequired").is_none());
    }

    #[test]
    fn who_may_not_pay_again_yet_learns_where_to_ask() {
        let payment = PaymentId::of(&["one"]);
        for (error, code) in [
            (CallError::PaymentInProgress(payment.clone()), Code::PaymentInProgress),
            (CallError::Joined(payment.clone()), Code::PaymentInProgress),
            (CallError::SettlementUnknown(payment.clone()), Code::SettlementUnknown),
        ] {
            let fault = ApiError::from(error);
            let reported = fault.error();
            assert_eq!((fault.code(), reported["paymentId"].as_str()), (code, Some(payment.as_str())));
            assert!(reported["hint"].as_str().unwrap().contains(&format!("/ai/payments/{payment}")), "{reported}");
        }
    }

    #[test]
    fn a_member_that_cannot_be_is_reported_by_what_its_body_is_about() {
        let member = || PublishError::Field { pointer: "/reason".to_owned(), message: "too long".to_owned() };
        assert_eq!(ApiError::from(member()).code(), Code::InvalidEndpoint);
        let reported = member().about(Code::InvalidDecision);
        assert_eq!((reported.code(), &reported.error()["pointer"]), (Code::InvalidDecision, &json!("/reason")));
        assert_eq!(PublishError::TakenDown.about(Code::InvalidDecision).code(), Code::TakenDown, "of no member");
    }
}
