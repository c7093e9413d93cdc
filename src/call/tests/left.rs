//! The records, events, sums and receipts that calls write.

use tollhouse_event::feed::FeedItem;
use tollhouse_money::{CreditOffer, sale::ReportDetail};
use tollhouse_store::faulty::Fault;

use super::*;

#[tokio::test]
async fn a_paid_call_is_charged_and_reports_its_owner_so() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let mut follower = fixture.events.follow(&fixture.owner).unwrap();
    let done = fixture.perform(&live, pays(1)).await.unwrap();
    assert_eq!((done.answer.status, &*done.answer.body), (200, &b"{\"answer\":42}"[..]));
    let records = fixture.records(&live).await;
    let [record] = &*records else { panic!("{records:?}") };
    assert_eq!((&record["outcome"], &record["charged"], &record["priceUsd"]), (&json!("succeeded"), &json!(true), &json!(0.01)));
    assert_eq!((&record["receiptId"], &record["payment"]), (&json!(done.answer.receipt_id), &json!("x402")));
    assert!(record["durationMs"].as_f64().is_some_and(|ms| ms < 10_000.0) && record["owner"].is_null(), "{record}");
    let settled = &fixture.events(Kind::PaymentSettled).await[0].data;
    assert_eq!(
        (&settled["transaction"].as_str().unwrap()[..5], &settled["network"], &settled["asset"]),
        ("0x402", &json!("eip155:84532"), &json!("the asset"))
    );
    assert_eq!((&settled["amount"], &settled["feeUsd"]), (&json!("10000"), &json!(0.0005)));
    let mut listed = vec![];
    while listed.len() < 2 {
        match tokio::time::timeout(Duration::from_secs(10), follower.next()).await.unwrap() {
            Some(FeedItem::Entry(event)) => listed.push(event.kind),
            other => panic!("{other:?} after {listed:?}"),
        }
    }
    assert_eq!(listed, [Kind::CallSucceeded, Kind::PaymentSettled], "followers get the call");
    let receipt = fixture.receipts.find(&done.answer.receipt_id).await.unwrap().unwrap();
    assert_eq!((&receipt["x402Version"], &receipt["transaction"]), (&json!(1), &settled["transaction"]), "{receipt}");
}

#[tokio::test]
async fn credit_that_pays_names_no_network() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let token = fixture.payments.credits().mint(MicroUsd(10_000), "a test", None).await.unwrap().token.unwrap();
    fixture.perform(&live, OfferedPayment::Credit(CreditOffer { token, idempotency_key: None, observer: None })).await.unwrap();
    let settled = &fixture.events(Kind::PaymentSettled).await[0].data;
    assert_eq!((&settled["kind"], settled.get("network"), settled.get("transaction")), (&json!("credit"), None, None));
}

#[tokio::test]
async fn unknown_settlement_is_reported_as_unknown_and_not_as_failed() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    fixture.settle(Settles::Unsure);
    let ended = fixture.perform(&live, pays(1)).await;
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::SettlementUnknown(_))), "{ended:?}");
    let record = &fixture.records(&live).await[0];
    assert_eq!((&record["charged"], &record["code"]), (&json!("unknown"), &json!("settlement_unknown")));
    assert!(fixture.events(Kind::CallFailed).await.is_empty(), "it may turn out well");
}

#[tokio::test]
async fn a_call_whose_settlement_is_refused_was_not_charged() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    fixture.settle(Settles::Refused("insufficient_funds"));
    let ended = fixture.perform(&live, pays(1)).await;
    let Err(CallError::SettlementRefused(challenge)) = ended.as_ref().map_err(|error| &**error) else { panic!("{ended:?}") };
    assert_eq!(challenge.error, "insufficient_funds");
    assert!(challenge.failed.as_ref().is_some_and(|notice| notice.body.contains("insufficient_funds")), "its client reads that");
    let record = &fixture.records(&live).await[0];
    assert_eq!((&record["charged"], &record["code"]), (&json!(false), &json!("refused")));
    assert_eq!(fixture.events(Kind::CallFailed).await.len(), 1, "the gate has reported it");
}

/// Regression test: somebody sent the signature of a refused payment to the chain. The next run failed, and its payer
/// was asked to pay again.
#[tokio::test]
async fn refused_payment_whose_money_moves_later_buys_an_answer_even_if_a_run_fails() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    fixture.settle(Settles::Refused("insufficient_funds"));
    fixture.perform(&live, pays(1)).await.unwrap_err();
    fixture.settle(Settles::Moved);
    for _ in 0..2 {
        let ended = fixture.perform(&broken(&live), pays(1)).await;
        assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::PaidRunFailed(_))), "{ended:?}");
    }
    assert_eq!(&*fixture.perform(&live, pays(1)).await.unwrap().answer.body, &b"{\"answer\":42}"[..]);
    assert_eq!(fixture.events(Kind::PaymentSettled).await.len(), 1);
}

#[tokio::test]
async fn a_facilitator_that_does_not_serve_the_host_asks_nobody_for_another_payment() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    fixture.settle(Settles::Refused(tollhouse_money::NOT_SERVED));
    let ended = fixture.perform(&live, pays(1)).await;
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Refused(Refusal::FacilitatorUnavailable(_)))), "{ended:?}");
}

#[tokio::test]
async fn call_whose_settlement_the_store_rejects_is_not_charged() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    // The reservation is written, the intent is not.
    fixture.store.fail_nth(2, Fault::Before);
    let ended = fixture.perform(&live, pays(1)).await;
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Store(_))), "{ended:?}");
    let record = &fixture.records(&live).await[0];
    assert_eq!((&record["outcome"], &record["charged"], &record["code"]), (&json!("failed"), &json!(false), &json!("store")));
    let failed = fixture.events(Kind::CallFailed).await;
    assert_eq!((failed.len(), &failed[0].data["code"]), (1, &json!("store")));
}

#[tokio::test]
async fn a_handler_that_does_not_run_gives_the_payment_back() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let ended = fixture.perform(&broken(&live), pays(1)).await;
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Internal)), "{ended:?}");
    let record = &fixture.records(&live).await[0];
    assert_eq!((&record["outcome"], &record["charged"], &record["receiptId"]), (&json!("failed"), &json!(false), &Value::Null));
    assert_eq!(fixture.events(Kind::CallFailed).await[0].data["code"], "internal");
    fixture.perform(&live, pays(1)).await.unwrap();
}

#[tokio::test]
async fn a_paid_input_that_does_not_fit_gives_the_payment_back_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let call = Call { input: Input::Body(Bytes::from_static(br#"["no object"]"#)), ..fixture.call(&live, pays(1)) };
    let ended = fixture.calls.perform(call).await;
    assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Input(_))), "{ended:?}");
    assert!(fixture.records(&live).await.is_empty() && fixture.events(Kind::CallFailed).await.is_empty());
    fixture.perform(&live, pays(1)).await.unwrap();
}

#[tokio::test]
async fn invalid_input_with_credit_leaves_no_row() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let token = fixture.payments.credits().mint(MicroUsd(10_000), "a test", None).await.unwrap().token.unwrap();
    let by_credit = |key: &str| {
        let (token, idempotency_key) = (token.clone(), Some(key.to_owned()));
        OfferedPayment::Credit(CreditOffer { token, idempotency_key, observer: None })
    };
    let invalid = async |key: &str| {
        let call = Call { input: Input::Body(Bytes::from_static(br#"["no object"]"#)), ..fixture.call(&live, by_credit(key)) };
        let ended = fixture.calls.perform(call).await;
        assert!(matches!(ended.as_ref().map_err(|error| &**error), Err(CallError::Input(_))), "{ended:?}");
    };
    let before = fixture.store.commits();
    for key in ["one", "two", "three"] {
        invalid(key).await;
    }
    assert_eq!(fixture.store.commits(), before);
    // A key that has bought an answer is for that request only.
    fixture.perform(&live, by_credit("one")).await.unwrap();
    invalid("one").await;
}

#[tokio::test]
async fn calls_of_the_owner_are_free_and_not_counted() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.01).await;
    let owners = |live: &Arc<LiveEndpoint>| Call { by: CalledBy::Owner, ..fixture.call(live, OfferedPayment::Nothing) };
    let done = fixture.calls.perform(owners(&live)).await.unwrap();
    assert!(done.payment.is_none());
    for _ in 0..2 {
        fixture.calls.perform(owners(&broken(&live))).await.unwrap_err();
    }
    fixture.perform(&broken(&live), pays(1)).await.unwrap_err();
    let records = fixture.records(&live).await;
    assert_eq!(records.iter().filter(|record| record["owner"] == true && record["priceUsd"] == 0.0).count(), 3, "{records:?}");
    assert_eq!(records.len(), 4);
    // Of the three that failed, the owner's are marked.
    let failed = fixture.events(Kind::CallFailed).await;
    assert_eq!((failed.len(), failed.iter().filter(|event| event.data["owner"] == true).count()), (3, 2));
    let totals = fixture.sales.report(&fixture.owner, NOW, ReportDetail::Sums).await.unwrap().totals;
    assert_eq!((totals.calls, totals.failed_calls), (1, 1), "{totals:?}");
    let request = fixture.metrics.query(0, None, SeriesStep::Hour).unwrap();
    assert_eq!(fixture.metrics.series(&live.endpoint.id, request).await.unwrap().buckets[0].calls, 1);
    let receipt = fixture.receipts.find(&done.answer.receipt_id).await.unwrap().unwrap();
    assert!(receipt["owner"] == true && receipt["priceUsd"] == 0.0, "{receipt}");
}

#[tokio::test]
async fn a_free_call_has_its_receipt_before_it_is_written_and_after() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.0).await;
    fixture.store.fail_all(Fault::Before);
    let done = fixture.perform(&live, OfferedPayment::Nothing).await.unwrap();
    let waiting = fixture.receipts.find(&done.answer.receipt_id).await.unwrap().unwrap();
    assert_eq!(waiting["receiptId"], done.answer.receipt_id);
    fixture.store.heal();
    assert_eq!(fixture.events(Kind::CallSucceeded).await.len(), 1);
    assert_eq!(fixture.records(&live).await[0]["receiptId"], done.answer.receipt_id);
    let stored = fixture.receipts.find(&done.answer.receipt_id).await.unwrap().unwrap();
    assert_eq!(stored["receiptId"], done.answer.receipt_id);
    assert_eq!(fixture.receipts.find(ReceiptId::generate().as_str()).await.unwrap(), None);
}

#[tokio::test]
async fn answers_of_the_host_do_not_lower_the_expected_cost() {
    let fixture = Fixture::new().await;
    let live = fixture.tool(0.0).await;
    live.usual_cost.add(Duration::from_secs(8));
    let before = live.usual_cost.get();
    fixture.perform(&live, OfferedPayment::Nothing).await.unwrap();
    assert_eq!((before, live.usual_cost.get()), (Duration::from_secs(1), Duration::from_secs(1)));
}
