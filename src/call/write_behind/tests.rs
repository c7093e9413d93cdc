use std::collections::HashMap;

use futures_util::FutureExt as _;
use tollhouse_base::{
    clock::Clock,
    id::{BuilderId, ReceiptId},
};
use tollhouse_event::{EventQuery, EventSettings};
use tollhouse_money::{receipt::ReceiptDraft, sale::ReportDetail};
use tollhouse_store::{
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
};
use tollhouse_tool::MicroUsd;

use super::{pending::MAX_FAILED, *};
use crate::{HistorySettings, MetricsSettings};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn write_behind() -> (WriteBehind, Arc<FaultyStore<MemoryStore>>) {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let any: Arc<dyn Store> = Arc::clone(&store) as _;
    let events = Arc::new(Events::new(Arc::clone(&any), Clock::fixed(NOW), EventSettings::default()));
    let sales = Sales::new(Arc::clone(&any));
    let history = History::new(Arc::clone(&any), Clock::fixed(NOW), HistorySettings::default());
    let metrics = Metrics::new(Arc::clone(&any), Clock::fixed(NOW), MetricsSettings::default());
    (WriteBehind::new(any, WriteBehindParts { events, sales, history, metrics }), store)
}

fn failure(owner: &Owner, endpoint: &EndpointId) -> Failed {
    let slug = "some-tool".parse().unwrap();
    Failed {
        call: CallId::generate(),
        owner: owner.clone(),
        endpoint: endpoint.clone(),
        slug,
        by: CalledBy::Anyone,
        code: "handler_failed",
        at: NOW,
        paid: None,
        schedule: None,
    }
}

fn record() -> CallRecord {
    let record = serde_json::from_value(json!({
        "callId": CallId::generate(), "at": NOW, "outcome": "succeeded", "charged": false, "priceUsd": 0, "payment": "free",
        "durationMs": 1.5, "inputBytes": 2, "version": "v", "method": "POST",
    }));
    record.unwrap()
}

fn free(n: usize) -> ReceiptContext {
    let receipt = ReceiptDraft {
        receipt_id: ReceiptId::generate(),
        slug: "some-tool".parse().unwrap(),
        endpoint_id: EndpointId::generate(),
        version: n.to_string(),
        price_usd: MicroUsd::ZERO,
        quote_id: None,
        max_price_usd: None,
        owner: false,
        resource_url: String::new(),
        request_hash: String::new(),
        result_hash: String::new(),
        streamed: false,
        settle: Default::default(),
        started_at: NOW,
        issued_at: NOW,
    };
    ReceiptContext { receipt, call: CallId::generate(), owner: Owner::Platform, fee: MicroUsd::ZERO, registered: None }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_nothing_keeps_no_free_call_waiting_forever() {
    let (write_behind, _store) = write_behind();
    for n in 0..MAX_WAITING {
        write_behind.succeeded(free(n)).await.unwrap();
    }
    let before = tokio::time::Instant::now();
    assert!(matches!(write_behind.succeeded(free(MAX_WAITING)).await, Err(StoreError::Away(_))));
    assert_eq!(before.elapsed(), TIMEOUT);
    write_behind.write().await.unwrap();
    write_behind.succeeded(free(MAX_WAITING)).await.unwrap();
    write_behind.write_all().await.unwrap();
    assert_eq!(write_behind.waiting.lock().receipts.len(), 0, "all that waited is written, however many batches that takes");
}

#[tokio::test]
async fn batch_counts_once_however_its_commits_end() {
    let (owner, endpoint) = (Owner::Builder(BuilderId::generate()), EndpointId::generate());
    for faults in [vec![], vec![Fault::Before], vec![Fault::After], vec![Fault::Lost, Fault::After], vec![Fault::After, Fault::Before]] {
        let (write_behind, store) = write_behind();
        for (n, fault) in (1..).zip(&faults) {
            store.fail_nth(n, *fault);
        }
        for _ in 0..3 {
            write_behind.failed(failure(&owner, &endpoint));
        }
        let mut tries = 0;
        while write_behind.write().await.is_err() {
            // Folding in between deletes its rows, and only the unique row shows that it was written.
            _ = write_behind.parts.sales.fold_left(NOW).await;
            tries += 1;
            assert!(tries <= faults.len(), "{faults:?}");
        }
        let report = write_behind.parts.sales.report(&owner, NOW, ReportDetail::Sums).await.unwrap();
        assert_eq!((report.totals.calls, report.totals.failed_calls), (3, 3), "{faults:?}");
        let query = EventQuery { limit: 10, ..EventQuery::default() };
        assert_eq!(write_behind.parts.events.list(&owner, &query).await.unwrap().events.len(), 3, "{faults:?}");
    }
}

#[tokio::test]
async fn failures_beyond_the_limit_are_counted_and_reported() {
    let (write_behind, _store) = write_behind();
    let (owner, endpoint) = (Owner::Builder(BuilderId::generate()), EndpointId::generate());
    for _ in 0..MAX_FAILED + 7 {
        write_behind.failed(failure(&owner, &endpoint));
    }
    write_behind.write().await.unwrap();
    let report = write_behind.parts.sales.report(&owner, NOW, ReportDetail::Sums).await.unwrap();
    assert_eq!(report.totals.failed_calls, MAX_FAILED as u64 + 7);
    let query = EventQuery { limit: 100_000, ..EventQuery::default() };
    let (mut reported, mut query) = (vec![], query);
    loop {
        let page = write_behind.parts.events.list(&owner, &query).await.unwrap();
        reported.extend(page.events);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(reported.len(), MAX_FAILED + 1);
    assert_eq!(reported.iter().filter(|event| event.data["dropped"] == 7).count(), 1);
}

#[tokio::test]
async fn durable_rows_are_written_before_the_answer_or_refused() {
    let (write_behind, store) = write_behind();
    let event = write_behind.parts.events.event(Kind::CallFailed, None, json!({}));
    let rows = Events::stored(&Owner::Platform, &event);
    store.fail_nth(1, Fault::Before);
    assert!(matches!(write_behind.durably(rows.clone()).await, Err(StoreError::Away(_))));
    write_behind.durably(rows).await.unwrap();
    let query = EventQuery { limit: 10, ..EventQuery::default() };
    assert_eq!(write_behind.parts.events.list(&Owner::Platform, &query).await.unwrap().events, [event]);
}

#[tokio::test]
async fn records_of_calls_wait_up_to_forty_thousand() {
    let (write_behind, _store) = write_behind();
    let record = record();
    let endpoint = EndpointId::generate();
    for _ in 0..40_001 {
        write_behind.ended(&endpoint, record.clone());
    }
    let mut waiting = write_behind.waiting.lock();
    let (mut calls, mut left_out) = (0, 0);
    while !waiting.is_empty() {
        let taken = waiting.take();
        calls += taken.calls.len();
        left_out += taken.calls_left_out.values().sum::<u64>();
    }
    assert_eq!((calls, left_out), (40_000, 1));
}

#[tokio::test]
async fn receipts_that_are_stored_take_nothing_of_their_owners_share() {
    let (write_behind, _store) = write_behind();
    let [first, second] = [(); 2].map(|()| Owner::Builder(BuilderId::generate()));
    let takes = |owner: &Owner, n| write_behind.succeeded(ReceiptContext { owner: owner.clone(), ..free(n) }).now_or_never().is_some();
    assert!((0..MAX_WAITING).all(|n| takes(&first, n)));
    {
        let mut waiting = write_behind.waiting.lock();
        while !waiting.is_empty() {
            let taken = waiting.take();
            waiting.written(&taken.receipts);
        }
        assert_eq!(waiting.receipts.len(), 0);
    }
    assert!((0..MAX_WAITING).all(|n| takes(&second, n)));
    assert!(takes(&first, 0) && !takes(&second, 0));
}

#[tokio::test]
async fn flood_of_one_owner_costs_another_no_receipt_event_or_record() {
    let (write_behind, _store) = write_behind();
    let [greedy, other] = [(); 2].map(|()| Owner::Builder(BuilderId::generate()));
    let [flood, own] = [(); 2].map(|()| EndpointId::generate());
    let of = |owner: &Owner, n| ReceiptContext { owner: owner.clone(), ..free(n) };
    for n in 0..MAX_WAITING {
        write_behind.succeeded(of(&greedy, n)).await.unwrap();
    }
    for _ in 0..2 * MAX_WAITING + 100 {
        write_behind.ended(&flood, record());
        write_behind.failed(failure(&greedy, &flood));
    }
    for n in 0..200 {
        // At once, although the other has filled the queue.
        write_behind.succeeded(of(&other, n)).now_or_never().expect("it waits for nothing").unwrap();
        write_behind.ended(&own, record());
        write_behind.failed(failure(&other, &own));
    }
    assert!(write_behind.succeeded(of(&greedy, MAX_WAITING)).now_or_never().is_none());
    let mut waiting = write_behind.waiting.lock();
    let (mut calls, mut left_out, mut events, mut dropped) = (0, HashMap::new(), 0, HashMap::new());
    while !waiting.is_empty() {
        let taken = waiting.take();
        calls += taken.calls.iter().filter(|(endpoint, _)| *endpoint == own).count();
        events += taken.events.iter().filter(|(owner, event)| *owner == other && event.kind == Kind::CallFailed).count();
        left_out.extend(taken.calls_left_out);
        dropped.extend(taken.dropped);
    }
    assert_eq!((calls, left_out), (200, HashMap::from([(flood, 300)])));
    assert_eq!((events, dropped), (200, HashMap::from([(greedy, 20_300)])));
}
