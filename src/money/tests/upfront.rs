//! Payments that are settled before the run.

use tollhouse_store::WrittenRow;

use super::{
    ledger::{archived, ledger_agrees},
    refund::refunding,
    replicas::{LEASE_MS, two},
    *,
};
use crate::{Delivery, refund::RefundRequest};

const RESULT: &str = "sha256:the hash of the result";

pub(super) fn upfront() -> CallTerms {
    CallTerms { settle: SettleTime::Before, ..terms() }
}

/// Returns the payment of a v2 client that accepts the flow.
pub(super) fn pays(seed: u8, nonce: u64) -> OfferedPayment {
    let payer = Payer::new(seed);
    let mut payload = payer.payload(&payer.authorization(nonce));
    payload["accepted"]["extra"]["paymentFlow"] = json!("upfront");
    offer(&payload)
}

pub(super) fn closing() -> Vec<u8> {
    let mut closing: ReceiptContext = serde_json::from_slice(&draft()).unwrap();
    (closing.receipt.settle, closing.receipt.result_hash) = (SettleTime::Before, String::new());
    ReceiptFinisher::encode(&closing)
}

pub(super) fn delivery(repeated: bool) -> Delivery {
    let call = CallId::generate();
    Delivery { call, owner: Owner::Platform, version: terms().version, result_hash: RESULT.to_owned(), repeated, started_at: NOW }
}

impl Fixture {
    async fn admit_upfront(&self, offered: OfferedPayment) -> Result<Admit, Refusal> {
        self.payments.admit(&upfront(), offered, REQUEST).await
    }

    /// Pays before a run.
    async fn charge(&self, offered: OfferedPayment) -> Result<OwedRun, SettleError> {
        let admission = run(self.admit_upfront(offered).await);
        self.payments.settle_before(admission, &closing()).await
    }

    /// Begins another run for an owed answer.
    async fn again(&self, offered: OfferedPayment) -> OwedRun {
        match self.admit_upfront(offered).await {
            Ok(Admit::Seen(SeenPayment::Owed(owed))) => {
                self.payments.resume(owed, &upfront(), PaymentRequest::from(REQUEST)).await.unwrap().expect("nobody was faster")
            }
            other => panic!("nothing is owed: {}", what(&other)),
        }
    }

    async fn charged_once(&self) {
        assert_eq!((self.earned().await, self.balance(&Payer::new(1).address()).await), (PRICE.0, FUNDS.0 - PRICE.0));
        assert_eq!(self.receipts().await.len(), 1);
    }
}

#[tokio::test]
async fn payment_is_settled_and_receipted_before_the_run() {
    let fixture = Fixture::new().await;
    let owed = fixture.charge(pays(1, 1)).await.unwrap();
    fixture.charged_once().await;
    let receipt = fixture.receipts().await.remove(0);
    assert_eq!((receipt.draft.settle, receipt.draft.result_hash.as_str()), (SettleTime::Before, ""));
    let id = owed.payment().clone();
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Owed));
    assert!(matches!(fixture.admit_upfront(pays(1, 1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))), "its run is under way");
    let answer = owed.deliver(answer(ANSWER), &delivery(false)).await.unwrap();
    assert_eq!((&answer.body[..], answer.receipt_id.as_str()), (ANSWER, receipt.draft.receipt_id.as_str()));
    assert!(answer.settlement.as_ref().unwrap().body.contains("\"success\":true"));
    let after = fixture.receipts().await.remove(0);
    assert_eq!((after.draft.result_hash.as_str(), &after.transaction), (RESULT, &receipt.transaction));
    assert_eq!(stored(fixture.admit_upfront(pays(1, 1)).await), answer);
    let (_, row) = fixture.all(Space::PaymentAnswers).await.remove(0);
    assert!(!String::from_utf8_lossy(&row).contains("\"success\""), "the record of the payment has the settle response");
    fixture.charged_once().await;
    assert!(fixture.all(Space::OpenIntents).await.is_empty());
}

#[tokio::test]
async fn failed_run_is_repeated_without_another_charge() {
    let fixture = Fixture::new().await;
    let answer = fixture.charge(pays(1, 1)).await.unwrap().fail(true).await;
    assert_eq!((answer.runs_left, answer.notice.is_some()), (9, true));
    for remaining in (0..9).rev() {
        let answer = fixture.again(pays(1, 1)).await.fail(true).await;
        assert_eq!(answer.runs_left, remaining);
    }
    let refused = fixture.admit_upfront(pays(1, 1)).await;
    assert!(matches!(&refused, Err(Refusal::NoMoreRuns { receipt, .. }) if *receipt == answer.receipt), "{}", what(&refused));
    fixture.charged_once().await;
}

#[tokio::test]
async fn repeated_run_counts_for_its_payer_like_others() {
    let fixture = Fixture::new().await;
    fixture.charge(pays(1, 1)).await.unwrap().fail(true).await;
    let repeated = fixture.again(pays(1, 1)).await;
    let is_full = |admit: &Result<Admit, Refusal>| matches!(admit, Err(Refusal::Slowed(slowed)) if slowed.bound == RunLimit::Payer);
    let mut running = vec![];
    let refused = loop {
        match fixture.admit_upfront(pays(1, 2 + running.len() as u64)).await {
            Ok(Admit::Run(admission)) => running.push(admission),
            other => break other,
        }
    };
    assert!(is_full(&refused), "{}", what(&refused));
    repeated.fail(false).await;
    running.push(run(fixture.admit_upfront(pays(1, 1_000)).await));
    let refused = fixture.admit_upfront(pays(1, 1_001)).await;
    assert!(is_full(&refused), "{} after {} runs", what(&refused), running.len());
}

#[tokio::test]
async fn run_that_the_host_had_no_room_for_is_not_counted() {
    let fixture = Fixture::new().await;
    let mut response = fixture.charge(pays(1, 1)).await.unwrap().fail(false).await;
    assert_eq!(response.runs_left, 10);
    for _ in 0..20 {
        response = fixture.again(pays(1, 1)).await.fail(false).await;
    }
    assert_eq!(response.runs_left, 10);
    fixture.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    fixture.charged_once().await;
}

#[tokio::test]
async fn refused_settlement_owes_nothing() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Refuses);
    let refused = fixture.charge(pays(1, 1)).await.err();
    assert!(matches!(refused, Some(SettleError::Refused { .. })), "{refused:?}");
    assert_eq!((fixture.earned().await, fixture.receipts().await.len()), (0, 0));
    fixture.facilitator.feel(FacilitatorMood::Honest);
    let owed = fixture.charge(pays(1, 1)).await.unwrap();
    assert_eq!(fixture.state(owed.payment()).await, Some(PaymentState::Owed));
}

#[tokio::test]
async fn unknown_settlement_runs_once_it_is_found_settled() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::SettlesUnsure);
    let unknown = fixture.charge(pays(1, 1)).await.err();
    let Some(SettleError::Unknown { payment }) = unknown else { panic!("{unknown:?}") };
    assert!(
        matches!(fixture.admit_upfront(pays(1, 1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))),
        "nothing runs before that is known"
    );
    fixture.facilitator.feel(FacilitatorMood::Honest);
    let fixture = fixture.restarted();
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!(fixture.state(&payment).await, Some(PaymentState::Owed));
    assert!(matches!(fixture.payments.ended(&payment).await.unwrap(), HeldPaymentEnd::Owed(owed) if owed.failed_runs() == 0));
    let response = fixture.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert_eq!(stored(fixture.admit_upfront(pays(1, 1)).await), response);
    fixture.charged_once().await;
}

#[tokio::test]
async fn unresolved_settlement_is_owed_once_it_is_found_paid() {
    let fixture = Fixture::new().await;
    fixture.facilitator.feel(FacilitatorMood::Unsure);
    let unknown = fixture.charge(pays(1, 1)).await.err();
    let Some(SettleError::Unknown { payment }) = unknown else { panic!("{unknown:?}") };
    fixture.clock.set(NOW.plus_millis(24 * 60 * 60 * 1_000));
    fixture.payments.recover().await.unwrap();
    fixture.payments.tick().await.unwrap();
    assert_eq!(fixture.state(&payment).await, Some(PaymentState::Unresolved));
    assert!(
        matches!(fixture.admit_upfront(pays(1, 1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))),
        "nothing runs before that is known"
    );
    let paid = Resolution::Paid { transaction: format!("0x{}", "ab".repeat(32)) };
    assert_eq!(fixture.payments.resolve_unresolved(&payment, &paid).await.unwrap().state, PaymentState::Owed);
    assert_eq!(count_unresolved(&*fixture.store, 10).await.unwrap(), 0);
    let response = fixture.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert_eq!(stored(fixture.admit_upfront(pays(1, 1)).await), response);
    assert_eq!((fixture.state(&payment).await, fixture.receipts().await.len()), (Some(PaymentState::Settled), 1));
}

#[tokio::test]
async fn restart_during_a_run_lets_the_payer_run_again() {
    let fixture = Fixture::new().await;
    let cut = fixture.charge(pays(1, 1)).await.unwrap();
    let after = fixture.restarted();
    after.payments.recover().await.unwrap();
    after.payments.tick().await.unwrap();
    let again = after.again(pays(1, 1)).await;
    // The earlier run has not noticed.
    let (lost, _) = cut.deliver(answer(b"{}"), &delivery(false)).await.unwrap_err();
    assert!(matches!(lost, StoreError::Conflict), "{lost:?}");
    again.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    assert_eq!(&stored(after.admit_upfront(pays(1, 1)).await).body[..], ANSWER);
    after.charged_once().await;
}

#[tokio::test]
async fn run_started_by_another_host_is_counted_once() {
    let (one, other) = two().await;
    let run = one.charge(pays(1, 1)).await.unwrap();
    let id = run.payment().clone();
    assert!(matches!(other.admit_upfront(pays(1, 1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))), "it is joined");
    assert!(matches!(other.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Running { failed_runs: 0 }));
    let answer = run.fail(true).await;
    assert_eq!(answer.runs_left, 9);
    match other.payments.ended(&id).await.unwrap() {
        HeldPaymentEnd::Owed(owed) => assert_eq!((owed.failed_runs(), other.payments.unanswered_by(&owed)), (1, answer)),
        ended => panic!("{ended:?}"),
    }
    // The next run is counted in the commit that begins it, wherever it runs.
    let run = other.again(pays(1, 1)).await;
    assert!(matches!(one.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Running { failed_runs: 1 }));
    assert!(matches!(one.admit_upfront(pays(1, 1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))));
    assert_eq!(run.fail(true).await.runs_left, 8);
}

#[tokio::test]
async fn run_of_a_host_that_loses_its_lease_is_repeated_and_answered_once() {
    let (one, other) = two().await;
    let late = one.charge(pays(1, 1)).await.unwrap();
    let id = late.payment().clone();
    assert!(matches!(other.admit_upfront(pays(1, 1)).await, Ok(Admit::Seen(SeenPayment::InFlight(_)))), "its host lives");
    // Only the other host renews its lease.
    for step in 1..=3 {
        other.clock.set(NOW.plus_millis(LEASE_MS + step * LEASE_MS / 2));
        other.renew().await;
    }
    assert!(
        matches!(other.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Owed(owed) if owed.failed_runs() == 0),
        "the run did not end"
    );
    let again = other.again(pays(1, 1)).await;
    // The first host has not noticed, and ends its run.
    let (lost, _) = late.deliver(answer(b"{}"), &delivery(false)).await.unwrap_err();
    assert!(matches!(lost, StoreError::Conflict), "{lost:?}");
    assert!(matches!(other.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Running { .. }), "that did not end the other run");
    assert_eq!(again.fail(true).await.runs_left, 8, "two runs have started");
    other.again(pays(1, 1)).await.deliver(answer(ANSWER), &delivery(true)).await.unwrap();
    for fixture in [&one, &other] {
        assert_eq!(&stored(fixture.admit_upfront(pays(1, 1)).await).body[..], ANSWER);
    }
    other.charged_once().await;
}

#[tokio::test]
async fn refund_during_a_run_leaves_the_payment_without_its_answer() {
    let fixture = Fixture::new().await;
    let run = fixture.charge(pays(1, 1)).await.unwrap();
    let (id, receipt) = (run.payment().clone(), run.receipt().to_owned());
    let refund = |transaction: u64| RefundRequest { transaction: Some(format!("0x{transaction:064x}")), ..refunding(&receipt) };
    assert_eq!(fixture.refunds().issue(&refund(7), None).await.unwrap().refunded, PRICE);
    let (_, reported) = run.deliver(answer(ANSWER), &delivery(false)).await.unwrap_err();
    assert_eq!((reported.runs_left, reported.receipt.as_str()), (0, receipt.as_str()));
    assert_eq!(fixture.state(&id).await, Some(PaymentState::Owed));
    let stored = fixture.receipts().await.remove(0);
    assert_eq!(stored.draft.result_hash, "", "no answer was given for it");
    // No host takes it for a run in flight, and none runs it again.
    assert!(matches!(fixture.payments.ended(&id).await.unwrap(), HeldPaymentEnd::Owed(owed) if owed.failed_runs() == 1));
    let Ok(Admit::Seen(SeenPayment::Owed(owed))) = fixture.admit_upfront(pays(1, 1)).await else { panic!("it is not owed") };
    let refused = fixture.payments.resume(owed, &upfront(), PaymentRequest::from(REQUEST)).await.err();
    assert!(matches!(&refused, Some(Refusal::NoMoreRuns { receipt: reported, .. }) if *reported == receipt), "{refused:?}");
    // A deleted tool cannot run it, so its payer learns this from `earlier`.
    let refused = fixture.payments.earlier(&pays(1, 1), REQUEST).await;
    assert!(matches!(&refused, Err(Refusal::NoMoreRuns { receipt: reported, .. }) if *reported == receipt), "{refused:?}");
    // Nothing more is given back than was paid.
    fixture.refunds().issue(&refund(8), None).await.unwrap_err();
}

/// Regression test: after a refund of $0.000001, none of the nine runs was left.
#[tokio::test]
async fn refund_of_a_part_leaves_the_runs_and_the_answer() {
    let fixture = Fixture::new().await;
    let answered = fixture.charge(pays(1, 1)).await.unwrap().fail(true).await;
    let refund = |transaction: u64, amount| RefundRequest {
        transaction: Some(format!("0x{transaction:064x}")),
        amount,
        ..refunding(&answered.receipt)
    };
    let refunds = fixture.refunds();
    refunds.issue(&refund(7, Some(MicroUsd(1))), None).await.unwrap();
    assert!(matches!(fixture.payments.earlier(&pays(1, 1), REQUEST).await, Ok(Some(SeenPayment::Owed(_)))));
    let again = fixture.again(pays(1, 1)).await;
    refunds.issue(&refund(8, Some(MicroUsd(PRICE.0 - 2))), None).await.unwrap();
    assert_eq!(again.fail(true).await.runs_left, 8);
    refunds.issue(&refund(9, None), None).await.unwrap();
    let refused = fixture.payments.earlier(&pays(1, 1), REQUEST).await;
    assert!(matches!(&refused, Err(reason) if reason.to_string().ends_with("was refunded")), "{refused:?}");

    let other = Fixture::new().await;
    let run = other.charge(pays(1, 1)).await.unwrap();
    let part = RefundRequest { transaction: Some(format!("0x{:064x}", 7)), amount: Some(MicroUsd(1)), ..refunding(run.receipt()) };
    other.refunds().issue(&part, None).await.unwrap();
    assert_eq!(run.deliver(answer(ANSWER), &delivery(false)).await.unwrap().body, ANSWER);
}

/// Only a full refund or a lost settlement ends the claim to an answer before its runs and its time are used up.
#[tokio::test]
async fn owed_payment_without_a_refund_is_found_as_owed() {
    let fixture = Fixture::new().await;
    let run = fixture.charge(pays(1, 1)).await.unwrap();
    assert!(matches!(fixture.payments.earlier(&pays(1, 1), REQUEST).await, Ok(Some(SeenPayment::InFlight(_)))));
    _ = run.fail(true).await;
    assert!(matches!(fixture.payments.earlier(&pays(1, 1), REQUEST).await, Ok(Some(SeenPayment::Owed(_)))));
}

#[tokio::test]
async fn concurrent_repeats_run_once() {
    let fixture = Fixture::new().await;
    _ = fixture.charge(pays(1, 1)).await.unwrap().fail(true).await;
    let (mut owed, terms) = (Vec::new(), upfront());
    for _ in 0..4 {
        match fixture.admit_upfront(pays(1, 1)).await {
            Ok(Admit::Seen(SeenPayment::Owed(one))) => owed.push(one),
            other => panic!("{}", what(&other)),
        }
    }
    let started = owed.into_iter().map(|owed| fixture.payments.resume(owed, &terms, PaymentRequest::from(REQUEST)));
    let started: Vec<_> = futures_util::future::join_all(started).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(started.iter().flatten().count(), 1);
}

#[tokio::test]
async fn payment_for_one_tool_does_not_run_another() {
    let fixture = Fixture::new().await;
    _ = fixture.charge(pays(1, 1)).await.unwrap().fail(true).await;
    let Ok(Admit::Seen(SeenPayment::Owed(owed))) = fixture.admit_upfront(pays(1, 1)).await else { panic!("nothing is owed") };
    let other = CallTerms { endpoint_id: "ep_01J00000000000000000000001".parse().unwrap(), ..upfront() };
    let refused = fixture.payments.resume(owed, &other, PaymentRequest::from(REQUEST)).await.err();
    assert!(matches!(refused, Some(Refusal::NoMoreRuns { .. })), "{refused:?}");
}

#[tokio::test]
async fn offers_of_v2_name_the_flow_and_v1_has_none() {
    let fixture = Fixture::new().await;
    let challenge = fixture.payments.challenge(&upfront(), EntryMethod::Post, "payment required");
    assert!(challenge.v2["accepts"].as_array().unwrap().iter().all(|entry| entry["extra"]["paymentFlow"] == "upfront"));
    assert_eq!(challenge.v1["accepts"], json!([]));
    assert!(challenge.v1["message"].as_str().unwrap().contains("x402 v2"), "{}", challenge.v1);
    let plain = fixture.admit_upfront(Payer::new(1).pays(1)).await;
    assert_eq!(code(plain), "invalid_payment_requirements", "the call is marked as paid before the run");
    let v1 = Payer::new(1).payload_v1(&Payer::new(1).authorization(1));
    let v1 = OfferedPayment::X402 { version: WireVersion::V1, header: STANDARD.encode(v1.to_string()) };
    assert_eq!(code(fixture.admit_upfront(v1).await), "invalid_x402_version");
}

#[tokio::test]
async fn delivered_receipt_agrees_with_its_archived_version() {
    let fixture = Fixture::new().await;
    let owed = fixture.charge(pays(1, 1)).await.unwrap();
    let rows = fixture.all(Space::Receipts).await;
    let before: Vec<_> = rows.iter().map(|(key, value)| WrittenRow::new(Space::Receipts, key.clone(), value.clone())).collect();
    let receipt = owed.deliver(answer(ANSWER), &delivery(false)).await.unwrap().receipt_id;
    ledger_agrees(&fixture, "after the delivery").await;
    let found = archived(&fixture, &before).await;
    assert_eq!((found.archived, found.disagreements), (1, 0), "{found:?}");
    // Any other difference is reported.
    let (key, value) = fixture.all(Space::Receipts).await.remove(0);
    let mut stored: Value = serde_json::from_slice(&receipt::StoredReceipt::of_bytes(&value).unwrap().json).unwrap();
    stored["priceUsd"] = json!(1);
    fixture.write(Space::Receipts, key, stored.to_string().into_bytes()).await;
    let found = archived(&fixture, &before).await;
    assert_eq!(found.wrong[0].to_string(), format!("receipt {receipt}: differs from the journal's archive"));
}
