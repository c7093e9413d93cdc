//! The rows that the last commit of a paid call writes for its owner: the sale, unpaid earnings, events.

use tollhouse_base::id::BuilderId;
use tollhouse_event::{Event, EventQuery, Kind};
use tollhouse_tool::MicroUsd;

use super::*;
use crate::sale::{ReportDetail, UnpaidSale};

const FEE: MicroUsd = MicroUsd(333);

fn builder() -> Owner {
    Owner::Builder("bld_01J00000000000000000000000".parse::<BuilderId>().unwrap())
}

/// Returns the closing of a builder's call with a fee.
fn closing() -> Vec<u8> {
    let mut closing: serde_json::Value = serde_json::from_slice(&draft()).unwrap();
    closing["owner"] = json!(builder());
    closing["fee"] = json!(FEE);
    closing.to_string().into_bytes()
}

async fn sold(fixture: &Fixture) -> (u64, u64, u64, u64) {
    let totals = Sales::new(Arc::clone(&fixture.store)).report(&builder(), NOW, ReportDetail::Sums).await.unwrap().totals;
    (totals.paid_calls, totals.failed_calls, totals.fees_usd.0, totals.net_usd.0)
}

async fn event_data(fixture: &Fixture) -> Vec<Event> {
    let events = Events::new(Arc::clone(&fixture.store), fixture.clock.clone(), EventSettings::default());
    let mut answer = events.list(&builder(), &EventQuery { limit: 100, ..EventQuery::default() }).await.unwrap().events;
    answer.sort_by_key(|event| event.kind as u8);
    answer
}

async fn waits(fixture: &Fixture) -> u64 {
    fixture.all(Space::Unpaid).await.iter().map(|(_, value)| UnpaidSale::of_bytes(value).unwrap().net).sum()
}

async fn sold_once(fixture: &Fixture) {
    assert_eq!(sold(fixture).await, (1, 0, FEE.0, PRICE.0 - FEE.0));
    assert_eq!(waits(fixture).await, PRICE.0 - FEE.0);
    let (reported, receipts) = (event_data(fixture).await, fixture.receipts().await);
    assert_eq!(reported.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::CallSucceeded, Kind::PaymentSettled]);
    assert!(reported.iter().all(|event| event.data["receiptId"] == json!(receipts[0].draft.receipt_id)), "{reported:?}");
    assert_eq!(reported[1].data["transaction"], json!(receipts[0].transaction));
}

#[tokio::test]
async fn a_sale_is_recorded_with_its_receipt_wherever_the_host_ends() {
    for mood in [FacilitatorMood::Honest, FacilitatorMood::SettlesUnsure, FacilitatorMood::Unsure] {
        let fixture = Fixture::new().await;
        let admission = fixture.run(Payer::new(1).pays(1)).await;
        fixture.facilitator.feel(mood);
        let settled = fixture.payments.settle(admission, answer(ANSWER), &closing()).await;
        assert_eq!(settled.is_ok(), mood == FacilitatorMood::Honest, "{mood:?}");
        if mood != FacilitatorMood::Honest {
            assert_eq!(
                (sold(&fixture).await, event_data(&fixture).await.len()),
                ((0, 0, 0, 0), 0),
                "{mood:?}: sold before the outcome is known"
            );
        }
        let fixture = fixture.restarted();
        fixture.payments.recover().await.unwrap();
        fixture.payments.tick().await.unwrap();
        sold_once(&fixture).await;
        fixture.payments.recover().await.unwrap();
        fixture.payments.tick().await.unwrap();
        sold_once(&fixture).await;
    }
}

#[tokio::test]
async fn a_refused_settlement_is_a_failed_call_and_earns_nothing() {
    let fixture = Fixture::new().await;
    let admission = fixture.run(Payer::new(1).pays(1)).await;
    fixture.facilitator.feel(FacilitatorMood::Refuses);
    let refused = fixture.payments.settle(admission, answer(ANSWER), &closing()).await;
    assert!(matches!(refused, Err(SettleError::Refused { .. })), "{refused:?}");
    assert_eq!((sold(&fixture).await, waits(&fixture).await), ((0, 1, 0, 0), 0));
    let response = event_data(&fixture).await;
    assert_eq!(response.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::CallFailed, Kind::PaymentRefused]);
    assert_eq!((&response[0].data["charged"], &response[1].data["reason"]), (&json!(false), &json!("insufficient_funds")));
}
