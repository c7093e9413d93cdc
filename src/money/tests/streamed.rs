//! Payments that are settled before the first byte of a streamed answer.

use super::{
    ledger::ledger_agrees,
    upfront::{closing, delivery},
    *,
};

/// Begins a run whose payment is admitted like any other, and settles it.
async fn opened(fixture: &Fixture, offered: OfferedPayment) -> OwedRun {
    let admission = fixture.run(offered).await;
    fixture.payments.settle_before(admission, &closing()).await.unwrap()
}

#[tokio::test]
async fn credit_without_a_key_is_charged_before_its_stream() {
    let fixture = Fixture::new().await;
    let MintedCredit { token, .. } = fixture.payments.credits().mint(MicroUsd(10 * PRICE.0), "", None).await.unwrap();
    let token = token.unwrap();
    let offered = || OfferedPayment::Credit(CreditOffer { token: token.clone(), idempotency_key: None, observer: None });
    let owed = opened(&fixture, offered()).await;
    assert_eq!(fixture.state(owed.payment()).await, Some(PaymentState::Owed));
    assert_eq!((fixture.receipts().await.len(), owed.notice()), (1, None));
    owed.deliver(answer(ANSWER), &delivery(false)).await.unwrap();
    // A broken one is charged too.
    opened(&fixture, offered()).await.fail(true).await;
    assert_eq!(fixture.receipts().await.len(), 2);
    ledger_agrees(&fixture, "a stream, and one that was broken off").await;
}

#[tokio::test]
async fn answer_that_is_not_kept_is_reported_as_charged() {
    let fixture = Fixture::new().await;
    let owed = opened(&fixture, Payer::new(1).pays(1)).await;
    let id = owed.payment().clone();
    owed.deliver(StoredAnswer::unkept(200), &delivery(false)).await.unwrap();
    assert!(matches!(fixture.admit(Payer::new(1).pays(1)).await, Err(Refusal::AnswerExpired(payment)) if payment == id));
    assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Answer(answer) if answer.is_unkept()));
}
