use super::*;
use crate::Party;
use std::time::Duration;
use tollhouse_call::JoinsFull;
use tollhouse_money::{PaymentId, X402Challenge};

fn away() -> StoreError {
    StoreError::Away("a planned fault".to_owned())
}

fn party(fault: impl Into<ApiError>) -> Party {
    fault.into().code().row().fault
}

#[test]
fn expired_answer_and_host_that_is_not_ready_have_their_own_codes() {
    let payment = PaymentId::of(&["credit", "key"]);
    let expired = ApiError::from(&CallError::Refused(Refusal::AnswerExpired(payment)));
    assert_eq!((expired.code(), expired.code().row().status.as_u16()), (Code::AnswerExpired, 410));
    let not_ready = ApiError::from(&CallError::NotReady("its clock is wrong".to_owned()));
    assert_eq!((not_ready.code(), not_ready.retry_after_secs()), (Code::NotReady, Some(1)));
}

/// Regression test: a retry that came too early got `false`, although the call before it was charged.
#[test]
fn refusal_before_the_payment_is_looked_up_does_not_say_that_nothing_was_charged() {
    let not_ready = || CallError::NotReady("its clock is wrong".to_owned());
    let early = ApiError::from(&CallError::MaybeCharged(Box::new(not_ready())));
    assert_eq!((early.code(), early.retry_after_secs(), &early.error()["charged"]), (Code::NotReady, Some(1), &"unknown".into()));
    assert_eq!(ApiError::from(&not_ready()).error()["charged"], false);
}

#[test]
fn missing_source_has_its_own_code_and_promises_no_retry() {
    let lost = || FindError::SourceLost("tool".parse().unwrap());
    let errors = [ApiError::from(lost()), CallError::from(lost()).into(), PublishError::Lost("its object is missing".to_owned()).into()];
    for fault in errors {
        assert_eq!((fault.code(), fault.retry_after_secs()), (Code::SourceUnavailable, None));
    }
    let away = FindError::Store(StoreError::Away("a planned fault".to_owned()));
    assert_eq!(ApiError::from(away).code(), Code::StoreUnavailable);
}

#[test]
fn store_errors_are_503_whichever_crate_returns_them() {
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
async fn internal_failures_are_the_hosts_fault() {
    let random = || "no entropy".to_owned();
    assert_eq!(party(BuilderError::Random(random())), Party::Host);
    assert_eq!(party(CreditError::Random(random())), Party::Host);
    assert_eq!(party(SecretError::Random), Party::Host);
    assert_eq!(party(SecretError::Unopened), Party::Host);
    assert_eq!(party(PublishError::Corrupt(String::new())), Party::Host);
    assert_eq!(party(PublishError::Shipped(String::new())), Party::Host);
    assert_eq!(party(LedgerError::Insufficient { balance: 0, requested: 1 }), Party::Host);
    assert_eq!(party(CallError::Refused(Refusal::FacilitatorUnavailable(String::new()))), Party::Host);
    assert_eq!(party(CallError::SecretsUnavailable), Party::Host);
    assert_eq!(party(CallError::NoSandbox), Party::Host);
    assert_eq!(party(CallError::Internal), Party::Host);
    assert_eq!(ApiError::from(CallError::Internal).code(), Code::CallLost);
    let ended = tokio::spawn(std::future::pending::<()>());
    ended.abort();
    assert_eq!(party(ended.await.unwrap_err()), Party::Host);
}

#[test]
fn refused_payment_carries_its_challenge() {
    let challenge = Arc::new(X402Challenge { error: "insufficient_funds".to_owned(), ..X402Challenge::default() });
    for error in [CallError::PaymentRequired(Arc::clone(&challenge)), CallError::SettlementRefused(Arc::clone(&challenge))] {
        let fault = ApiError::from(error);
        assert_eq!((fault.code(), fault.challenge()), (Code::PaymentRequired, Some(&*challenge)));
        assert_eq!(fault.envelope()["error"]["message"], "insufficient_funds");
    }
    let reused = ApiError::from(CallError::PaymentReused(Some(Arc::clone(&challenge))));
    assert_eq!((reused.code(), reused.challenge()), (Code::PaymentReused, Some(&*challenge)), "one front asks again, the other refuses");
    assert!(reused.envelope().get("paymentRequired").is_none());
}

#[test]
fn credit_that_does_not_pay_gets_no_challenge() {
    for (error, code) in [
        (CallError::Refused(Refusal::CreditUnknown), Code::WrongCredit),
        (CallError::Refused(Refusal::CreditRevoked), Code::CreditRevoked),
        (CallError::Refused(Refusal::CreditFrozen), Code::CreditFrozen),
        (CallError::CreditTooLow("it has 0 USD left".to_owned()), Code::CreditTooLow),
        (CallError::Refused(Refusal::KeyInvalid("it is empty".to_owned())), Code::InvalidRequest),
        (CallError::PaymentReused(None), Code::PaymentReused),
    ] {
        let fault = ApiError::from(error);
        assert_eq!((fault.code(), fault.challenge()), (code, None));
        assert!(fault.code().row().status != 402 && fault.envelope().get("paymentRequired").is_none(), "{fault:?}");
    }
}

#[test]
fn pending_payment_error_links_to_its_state() {
    let payment = PaymentId::of(&["one"]);
    for (error, code) in [
        (CallError::Refused(Refusal::InProgress(payment.clone())), Code::PaymentInProgress),
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
fn request_beyond_the_joined_ones_is_told_when_to_retry() {
    let (payment, retry_after) = (PaymentId::of(&["one"]), Duration::from_secs(5));
    for (full, text) in [
        (JoinsFull::Payment(16), "no more requests can wait for its result; the maximum is 16"),
        (JoinsFull::Address(64), "no more requests from your address can wait for running calls; the maximum is 64"),
    ] {
        let fault = ApiError::from(CallError::TooManyJoins { payment: payment.clone(), full, retry_after });
        assert_eq!((fault.code(), fault.retry_after_secs()), (Code::PaymentInProgress, Some(5)));
        assert!(fault.message().contains(text), "{}", fault.message());
        let error = fault.error();
        assert_eq!((error["paymentId"].as_str(), &error["retryAfterSeconds"]), (Some(payment.as_str()), &json!(5)));
    }
}

#[test]
fn invalid_field_gets_the_code_of_its_body() {
    let member = || PublishError::Field { pointer: "/reason".to_owned(), message: "too long".to_owned() };
    assert_eq!(ApiError::from(member()).code(), Code::InvalidEndpoint);
    let reported = member().about(Code::InvalidDecision);
    assert_eq!((reported.code(), &reported.error()["pointer"]), (Code::InvalidDecision, &json!("/reason")));
    assert_eq!(PublishError::TakenDown.about(Code::InvalidDecision).code(), Code::TakenDown, "of no member");
}

/// Regression test: an admin got the error of a payment that could not be verified.
#[test]
fn failed_reconciliation_is_about_the_chain() {
    let error = ApiError::from(ReconcileError::Node("no answer within 10 s".to_owned()));
    assert_eq!(error.code(), Code::FacilitatorUnavailable);
    assert!(error.message().starts_with("The chain could not be read"), "{}", error.message());
    assert!(error.error()["hint"].as_str().is_some_and(|hint| hint.contains("no answer within 10 s")), "{}", error.error());
}
