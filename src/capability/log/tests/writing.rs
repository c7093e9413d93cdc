//! Tests of when lines are written and which are kept, with a clock that stands still while there is work.

use std::{num::NonZeroU32, ops::Range};

use tokio::time::{Instant, sleep};
use tollhouse_store::faulty::{Fault, FaultyStore};

use super::*;
use crate::testing::settled;

type Faulty = Arc<FaultyStore<MemoryStore>>;

fn start(store: &Faulty, settings: LogSettings) -> Logs {
    Logs::start(store.clone(), Clock::fixed(Timestamp(100 * DAY_MS)), settings)
}

fn write(logs: &Logs, endpoint: &EndpointId, lines: Range<usize>) {
    let call = CallId::generate();
    for number in lines {
        logs.write(&Owner::Platform, endpoint, line(logs, LogLevel::Info, &format!("{number:04}"), &call));
    }
}

/// Returns the stored size of each line, in bytes.
async fn stored(store: &Faulty, endpoint: &EndpointId) -> Vec<usize> {
    let rows = LOGS.unread(&**store, &LOGS.under(&CountedText(endpoint.clone())), 10_000, Direction::Forward).await.unwrap();
    rows.iter().map(tollhouse_store::RawRow::bytes).collect()
}

fn store_and_endpoint() -> (Faulty, EndpointId) {
    (Arc::new(FaultyStore::new(MemoryStore::new())), EndpointId::generate())
}

#[tokio::test(start_paused = true)]
async fn lines_wait_for_company_unless_somebody_waits_for_them() {
    let (store, endpoint) = store_and_endpoint();
    let logs = start(&store, LogSettings::default());
    settled().await;
    write(&logs, &endpoint, 0..1);
    settled().await;
    assert_eq!(stored(&store, &endpoint).await.len(), 0);
    write(&logs, &endpoint, 1..2);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(stored(&store, &endpoint).await.len(), 2);
    let started = Instant::now();
    write(&logs, &endpoint, 2..3);
    logs.flush().await;
    assert_eq!((stored(&store, &endpoint).await.len(), started.elapsed()), (3, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn logs_that_are_dropped_are_written_at_once_and_leave_no_task() {
    let (store, endpoint) = store_and_endpoint();
    let logs = start(&store, LogSettings::default());
    settled().await;
    let waiting = Arc::downgrade(&logs.waiting);
    write(&logs, &endpoint, 0..1);
    drop(logs);
    settled().await;
    assert_eq!((stored(&store, &endpoint).await.len(), waiting.strong_count()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_log_learns_of_lines_that_were_dropped_once_a_second_or_when_somebody_waits() {
    let (store, endpoint) = store_and_endpoint();
    let logs = start(&store, LogSettings { rate: NonZeroU32::MIN, ..LogSettings::default() });
    let describe = async || stored(&store, &endpoint).await.len();
    write(&logs, &endpoint, 0..1);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(describe().await, 1);
    write(&logs, &endpoint, 1..3);
    sleep(Duration::from_millis(800)).await;
    assert_eq!(describe().await, 1);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(describe().await, 2, "although nothing came since");
    write(&logs, &endpoint, 3..7);
    logs.flush().await;
    let describe = messages(&logs, &endpoint, LogQuery::default()).await;
    let mut counts: Vec<_> = describe.iter().map(|describe| describe.split(' ').nth(1).unwrap()).collect();
    counts.sort_unstable();
    assert_eq!((counts, logs.dropped()), (vec!["1", "2", "4"], 7));
}

#[tokio::test]
async fn lines_that_the_store_did_not_take_are_counted() {
    let (store, endpoint) = store_and_endpoint();
    let logs = start(&store, LogSettings::default());
    store.fail_all(Fault::Before);
    write(&logs, &endpoint, 0..3);
    logs.flush().await;
    assert_eq!(logs.dropped(), 3);
    store.heal();
    write(&logs, &endpoint, 3..4);
    logs.flush().await;
    assert_eq!((messages(&logs, &endpoint, LogQuery::default()).await, logs.dropped()), (vec!["0003".to_owned()], 3));
}

#[tokio::test]
async fn trimming_removes_only_the_excess() {
    let (store, endpoint) = store_and_endpoint();
    let retained = async |settings, lines| {
        let logs = start(&store, settings);
        write(&logs, &endpoint, lines);
        logs.flush().await;
        messages(&logs, &endpoint, LogQuery::default()).await
    };
    let by_count = retained(LogSettings { lines: 10, ..LogSettings::default() }, 0..200).await;
    assert_eq!(by_count, (190..200).rev().map(|number| format!("{number:04}")).collect::<Vec<_>>());
    let sizes = stored(&store, &endpoint).await;
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    let by_bytes = retained(LogSettings { bytes: 5 * sizes[0] as u64, ..LogSettings::default() }, 200..201).await;
    assert_eq!(by_bytes.len(), 5);
}
