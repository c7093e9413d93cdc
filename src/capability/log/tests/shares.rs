//! Logs of several owners: only an owner that writes too much loses lines.

use std::num::NonZeroU32;

use tollhouse_base::id::BuilderId;

use super::*;
use crate::testing::settled;

/// A rate that these tests never reach.
const ANY: NonZeroU32 = NonZeroU32::new(64 << 20).unwrap();

fn start(store: &Arc<StuckStore>, settings: LogSettings) -> Logs {
    Logs::start(store.clone(), Clock::fixed(Timestamp(100 * DAY_MS)), settings)
}

fn builder() -> Owner {
    Owner::Builder(BuilderId::generate())
}

#[tokio::test]
async fn endpoint_that_writes_at_full_rate_pushes_out_no_line_of_another() {
    let (store, flood, other, call) = (StuckStore::new(), EndpointId::generate(), EndpointId::generate(), CallId::generate());
    let logs = start(&store, LogSettings { rate: ANY, waiting: 1 << 20, ..LogSettings::default() });
    let [greedy, builder] = [(); 2].map(|()| builder());
    let long = "x".repeat(1_000);
    let before = logs.dropped();
    for n in 0..200 {
        for _ in 0..50 {
            logs.write(&greedy, &flood, line(&logs, LogLevel::Info, &long, &call));
        }
        logs.write(&builder, &other, line(&logs, LogLevel::Info, &n.to_string(), &call));
        settled().await;
    }
    let dropped = logs.dropped() - before;
    assert!(dropped > 8_000, "{dropped}");
    store.permits.add_permits(1_000);
    logs.flush().await;
    logs.flush().await;
    let stored = messages(&logs, &other, LogQuery { limit: 500, ..LogQuery::default() }).await;
    assert_eq!(stored, (0..200).rev().map(|n| n.to_string()).collect::<Vec<_>>());
    let answer = messages(&logs, &flood, LogQuery { level: Some(LogLevel::Warn), limit: 500, ..LogQuery::default() }).await;
    let counts = answer.iter().filter_map(|answer| answer.split(' ').nth(1)?.parse::<u64>().ok());
    assert_eq!(counts.sum::<u64>(), dropped, "{answer:?}");
}

#[tokio::test]
async fn log_takes_its_rate_and_an_owner_four_times_that() {
    let (store, call) = (StuckStore::new(), CallId::generate());
    store.permits.add_permits(1_000);
    let rate = NonZeroU32::new(1_000).unwrap();
    let logs = start(&store, LogSettings { rate, ..LogSettings::default() });
    let endpoints: Vec<_> = (0..6).map(|_| EndpointId::generate()).collect();
    let [greedy, other] = [(); 2].map(|()| builder());
    let long = "x".repeat(3_000);
    // Four lines exceed a burst of sixteen seconds at 1,000 bytes per second, however long this takes.
    for endpoint in &endpoints {
        for _ in 0..6 {
            logs.write(&greedy, endpoint, line(&logs, LogLevel::Info, &long, &call));
        }
    }
    let own = EndpointId::generate();
    logs.write(&other, &own, line(&logs, LogLevel::Info, "mine", &call));
    logs.flush().await;
    let all = |level| LogQuery { level, limit: 100, ..LogQuery::default() };
    let mut stored = vec![];
    for endpoint in &endpoints {
        stored.push(messages(&logs, endpoint, all(None)).await.iter().filter(|message| **message == long).count());
    }
    assert!(stored.iter().all(|lines| *lines < 6) && stored[0] >= 4 && stored.iter().sum::<usize>() < 24, "{stored:?}");
    assert_eq!(messages(&logs, &own, all(None)).await, ["mine"]);
    let answer = messages(&logs, &endpoints[5], all(Some(LogLevel::Warn))).await;
    assert!(answer[0].ends_with(" because a log accepts only 1000 bytes per second"), "{answer:?}");
}

#[tokio::test]
async fn a_log_is_trimmed_to_its_bytes() {
    let (store, endpoint, call) = (StuckStore::new(), EndpointId::generate(), CallId::generate());
    store.permits.add_permits(10_000);
    let logs = start(&store, LogSettings { rate: ANY, bytes: 100_000, ..LogSettings::default() });
    let long = "x".repeat(1_000);
    for n in 0..500 {
        logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Info, &format!("{n} {long}"), &call));
        if n % 10 == 0 {
            logs.flush().await;
        }
    }
    logs.flush().await;
    let rows = LOGS.unread(&*store, &LOGS.under(&CountedText(endpoint.clone())), 10_000, Direction::Forward).await.unwrap();
    let bytes: usize = rows.iter().map(tollhouse_store::RawRow::bytes).sum();
    // Up to an eighth and a batch above the limit may exist.
    assert!((80_000..130_000).contains(&bytes), "{bytes}");
    let stored = messages(&logs, &endpoint, LogQuery { limit: 500, ..LogQuery::default() }).await;
    assert!(stored[0].starts_with("499 ") && stored.len() == rows.len(), "the newest lines stay");
}
