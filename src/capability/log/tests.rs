mod shares;
mod writing;

use std::time::Duration;

use serde_json::json;
use tollhouse_base::plural::plural;
use tollhouse_event::feed::FeedItem;
use tollhouse_protocol::{Limits, LogLine};
use tollhouse_store::{Durability, memory::MemoryStore, sweep_cursor::TURN, test_wrappers::CountingStore};

use super::{position::LOGS, *};
use crate::{
    CallGrants, Grant, Redactor,
    secret::{Secret, Visibility},
    testing::StuckStore,
};

const DAY_MS: u64 = 24 * 3_600 * 1_000;

fn logs(settings: LogSettings) -> (Logs, Clock) {
    let clock = Clock::fixed(Timestamp(100 * DAY_MS));
    (Logs::start(Arc::new(MemoryStore::new()), clock.clone(), settings), clock)
}

fn line(logs: &Logs, level: LogLevel, message: &str, call: &CallId) -> LogEntry {
    LogEntry::new(logs.now(), level, message, json!({}), call, &Redactor::new([]))
}

async fn messages(logs: &Logs, endpoint: &EndpointId, query: LogQuery) -> Vec<String> {
    let (mut query, mut messages) = (LogQuery { limit: query.limit.max(7), ..query }, Vec::new());
    loop {
        let page = logs.list(endpoint, &query).await.unwrap().unwrap();
        assert!(page.entries.len() <= query.limit);
        messages.extend(page.entries.into_iter().map(|entry| entry.message));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return messages;
        }
    }
}

#[tokio::test]
async fn lines_come_back_newest_first_by_time_level_and_call() {
    let (logs, clock) = logs(LogSettings::default());
    let (endpoint, other, first, second) = (EndpointId::generate(), EndpointId::generate(), CallId::generate(), CallId::generate());
    for n in 0..20_u64 {
        clock.set(Timestamp(100 * DAY_MS + n / 2));
        let (level, call) = if n % 5 == 0 { (LogLevel::Error, &first) } else { (LogLevel::Info, &second) };
        logs.write(&Owner::Platform, &endpoint, line(&logs, level, &n.to_string(), call));
        logs.write(&Owner::Platform, &other, line(&logs, LogLevel::Warn, "not ours", call));
    }
    logs.flush().await;
    let all: Vec<_> = (0..20).rev().map(|n| n.to_string()).collect();
    assert_eq!(messages(&logs, &endpoint, LogQuery::default()).await, all);
    assert_eq!(
        messages(&logs, &endpoint, LogQuery { since: Some(Timestamp(100 * DAY_MS + 8)), ..LogQuery::default() }).await,
        ["19", "18", "17", "16"]
    );
    assert_eq!(messages(&logs, &endpoint, LogQuery { level: Some(LogLevel::Warn), ..LogQuery::default() }).await, ["15", "10", "5", "0"]);
    assert_eq!(messages(&logs, &endpoint, LogQuery { call: Some(first), ..LogQuery::default() }).await, ["15", "10", "5", "0"]);
    let page = logs.list(&endpoint, &LogQuery { limit: 1, ..LogQuery::default() }).await.unwrap().unwrap();
    assert_eq!(
        serde_json::to_value(&page.entries[0]).unwrap(),
        json!({"at": "1970-04-11T00:00:00.009Z", "level": "info", "message": "19", "fields": {}, "callId": second})
    );
    for cursor in ["", "%", "AAAA"] {
        let query = LogQuery { limit: 1, cursor: Some(cursor.into()), ..LogQuery::default() };
        assert!(logs.list(&endpoint, &query).await.unwrap().is_none(), "{cursor}");
    }
}

#[tokio::test]
async fn a_log_is_bounded_by_count_and_age() {
    let (logs, clock) = logs(LogSettings { lines: 600, age_ms: DAY_MS, ..LogSettings::default() });
    let (endpoint, call) = (EndpointId::generate(), CallId::generate());
    for n in 0..2_000_u64 {
        logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Info, &n.to_string(), &call));
        if n % 200 == 199 {
            logs.flush().await;
        }
    }
    let query = || LogQuery { limit: 5_000, ..LogQuery::default() };
    let retained = messages(&logs, &endpoint, query()).await;
    assert!((600..1_100).contains(&retained.len()), "{}", retained.len());
    assert_eq!(retained[0], "1999");
    clock.set(Timestamp(100 * DAY_MS + DAY_MS + 1));
    assert!(messages(&logs, &endpoint, query()).await.is_empty());
    for _ in 0..600 {
        logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Info, "new", &call));
    }
    logs.flush().await;
    let stored = LOGS.count(&*logs.store, &LOGS.under(&CountedText(endpoint.clone())), 10_000).await.unwrap();
    assert_eq!(stored, 600);
    logs.forget(&endpoint).await.unwrap();
    assert!(messages(&logs, &endpoint, query()).await.is_empty());
}

#[tokio::test]
async fn lines_that_have_grown_too_old_go_also_where_nobody_writes_any_more() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(100 * DAY_MS)));
    let logs = Logs::start(store.clone(), clock.clone(), LogSettings { age_ms: DAY_MS, ..LogSettings::default() });
    let (silent, other, call) = (EndpointId::generate(), EndpointId::generate(), CallId::generate());
    for endpoint in [&silent, &other] {
        logs.write(&Owner::Platform, endpoint, line(&logs, LogLevel::Info, "old", &call));
    }
    logs.flush().await;
    clock.set(Timestamp(101 * DAY_MS + 1));
    logs.write(&Owner::Platform, &other, line(&logs, LogLevel::Info, "new", &call));
    logs.flush().await;
    let stored = async |endpoint: &EndpointId| LOGS.count(&*store, &LOGS.under(&CountedText(endpoint.clone())), 10).await.unwrap();
    logs.sweep().await.unwrap();
    assert_eq!((stored(&silent).await, stored(&other).await), (0, 1));
}

#[tokio::test]
async fn a_sweep_reads_no_more_than_a_turn_however_many_endpoints_have_nothing_to_remove() {
    let (store, clock) = (CountingStore::of(MemoryStore::new()), Clock::fixed(Timestamp(100 * DAY_MS)));
    let logs = Logs::start(Arc::clone(&store) as _, clock.clone(), LogSettings { age_ms: DAY_MS, ..LogSettings::default() });
    let mut endpoints: Vec<_> = (0..TURN + 20).map(|_| EndpointId::generate()).collect();
    endpoints.sort();
    let put = async |endpoint: &EndpointId| {
        let line = line(&logs, LogLevel::Info, "a line", &CallId::generate());
        let put = LOGS.put(&(CountedText(endpoint.clone()), clock.now(), 0), &line);
        put.commit(&*store, Durability::Buffered).await.unwrap();
    };
    put(endpoints.last().unwrap()).await;
    clock.set(Timestamp(101 * DAY_MS + 1));
    for endpoint in &endpoints {
        put(endpoint).await;
    }
    store.rows();
    logs.sweep().await.unwrap();
    assert!(store.rows() <= TURN + 1);
    assert_eq!(LOGS.count(&*store, &LOGS.all(), usize::MAX).await.unwrap(), endpoints.len() + 1, "old lines are on later pages");
    logs.sweep().await.unwrap();
    assert_eq!(LOGS.count(&*store, &LOGS.all(), usize::MAX).await.unwrap(), endpoints.len());
}

#[tokio::test]
async fn a_search_that_finds_little_says_where_to_continue() {
    let (logs, clock) = logs(LogSettings { lines: 10_000, ..LogSettings::default() });
    let (endpoint, call) = (EndpointId::generate(), CallId::generate());
    logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Error, "wanted", &call));
    clock.set(Timestamp(100 * DAY_MS + 1));
    for _ in 0..5_000 {
        logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Info, "not wanted", &call));
    }
    logs.flush().await;
    let mut query = LogQuery { limit: 10, level: Some(LogLevel::Error), ..LogQuery::default() };
    let page = logs.list(&endpoint, &query).await.unwrap().unwrap();
    assert!(page.entries.is_empty() && page.next_cursor.is_some());
    query.cursor = page.next_cursor;
    let page = logs.list(&endpoint, &query).await.unwrap().unwrap();
    assert_eq!((page.entries.len(), page.next_cursor), (1, None));
}

#[tokio::test]
async fn a_stuck_store_costs_lines_and_no_time() {
    let store = StuckStore::new();
    let logs = Logs::start(store.clone(), Clock::fixed(Timestamp(DAY_MS)), LogSettings { waiting: 16 << 10, ..LogSettings::default() });
    let (endpoint, call) = (EndpointId::generate(), CallId::generate());
    let started = std::time::Instant::now();
    for n in 0..10_000 {
        logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Info, &n.to_string(), &call));
    }
    // Each line that waited for the store would take at least its timeout.
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(logs.dropped() >= 9_000, "{}", logs.dropped());
    store.permits.add_permits(100);
    logs.flush().await;
    logs.flush().await;
    let stored = messages(&logs, &endpoint, LogQuery { limit: 500, ..LogQuery::default() }).await;
    let expected = format!("dropped {} because the log could not keep up", plural(logs.dropped(), "log line"));
    assert!(stored.contains(&expected) && stored.contains(&"0".to_owned()), "{stored:?}");
}

#[tokio::test]
async fn followers_get_lines_as_they_come() {
    let (logs, _) = logs(LogSettings::default());
    let (endpoint, call) = (EndpointId::generate(), CallId::generate());
    logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Info, "before", &call));
    let mut following = logs.follow(&endpoint).unwrap();
    logs.write(&Owner::Platform, &EndpointId::generate(), line(&logs, LogLevel::Info, "another's", &call));
    logs.write(&Owner::Platform, &endpoint, line(&logs, LogLevel::Info, "after", &call));
    let Some(FeedItem::Entry(followed)) = following.next().await else { panic!("nothing came") };
    assert_eq!(followed.entry.message, "after");
    logs.flush().await;
    let stored = logs.after(&endpoint, &LogPosition::start_of(Timestamp(0)), 10).await.unwrap();
    assert_eq!(stored.iter().map(|line| line.entry.message.as_str()).collect::<Vec<_>>(), ["before", "after"]);
    assert_eq!(stored[1].position, followed.position);
    let later = logs.after(&endpoint, &stored[0].position, 10).await.unwrap();
    assert_eq!((later.len(), &later[0].position), (1, &followed.position));
}

#[test]
fn a_line_of_a_handler_is_cleaned_and_redacted() {
    let secrets = vec![Secret::new("KEY", "super-secret-value", Visibility::Env)];
    let limits = Limits { log_line_bytes: 40, ..Limits::default() };
    let call = CallGrants {
        owner: Owner::Platform,
        endpoint_id: EndpointId::generate(),
        call_id: CallId::generate(),
        by_owner: false,
        grant: Arc::new(Grant::default()),
        secrets,
        limits,
    };
    let redactor = Redactor::new(["super-secret-value"]);
    let entry = |message: &str, fields: &str| {
        let line = LogLine { level: LogLevel::Warn, message: message.into(), fields: fields.into() };
        LogEntry::of_handler(Timestamp(0), &line, &call, &redactor)
    };
    assert_eq!(entry("\u{1b}[31msuper-secret-value\u{1b}[0m\nnext", "").message, "[redacted] next");
    // Hidden characters within a secret do not prevent its redaction.
    assert_eq!(entry("super-\u{202e}secret\u{0}-value", "").message, "[redacted]");
    assert_eq!(entry("nineteen characters super-secret-va", "").message, "nineteen characters super-secret-va");
    assert_eq!(entry("twenty-four characters: super-secret", "").message, "twenty-four characters: [redacted]");
    let fields = entry("m", r#"{"a\u0007":"super-secret-value","n":[1,{"b":"\u001b[0mx"}]}"#).fields;
    assert_eq!(json!(fields), json!({"a": "[redacted]", "n": [1, {"b": "x"}]}));
    let shortened = entry("m", r#"{"cut":"{\"key\":\"super-secret-va"}"#).fields;
    assert_eq!(json!(shortened), json!({"cut": "{\"key\":\"[redacted]"}));
    assert_eq!(json!(entry("m", "[1]").fields), json!({"value": [1]}));
    for broken in ["{broken", r#"{"a":"\ud800"#, r#"{"a":"\"#, r#"{"a":"\ud80é"#] {
        assert_eq!(json!(entry("m", broken).fields), json!({"unreadable": true}), "{broken}");
    }
    let halves = entry("m", r#"{"\udfff":1,"a":["\ud800x","\\ud800","\n\udabc😀"]}"#).fields;
    assert_eq!(json!(halves), json!({"\u{fffd}": 1, "a": ["\u{fffd}x", "\\ud800", " \u{fffd}😀"]}));
    assert_eq!(json!(entry("m", "").fields), json!({}));
}
