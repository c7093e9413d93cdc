use std::collections::BTreeMap;

use tollhouse_base::id::CallId;
use tollhouse_money::receipt;
use tollhouse_store::{
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    sweep_cursor::TURN,
    test_wrappers::CountingStore,
};
use tollhouse_tool::MicroUsd;

use super::{stats::COUNTED_AT_ONCE, *};
use crate::history::CallOutcome;

/// The start of an hour and of a day.
const NOW: Timestamp = Timestamp(1_800_057_600_000);
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

struct Fixture {
    store: Arc<FaultyStore<MemoryStore>>,
    clock: Clock,
    metrics: Arc<Metrics>,
    endpoint: EndpointId,
}

impl Metrics {
    /// Counts everything stored at once.
    async fn count(&self) -> Result<(), StoreError> {
        let mut counting = CALL_METRICS.all();
        while !self.count_some(&mut counting).await? {}
        Ok(())
    }
}

impl Fixture {
    fn new() -> Self {
        let (store, clock) = (Arc::new(FaultyStore::new(MemoryStore::new())), Clock::fixed(NOW));
        let metrics = Metrics::new(Arc::clone(&store) as _, clock.clone(), MetricsSettings::default());
        Self { store, clock, metrics, endpoint: EndpointId::generate() }
    }

    /// Returns another process on the same store, or this one after a restart.
    fn other(&self) -> Self {
        let metrics = Metrics::new(Arc::clone(&self.store) as _, self.clock.clone(), MetricsSettings::default());
        Self { store: Arc::clone(&self.store), clock: self.clock.clone(), metrics, endpoint: self.endpoint.clone() }
    }

    /// Adds a call that ends at `at` after `duration_ms`. It is charged if it has a price, and failed if it has a code.
    fn call(&self, at: Timestamp, duration_ms: f64, price: u64, code: Option<&str>) {
        self.clock.set(at);
        self.metrics.add(&self.endpoint, &Self::record(at, duration_ms, price, code));
    }

    fn record(at: Timestamp, duration_ms: f64, price: u64, code: Option<&str>) -> CallRecord {
        CallRecord {
            call_id: CallId::generate(),
            at,
            kind: tollhouse_api::CallKind::Request,
            schedule: None,
            outcome: if code.is_some() { CallOutcome::Failed } else { CallOutcome::Succeeded },
            code: code.map(str::to_owned),
            error: None,
            thrown_at: vec![],
            charged: if price > 0 { Charge::Yes } else { Charge::No },
            price_usd: MicroUsd(price),
            owner: false,
            payment: receipt::PaymentKind::Free,
            duration_ms,
            cpu_ms: None,
            tier: None,
            cold: None,
            input_bytes: 2,
            receipt_id: None,
            version: "v".to_owned(),
            method: Some("POST".to_owned()),
            status: None,
        }
    }

    async fn series(&self, back: u64, step: SeriesStep) -> tollhouse_api::Metrics {
        let request = self.metrics.query(back, None, step).unwrap();
        self.metrics.series(&self.endpoint, request).await.unwrap()
    }

    async fn calls(&self, back: u64, step: SeriesStep) -> Vec<u64> {
        self.series(back, step).await.buckets.iter().map(|line| line.calls).collect()
    }

    /// Returns the number of rows of the tool. Each has a counterpart in the sum of all.
    async fn rows(&self) -> usize {
        let all = CALL_METRICS.count(&*self.store, &CALL_METRICS.all(), 100_000).await.unwrap();
        assert_eq!(all % 2, 0);
        all / 2
    }
}

#[tokio::test]
async fn buckets_are_aligned_and_have_no_gaps() {
    let fixture = Fixture::new();
    for at in [1, 59_999, 60_000, 6 * MINUTE, 61 * MINUTE] {
        fixture.call(NOW.plus_millis(at), 1.0, 0, None);
    }
    let series = fixture.series(61 * MINUTE, SeriesStep::Minute).await;
    assert_eq!((series.since, &*series.step, series.buckets.len()), (NOW, "1m", 62));
    assert_eq!(fixture.calls(61 * MINUTE, SeriesStep::Minute).await[..8], [2, 1, 0, 0, 0, 0, 1, 0]);
    assert_eq!(fixture.calls(61 * MINUTE, SeriesStep::FiveMinutes).await, [3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(fixture.calls(61 * MINUTE, SeriesStep::Hour).await, [4, 1]);
    assert_eq!(fixture.calls(DAY, SeriesStep::Day).await, [0, 5]);
    // A period that begins within a bucket includes all of it.
    assert_eq!(fixture.calls(61 * MINUTE - 30_000, SeriesStep::Minute).await.len(), 62);
    // One that ends within a bucket includes what was stored of it before.
    for (until, calls) in
        [(NOW.plus_millis(HOUR), vec![4]), (NOW.plus_millis(HOUR + 1), vec![4, 1]), (NOW.plus_millis(DAY), vec![4, 1]), (NOW, vec![])]
    {
        let request = fixture.metrics.query(61 * MINUTE, Some(until), SeriesStep::Hour).unwrap();
        let series = fixture.metrics.series(&fixture.endpoint, request).await.unwrap();
        assert_eq!(series.buckets.iter().map(|line| line.calls).collect::<Vec<_>>(), calls, "{until}");
    }
}

#[tokio::test]
async fn the_days_of_an_endpoint_are_thirty_with_today_and_nothing_is_written_for_them() {
    let fixture = Fixture::new();
    for (days, calls) in [(30, 1), (29, 2), (1, 4), (0, 5)] {
        (0..calls).for_each(|_| fixture.call(NOW.plus_millis((30 - days) * DAY), 1.0, 0, None));
        fixture.metrics.write().await.unwrap();
    }
    fixture.call(NOW.plus_millis(30 * DAY), 1.0, 0, None);
    let days: Vec<_> = fixture.metrics.by_day(&fixture.endpoint).await.unwrap().buckets.iter().map(|line| line.calls).collect();
    assert_eq!((days.len(), days[0], days[28], days[29]), (30, 2, 4, 5));
}

#[tokio::test]
async fn a_call_of_this_very_moment_is_in_a_series_that_continues() {
    let fixture = Fixture::new();
    fixture.call(NOW, 1.0, 0, None);
    for until in [None, Some(NOW.plus_millis(DAY))] {
        let request = fixture.metrics.query(0, until, SeriesStep::Hour).unwrap();
        let series = fixture.metrics.series(&fixture.endpoint, request).await.unwrap();
        assert_eq!(series.buckets.iter().map(|line| line.calls).collect::<Vec<_>>(), [1], "{until:?}");
    }
}

#[tokio::test]
async fn calls_of_one_minute_are_one_row_and_those_of_an_hour_another() {
    let fixture = Fixture::new();
    for (at, rows) in [(0, 2), (59_999, 2), (MINUTE, 3), (HOUR - 1, 4), (HOUR, 6)] {
        fixture.call(NOW.plus_millis(at), 1.0, 0, None);
        fixture.metrics.write().await.unwrap();
        assert_eq!(fixture.rows().await, rows, "after {at} ms");
    }
}

#[tokio::test]
async fn money_codes_and_lengths_are_added_up() {
    let fixture = Fixture::new();
    for n in 1..=100 {
        fixture.call(NOW, f64::from(n), 0, None);
    }
    fixture.call(NOW, 50.0, 1_500, None);
    fixture.call(NOW, 50.0, 2_500, None);
    fixture.call(NOW, 50.0, 0, Some("handler_failed"));
    fixture.call(NOW, 50.0, 0, Some("handler_failed"));
    fixture.call(NOW, 50.0, 0, Some("busy"));
    let line = fixture.series(0, SeriesStep::Hour).await.buckets.remove(0);
    assert_eq!((line.calls, line.paid, line.gross_usd), (105, 2, MicroUsd(4_000)));
    assert_eq!(line.failed, BTreeMap::from([("busy".to_owned(), 1), ("handler_failed".to_owned(), 2)]));
    let (p50, p95) = (line.p50_ms.unwrap(), line.p95_ms.unwrap());
    assert!((p50 / 50.0 - 1.0).abs() < 0.1 && (p95 / 95.0 - 1.0).abs() < 0.1, "{p50}, {p95}");
    assert_eq!(serde_json::to_value(&line).unwrap()["at"], "2027-01-16T00:00:00.000Z");
}

#[tokio::test]
async fn calls_of_all_endpoints_are_one_sum_also_once_one_is_gone() {
    let (fixture, mut other) = (Fixture::new(), Fixture::new().other());
    (other.endpoint, other.metrics) = (EndpointId::generate(), Arc::clone(&fixture.metrics));
    fixture.call(NOW, 1.0, 1_500, None);
    other.call(NOW, 1.0, 0, Some("busy"));
    let of_all =
        async || fixture.metrics.series_of_all(fixture.metrics.query(0, None, SeriesStep::Hour).unwrap()).await.unwrap().buckets.remove(0);
    let sum = of_all().await;
    assert_eq!((sum.calls, sum.paid, sum.gross_usd, sum.failed["busy"]), (2, 1, MicroUsd(1_500), 1));
    assert_eq!((fixture.calls(0, SeriesStep::Hour).await, other.calls(0, SeriesStep::Hour).await), (vec![1], vec![1]));
    let removed = CALL_METRICS.under(&TerminatedText(other.endpoint.clone()));
    CALL_METRICS.clear(&*fixture.store, &removed, u64::MAX).await.unwrap();
    assert_eq!(of_all().await.calls, 2);
}

#[tokio::test]
async fn buckets_of_two_processes_are_summed_and_rewriting_one_changes_nothing() {
    let fixture = Fixture::new();
    let other = fixture.other();
    for faults in [vec![], vec![Fault::Before], vec![Fault::After], vec![Fault::Lost, Fault::After]] {
        for (n, fault) in (1..).zip(&faults) {
            fixture.store.fail_nth(n, *fault);
        }
        fixture.call(NOW, 1.0, 0, None);
        while fixture.metrics.write().await.is_err() {}
    }
    other.call(NOW, 1.0, 0, None);
    other.metrics.write().await.unwrap();
    assert_eq!(fixture.calls(0, SeriesStep::Minute).await, [5]);
    assert_eq!(fixture.other().calls(0, SeriesStep::Hour).await, [5]);
}

/// Full buckets wait while the store is unavailable, and nothing is held for tools that are no longer called.
#[tokio::test]
async fn nothing_is_lost_while_the_store_is_away_and_nothing_is_held_after() {
    let fixture = Fixture::new();
    fixture.store.fail_all(Fault::Before);
    for minute in 0..5 {
        fixture.call(NOW.plus_millis(minute * MINUTE), 1.0, 0, None);
        fixture.metrics.write().await.unwrap_err();
    }
    fixture.store.heal();
    assert_eq!(fixture.calls(4 * MINUTE, SeriesStep::Minute).await, [1; 5]);
    fixture.clock.set(NOW.plus_millis(HOUR));
    fixture.metrics.write().await.unwrap();
    let pending = fixture.metrics.pending.lock();
    assert_eq!((pending.open.len(), pending.full.len()), (0, 0));
}

#[tokio::test]
async fn old_buckets_go_those_of_minutes_first() {
    let fixture = Fixture::new();
    fixture.call(NOW, 1.0, 0, None);
    fixture.metrics.write().await.unwrap();
    for (later, remaining) in [(2 * DAY, 2), (2 * DAY + 1, 1), (90 * DAY, 1), (90 * DAY + 1, 0)] {
        fixture.clock.set(NOW.plus_millis(later));
        fixture.metrics.sweep().await.unwrap();
        assert_eq!(fixture.rows().await, remaining, "after {later} ms");
    }
}

#[tokio::test]
async fn a_sweep_reads_no_more_than_a_turn_however_many_endpoints_have_nothing_to_remove() {
    let (store, clock) = (CountingStore::of(MemoryStore::new()), Clock::fixed(NOW));
    let metrics = Metrics::new(Arc::clone(&store) as _, clock.clone(), MetricsSettings::default());
    for _ in 0..TURN {
        metrics.add(&EndpointId::generate(), &Fixture::record(NOW, 1.0, 0, None));
    }
    metrics.write().await.unwrap();
    clock.set(NOW.plus_millis(2 * DAY));
    store.rows();
    metrics.sweep().await.unwrap();
    assert!(store.rows() <= TURN + 1);
    let rows = async || CALL_METRICS.count(&*store, &CALL_METRICS.all(), usize::MAX).await.unwrap();
    assert_eq!(rows().await, 2 * (TURN + 1), "of each, and of all of them");
    clock.set(NOW.plus_millis(2 * DAY + 1));
    for _ in 0..3 {
        metrics.sweep().await.unwrap();
    }
    assert_eq!(rows().await, TURN + 1, "the hours stay");
}

#[tokio::test]
async fn paid_calls_weigh_less_from_hour_to_hour_and_are_forgotten() {
    let fixture = Fixture::new();
    let weight = || fixture.metrics.called().get(&fixture.endpoint).copied();
    fixture.call(NOW, 1.0, 0, None);
    fixture.call(NOW, 1.0, 0, Some("handler_failed"));
    for of_nobody in [
        CallRecord { owner: true, ..Fixture::record(NOW, 1.0, 1_500, None) },
        CallRecord { charged: Charge::Unknown, ..Fixture::record(NOW, 1.0, 1_500, None) },
        CallRecord { charged: Charge::No, ..Fixture::record(NOW, 1.0, 1_500, Some("handler_failed")) },
    ] {
        fixture.metrics.add(&fixture.endpoint, &of_nobody);
    }
    assert_eq!(weight(), None, "no money moved");
    fixture.call(NOW, 1.0, 1_500, None);
    fixture.call(NOW, 1.0, 2_500, None);
    assert_eq!(weight(), Some(2 * CALL));
    for _ in 0..24 {
        fixture.metrics.fade();
    }
    assert!((CALL * 8 / 10..CALL * 11 / 10).contains(&weight().unwrap()), "about half after a day: {:?}", weight());
    for _ in 0..10 * 24 {
        fixture.metrics.fade();
    }
    assert_eq!(weight(), None);
}

#[tokio::test]
async fn a_started_writer_writes_the_counts() {
    let fixture = Fixture::new();
    fixture.metrics.start();
    fixture.call(NOW, 1.0, 0, None);
    let written = async {
        while fixture.rows().await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), written).await.unwrap();
}

#[test]
fn an_unavailable_series_names_an_available_one() {
    let fixture = Fixture::new();
    let refused = |back, step: SeriesStep| fixture.metrics.query(back, None, step).unwrap_err().to_string();
    assert_eq!(refused(3 * DAY, SeriesStep::Minute), "`step=1m` reaches back only 36h; use a shorter `since`, or `step=1h`");
    assert_eq!(refused(40 * HOUR, SeriesStep::Minute), "`step=1m` reaches back only 36h; use a shorter `since`, or `step=5m`");
    assert_eq!(refused(91 * DAY, SeriesStep::Hour), "buckets are stored for 90d; use a shorter `since`");
    assert_eq!(refused(91 * DAY, SeriesStep::Minute), "buckets are stored for 90d; use a shorter `since`");
    // Two days of minutes are kept, and at most 2,200 buckets are shown.
    assert_eq!(refused(2 * DAY + 1, SeriesStep::Minute), "`step=1m` reaches back only 36h; use a shorter `since`, or `step=1h`");
    assert_eq!(refused(2 * DAY, SeriesStep::Minute), "`step=1m` reaches back only 36h; use a shorter `since`, or `step=5m`");
    assert_eq!(refused(90 * DAY, SeriesStep::Minute), "`step=1m` reaches back only 36h; use a shorter `since`, or `step=1h`");
    assert!(fixture.metrics.query(2_199 * MINUTE, None, SeriesStep::Minute).is_ok());
    assert!(fixture.metrics.query(2_199 * MINUTE + 1, None, SeriesStep::Minute).is_err());
    for (back, step) in
        [(36 * HOUR, SeriesStep::Minute), (2 * DAY, SeriesStep::FiveMinutes), (90 * DAY, SeriesStep::Hour), (90 * DAY, SeriesStep::Day)]
    {
        assert!(fixture.metrics.query(back, None, step).is_ok(), "{back} ms by {step:?}");
    }
    assert_eq!("2h".parse::<SeriesStep>().unwrap_err().to_string(), "`step` must be `1m`, `5m`, `1h` or `1d`");
}

#[tokio::test]
async fn figures_cover_30_days_and_all_processes() {
    let fixture = Fixture::new();
    let figures = |fixture: &Fixture| fixture.metrics.figures(&fixture.endpoint).map(|figures| figures.calls);
    assert_eq!(figures(&fixture), None, "before the first count");
    fixture.call(NOW, 10.0, 0, None);
    fixture.metrics.write().await.unwrap();
    fixture.metrics.count().await.unwrap();
    assert_eq!(figures(&fixture), Some(1), "counted once");
    for (at, length) in [(1, 10.0), (HOUR, 10.0), (HOUR + 1, 1_000.0)] {
        fixture.call(NOW.plus_millis(at), length, 0, Some("handler_failed"));
    }
    assert_eq!(figures(&fixture), Some(1), "metrics of stored rows");
    fixture.metrics.write().await.unwrap();
    fixture.metrics.write().await.unwrap();
    let median = fixture.metrics.figures(&fixture.endpoint).unwrap().median_ms.unwrap();
    assert!(figures(&fixture) == Some(4) && (median / 10.0 - 1.0).abs() < 0.05, "{median}");
    assert_eq!(fixture.metrics.figures_of_all().unwrap().calls, 4);
    assert_eq!(fixture.metrics.figures(&EndpointId::generate()), Some(RecentStats { calls: 0, median_ms: None }));

    let other = fixture.other();
    other.metrics.count().await.unwrap();
    assert_eq!(figures(&other), Some(4), "after a restart");
    other.call(NOW.plus_millis(2 * HOUR), 10.0, 0, None);
    other.metrics.write().await.unwrap();
    assert_eq!((figures(&fixture), figures(&other)), (Some(4), Some(5)));
    fixture.metrics.count().await.unwrap();
    assert_eq!(figures(&fixture), Some(5));

    fixture.clock.set(NOW.plus_millis(DAY + HOUR));
    fixture.metrics.count().await.unwrap();
    assert_eq!((figures(&fixture), fixture.metrics.figures_of_all().unwrap().calls), (Some(5), 3), "of all endpoints those of a day");
    fixture.clock.set(NOW.plus_millis(30 * DAY + HOUR));
    fixture.metrics.count().await.unwrap();
    assert_eq!(figures(&fixture), Some(3));
    fixture.clock.set(NOW.plus_millis(31 * DAY));
    fixture.metrics.count().await.unwrap();
    assert_eq!(figures(&fixture), Some(0));
}

#[tokio::test]
async fn figures_of_one_whose_rows_are_gone_go_with_the_next_count() {
    let fixture = Fixture::new();
    fixture.call(NOW, 10.0, 0, None);
    fixture.metrics.write().await.unwrap();
    fixture.metrics.count().await.unwrap();
    assert_eq!(fixture.metrics.figures(&fixture.endpoint).unwrap().calls, 1);
    fixture.clock.set(NOW.plus_millis(400 * DAY));
    while fixture.rows().await > 0 {
        fixture.metrics.sweep().await.unwrap();
    }
    fixture.metrics.count().await.unwrap();
    assert_eq!(fixture.metrics.figures(&fixture.endpoint).unwrap().calls, 0);
}

#[tokio::test]
async fn a_count_reads_so_many_rows_at_a_turn_and_has_figures_once_it_has_come_by_all() {
    let (store, clock) = (CountingStore::of(MemoryStore::new()), Clock::fixed(NOW));
    let metrics = Metrics::new(Arc::clone(&store) as _, clock.clone(), MetricsSettings::default());
    let mut endpoints: Vec<_> = (0..COUNTED_AT_ONCE / 2).map(|_| EndpointId::generate()).collect();
    endpoints.sort();
    endpoints.iter().for_each(|endpoint| metrics.add(endpoint, &Fixture::record(NOW, 1.0, 0, None)));
    metrics.write().await.unwrap();
    let (first, last) = (&endpoints[0], endpoints.last().unwrap());
    let mut counting = CALL_METRICS.all();
    store.rows();
    assert!(!metrics.count_some(&mut counting).await.unwrap());
    assert!(store.rows() <= COUNTED_AT_ONCE + 1);
    assert_eq!(metrics.figures(first), None, "the last one is neither counted nor reported");
    assert!(metrics.count_some(&mut counting).await.unwrap());
    assert!(store.rows() < 10);
    let calls = |endpoint: &EndpointId| metrics.figures(endpoint).unwrap().calls;
    assert_eq!((calls(first), calls(last)), (1, 1));

    // Calls between two turns count once, whether the count has passed or not.
    assert!(!metrics.count_some(&mut counting).await.unwrap());
    [first, last].into_iter().for_each(|endpoint| metrics.add(endpoint, &Fixture::record(NOW, 1.0, 0, None)));
    metrics.write().await.unwrap();
    assert_eq!((calls(first), calls(last)), (2, 2));
    assert!(metrics.count_some(&mut counting).await.unwrap());
    assert_eq!((calls(first), calls(last)), (2, 2));
}

#[tokio::test]
async fn figures_count_a_retried_write_once() {
    let fixture = Fixture::new();
    fixture.metrics.count().await.unwrap();
    fixture.call(NOW, 10.0, 0, None);
    fixture.store.fail_all(Fault::Before);
    fixture.metrics.write().await.unwrap_err();
    fixture.store.heal();
    fixture.call(NOW, 10.0, 0, None);
    fixture.metrics.write().await.unwrap();
    assert_eq!(fixture.metrics.figures(&fixture.endpoint).unwrap().calls, 2);
    fixture.metrics.count().await.unwrap();
    assert_eq!(fixture.metrics.figures(&fixture.endpoint).unwrap().calls, 2);
}
