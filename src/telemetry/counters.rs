//! Metrics that are counted where events happen, with atomics. Gauges are read on request and are not kept here.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tollhouse_base::clock::Timestamp;

use super::{
    histogram::Histogram,
    metric_table::{self, Metric},
    sample::Samples,
    stage::Stage,
};

/// Counters by labels from a fixed list of values.
#[derive(Debug)]
pub struct LabeledCounts<const L: usize, const N: usize> {
    metric: &'static Metric,
    values: [[&'static str; L]; N],
    counts: [AtomicU64; N],
}

impl<const L: usize, const N: usize> LabeledCounts<L, N> {
    const fn new(metric: &'static Metric, values: [[&'static str; L]; N]) -> Self {
        Self { metric, values, counts: [const { AtomicU64::new(0) }; N] }
    }

    /// Adds one to the counter with these labels. Ignores labels that are not in the list.
    pub fn count(&self, labels: [&str; L]) {
        self.add(labels, 1);
    }

    /// Adds `more` to the counter with these labels.
    pub fn add(&self, labels: [&str; L], more: u64) {
        let position = self.values.iter().position(|known| *known == labels);
        debug_assert!(position.is_some(), "{} has no {labels:?}", self.metric.name);
        if let Some(position) = position {
            self.counts[position].fetch_add(more, Relaxed);
        }
    }

    fn put(&self, samples: &mut Samples) {
        for (values, count) in self.values.iter().zip(&self.counts) {
            samples.put(self.metric, *values, count.load(Relaxed));
        }
    }
}

/// Counters by outcome: success, or a code from the table of errors with whose fault it is.
#[derive(Debug)]
pub struct ByOutcome {
    metric: &'static Metric,
    /// Outcomes in addition to the codes.
    own: &'static [(&'static str, &'static str)],
    /// Sorted by outcome.
    counts: OnceLock<Box<[OutcomeCount]>>,
}

/// An outcome, whose fault it is, and its count.
type OutcomeCount = (&'static str, &'static str, AtomicU64);

impl ByOutcome {
    const fn new(metric: &'static Metric, own: &'static [(&'static str, &'static str)]) -> Self {
        Self { metric, own, counts: OnceLock::new() }
    }

    /// Counts an outcome. Nothing is counted before the codes are [known](know_codes), nor for an unknown outcome.
    pub fn count(&self, outcome: &str) {
        let counts = self.counts.get().map(|counts| &**counts).unwrap_or_default();
        if let Ok(position) = counts.binary_search_by(|(known, ..)| (*known).cmp(outcome)) {
            counts[position].2.fetch_add(1, Relaxed);
        }
    }

    /// Returns whose fault an outcome is: `caller`, `tool`, `host`, or `none`.
    pub(super) fn fault_of(&self, outcome: &str) -> &'static str {
        let counts = self.counts.get().map(|counts| &**counts).unwrap_or_default();
        counts.binary_search_by(|(known, ..)| (*known).cmp(outcome)).map_or("none", |position| counts[position].1)
    }

    fn know(&self, codes: &[(&'static str, &'static str)]) {
        self.counts.get_or_init(|| {
            let mut all = [self.own, codes].concat();
            all.sort_unstable();
            all.dedup_by_key(|(name, _)| *name);
            all.into_iter().map(|(name, fault)| (name, fault, AtomicU64::new(0))).collect()
        });
    }

    fn put(&self, samples: &mut Samples) {
        for (name, fault, count) in self.counts.get().into_iter().flat_map(|counts| counts.iter()) {
            samples.put(self.metric, [*name, *fault], count.load(Relaxed));
        }
    }
}

/// Histograms by one label from a fixed list of values.
#[derive(Debug)]
pub struct LabeledTimes<const N: usize> {
    metric: &'static Metric,
    values: [&'static str; N],
    histograms: [Histogram; N],
}

impl<const N: usize> LabeledTimes<N> {
    const fn new(metric: &'static Metric, values: [&'static str; N]) -> Self {
        Self { metric, values, histograms: [const { Histogram::new() }; N] }
    }

    /// Records a duration under this label. Ignores a label that is not in the list.
    pub fn observe(&self, value: &str, elapsed: Duration) {
        let position = self.values.iter().position(|known| *known == value);
        debug_assert!(position.is_some(), "{} has no {value}", self.metric.name);
        if let Some(position) = position {
            self.histograms[position].observe(elapsed);
        }
    }

    fn put(&self, samples: &mut Samples) {
        for (value, histogram) in self.values.iter().zip(&self.histograms) {
            samples.put_shape(self.metric, vec![value], histogram.shape());
        }
    }
}

/// Periodic jobs: how often each succeeded and failed, and when it last succeeded.
#[derive(Debug)]
pub struct JobCounts<const N: usize> {
    names: [&'static str; N],
    ok: [AtomicU64; N],
    failed: [AtomicU64; N],
    /// Time of the last success, in milliseconds since 1970.
    done: [AtomicU64; N],
}

impl<const N: usize> JobCounts<N> {
    const fn new(names: [&'static str; N]) -> Self {
        Self {
            names,
            ok: [const { AtomicU64::new(0) }; N],
            failed: [const { AtomicU64::new(0) }; N],
            done: [const { AtomicU64::new(0) }; N],
        }
    }

    /// Records the end of a job's run: the time if it succeeded, or `None` if it failed.
    pub fn ended(&self, job: &str, well: Option<Timestamp>) {
        let position = self.names.iter().position(|known| *known == job);
        debug_assert!(position.is_some(), "no job {job}");
        match (position, well) {
            (Some(position), Some(at)) => {
                self.ok[position].fetch_add(1, Relaxed);
                self.done[position].store(at.0, Relaxed);
            }
            (Some(position), None) => _ = self.failed[position].fetch_add(1, Relaxed),
            (None, _) => {}
        }
    }

    fn put(&self, samples: &mut Samples) {
        for (position, name) in self.names.iter().enumerate() {
            samples.put(&metric_table::JOBS, [*name, "ok"], self.ok[position].load(Relaxed));
            samples.put(&metric_table::JOBS, [*name, "failed"], self.failed[position].load(Relaxed));
            samples.put(&metric_table::JOB_DONE, [*name], seconds(self.done[position].load(Relaxed)));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are below 2^53")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

/// Lists the values of one label, or those of two labels as rows of `first: second …;`.
macro_rules! values {
    ($($value:literal)*) => { [$([$value]),*] };
    ($($first:literal: $($second:literal)*;)*) => { [$($([$first, $second],)*)*] };
}

macro_rules! counters {
    ($($(#[$about:meta])* $vis:vis static $name:ident: $Type:ty = $value:expr;)*) => {
        $($(#[$about])* $vis static $name: $Type = $value;)*

        fn put_counters(samples: &mut Samples) {
            $($name.put(samples);)*
        }
    };
}

counters! {
    /// Completed calls.
    pub static CALLS: ByOutcome = ByOutcome::new(&metric_table::CALLS, &[("ok", "none"), ("error_status", "tool")]);
    /// HTTP responses.
    pub static RESPONSES: LabeledCounts<1, 5> = LabeledCounts::new(&metric_table::RESPONSES, values!("1xx" "2xx" "3xx" "4xx" "5xx"));
    /// Requests that HTTP refused.
    pub static REFUSALS: ByOutcome = ByOutcome::new(&metric_table::REFUSALS, &[]);
    /// Accepted connections.
    pub static CONNECTIONS_ACCEPTED: LabeledCounts<0, 1> = LabeledCounts::new(&metric_table::CONNECTIONS_ACCEPTED, [[]]);
    /// Connections refused because a limit was reached.
    pub static CONNECTIONS_REFUSED: LabeledCounts<1, 2> = LabeledCounts::new(&metric_table::CONNECTIONS_REFUSED, values!("all" "address"));
    /// Connections that the host closed.
    pub static CONNECTIONS_CLOSED: LabeledCounts<1, 6> =
        LabeledCounts::new(&metric_table::CONNECTIONS_CLOSED, values!("head" "idle" "unread" "reset" "frames" "held"));
    /// MCP requests, by method.
    pub static MCP_REQUESTS: LabeledCounts<1, 9> = LabeledCounts::new(&metric_table::MCP_REQUESTS, values!(
        "initialize" "server/discover" "tools/list" "tools/call" "tasks/get" "tasks/update" "tasks/cancel" "subscriptions/listen" "other"
    ));
    /// Calls over MCP.
    pub static MCP_CALLS: ByOutcome =
        ByOutcome::new(&metric_table::MCP_CALLS, &[("ok", "none"), ("tool_error", "tool"), ("task", "none"), ("cancelled", "caller")]);
    /// Payments that reached a state.
    pub static PAYMENTS: LabeledCounts<1, 6> =
        LabeledCounts::new(&metric_table::PAYMENTS, values!("reserved" "settled" "refused" "released" "unknown" "unresolved"));
    /// Runs that ended without a charge, by reason.
    pub static UNPAID_RUNS: LabeledCounts<1, 3> = LabeledCounts::new(&metric_table::UNPAID_RUNS, values!("failed" "refused" "unknown"));
    /// Runs refused because of a limit on unpaid runs.
    pub static SLOWED_RUNS: LabeledCounts<1, 6> =
        LabeledCounts::new(&metric_table::SLOWED_RUNS, values!("payer" "address" "tool" "unproven" "balance" "gas"));
    /// Gas spent on settlements that were reverted.
    pub static BURNED_GAS: LabeledCounts<0, 1> = LabeledCounts::new(&metric_table::BURNED_GAS, [[]]);
    /// Gas that settlements below the least amount have used.
    pub static UNDERPAID_GAS: LabeledCounts<0, 1> = LabeledCounts::new(&metric_table::UNDERPAID_GAS, [[]]);
    /// Settlements that an operator should look at.
    pub static SETTLEMENT_FAULTS: LabeledCounts<1, 3> =
        LabeledCounts::new(&metric_table::SETTLEMENT_FAULTS, values!("elsewhere" "second_receipt" "reorganized"));
    /// Requests to facilitators.
    pub static FACILITATOR: LabeledCounts<2, 15> = LabeledCounts::new(&metric_table::FACILITATOR_REQUESTS, values!(
        "verify": "valid" "invalid" "unavailable";
        "settle": "settled" "refused" "unsent" "unknown";
        "resolve": "settled" "refused" "unsent" "unknown";
        "look_up": "settled" "refused" "unsent" "unknown";
    ));
    /// Duration of requests to facilitators.
    pub static FACILITATOR_SECONDS: LabeledTimes<4> =
        LabeledTimes::new(&metric_table::FACILITATOR_SECONDS, ["verify", "settle", "resolve", "look_up"]);
    /// Commits to the store.
    pub static COMMITS: LabeledCounts<2, 12> = LabeledCounts::new(&metric_table::COMMITS, values!(
        "durable": "ok" "conflict" "beyond" "lock_timeout" "away" "unknown";
        "buffered": "ok" "conflict" "beyond" "lock_timeout" "away" "unknown";
    ));
    /// Duration of commits.
    pub static COMMIT_SECONDS: LabeledTimes<2> = LabeledTimes::new(&metric_table::COMMIT_SECONDS, ["durable", "buffered"]);
    /// Rows removed from the store because they were too old or too many.
    pub static REMOVED: LabeledCounts<1, 10> = LabeledCounts::new(&metric_table::REMOVED, values!(
        "audit" "callMetrics" "calls" "credits" "events" "freeReceipts" "logs" "payments" "sessions" "simulatedLedger"
    ));
    /// Runs of periodic jobs.
    pub static JOBS: JobCounts<14> = JobCounts::new([
        "audit", "call-metrics", "calls", "credit-days", "deletions", "events", "free-receipts", "logs", "nonces", "payouts",
        "reorganizations", "sales", "sessions", "versions",
    ]);
    /// Traced calls.
    pub(super) static TRACES: LabeledCounts<1, 2> = LabeledCounts::new(&metric_table::TRACES, values!("caller" "host"));
    /// Calls that were not traced because of the limit.
    pub(super) static TRACES_LEFT_OUT: LabeledCounts<1, 2> = LabeledCounts::new(&metric_table::TRACES_LEFT_OUT, values!("caller" "host"));
    /// Spans of traced calls.
    pub(super) static SPANS: LabeledCounts<1, 4> = LabeledCounts::new(&metric_table::SPANS, values!("sent" "full" "failed" "refused"));
    /// Requests to the collector.
    pub(super) static EXPORTS: LabeledCounts<2, 4> =
        LabeledCounts::new(&metric_table::EXPORTS, values!("traces": "ok" "failed"; "metrics": "ok" "failed";));
}

/// Duration of calls, and of each of their stages.
static CALL: Histogram = Histogram::new();
static STAGES: [Histogram; Stage::ALL.len()] = [const { Histogram::new() }; Stage::ALL.len()];

/// Sets the error codes that can be outcomes, and whose fault each is. Call it once, before anything is counted.
pub fn know_codes(codes: impl IntoIterator<Item = (&'static str, &'static str)>) {
    let codes: Vec<_> = codes.into_iter().collect();
    [&CALLS, &REFUSALS, &MCP_CALLS].into_iter().for_each(|counts| counts.know(&codes));
}

/// Records the duration of a call and of its stages. `None` is a stage that it did not reach.
pub(super) fn ended(elapsed: Duration, stages: &[Option<Duration>; Stage::ALL.len()]) {
    CALL.observe(elapsed);
    for (histogram, elapsed) in STAGES.iter().zip(stages) {
        if let Some(elapsed) = elapsed {
            histogram.observe(*elapsed);
        }
    }
}

impl Samples {
    /// Returns samples of all these metrics.
    #[must_use]
    pub fn counted() -> Self {
        let mut samples = Self::default();
        put_counters(&mut samples);
        samples.put_shape(&metric_table::CALL_SECONDS, vec![], CALL.shape());
        for (stage, histogram) in Stage::ALL.iter().zip(&STAGES) {
            samples.put_shape(&metric_table::STAGE_SECONDS, vec![stage.as_str()], histogram.shape());
        }
        samples
    }
}
