//! The rows that the last commit of a paid call writes for its owner: the sale, unpaid earnings, events.

use tollhouse_base::id::BuilderId;
use tollhouse_event::{Event, EventQuery, Kind};
use tollhouse_tool::MicroUsd;

use super::*;
use crate::sale::{Detail, Unpaid};

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

async fn sold(bench: &Bench) -> (u64, u64, u64, u64) {
    let totals = Sales::new(Arc::clone(&bench.store)).report(&builder(), NOW, Detail::Sums).await.unwrap().totals;
    (totals.paid_calls, totals.failed_calls, totals.fees_usd.0, totals.net_usd.0)
}

async fn told(bench: &Bench) -> Vec<Event> {
    let events = Events::new(Arc::clone(&bench.store), bench.clock.clone(), EventSettings::default());
    let mut told = events.list(&builder(), &EventQuery { limit: 100, ..EventQuery::default() }).await.unwrap().events;
    told.sort_by_key(|event| event.kind as u8);
    told
}

async fn waits(bench: &Bench) -> u64 {
    bench.all(Space::Unpaid).await.iter().map(|(_, value)| Unpaid::of_bytes(value).unwrap().net).sum()
}

async fn sold_once(bench: &Bench) {
    assert_eq!(sold(bench).await, (1, 0, FEE.0, PRICE.0 - FEE.0));
    assert_eq!(waits(bench).await, PRICE.0 - FEE.0);
    let (told, receipts) = (told(bench).await, bench.receipts().await);
    assert_eq!(told.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::CallSucceeded, Kind::PaymentSettled]);
    assert!(told.iter().all(|event| event.data["receiptId"] == json!(receipts[0].draft.receipt_id)), "{told:?}");
    assert_eq!(told[1].data["transaction"], json!(receipts[0].transaction));
}

#[tokio::test]
async fn a_sale_is_recorded_with_its_receipt_wherever_the_host_ends() {
    for mood in [Mood::Honest, Mood::SettlesUnsure, Mood::Unsure] {
        let bench = Bench::new().await;
        let admission = bench.run(Payer::new(1).pays(1)).await;
        bench.facilitator.feel(mood);
        let settled = bench.gate.settle(admission, answer(ANSWER), &closing()).await;
        assert_eq!(settled.is_ok(), mood == Mood::Honest, "{mood:?}");
        if mood != Mood::Honest {
            assert_eq!((sold(&bench).await, told(&bench).await.len()), ((0, 0, 0, 0), 0), "{mood:?}: sold before the outcome is known");
        }
        let bench = bench.restarted();
        bench.gate.recover().await.unwrap();
        bench.gate.tick().await.unwrap();
        sold_once(&bench).await;
        bench.gate.recover().await.unwrap();
        bench.gate.tick().await.unwrap();
        sold_once(&bench).await;
    }
}

#[tokio::test]
async fn a_refused_settlement_is_a_failed_call_and_earns_nothing() {
    let bench = Bench::new().await;
    let admission = bench.run(Payer::new(1).pays(1)).await;
    bench.facilitator.feel(Mood::Refuses);
    let refused = bench.gate.settle(admission, answer(ANSWER), &closing()).await;
    assert!(matches!(refused, Err(SettleError::Refused { .. })), "{refused:?}");
    assert_eq!((sold(&bench).await, waits(&bench).await), ((0, 1, 0, 0), 0));
    let told = told(&bench).await;
    assert_eq!(told.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::CallFailed, Kind::PaymentRefused]);
    assert_eq!((&told[0].data["charged"], &told[1].data["reason"]), (&json!(false), &json!("insufficient_funds")));
}
