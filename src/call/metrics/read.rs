//! Reads metrics in buckets of the requested width.

use std::{collections::BTreeMap, str::FromStr};

use tollhouse_api::{self as api, MetricsBucket, True};
use tollhouse_base::{boxed, clock::Timestamp, id::EndpointId};
use tollhouse_store::{Direction, StoreError, TerminatedText};
use tollhouse_tool::MicroUsd;

use super::{
    Metrics, OF_ALL, SOME, Span,
    bucket::{Bucket, CALL_METRICS},
};

/// Maximum number of buckets in an answer: a little more than 90 days of hours.
const MAX_BUCKETS: u64 = 2_200;

/// The width of the buckets in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesStep {
    /// `1m`.
    Minute,
    /// `5m`.
    FiveMinutes,
    /// `1h`.
    Hour,
    /// `1d`.
    Day,
}

/// A period and a step that are compatible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesQuery {
    since: Timestamp,
    /// The end. `None` means now.
    until: Option<Timestamp>,
    step: SeriesStep,
}

/// Why a series is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error("`step` must be `1m`, `5m`, `1h` or `1d`")]
    Unknown,
    #[error("`step={step}` reaches back only {reach}; use a shorter `since`, or `step={wider}`", step = .0.row().name, reach = .1, wider = .2.row().name)]
    TooFar(SeriesStep, String, SeriesStep),
    #[error("buckets are stored for {0}; use a shorter `since`")]
    NotKept(String),
}

/// A row of the table of steps.
struct StepRow {
    name: &'static str,
    /// Width in milliseconds.
    millis: u64,
    /// The stored buckets that it is made of.
    span: Span,
    wider: SeriesStep,
}

impl SeriesStep {
    fn row(self) -> StepRow {
        let (name, minutes, span, wider) = match self {
            Self::Minute => ("1m", 1, Span::Minute, Self::FiveMinutes),
            Self::FiveMinutes => ("5m", 5, Span::Minute, Self::Hour),
            Self::Hour => ("1h", 60, Span::Hour, Self::Day),
            Self::Day => ("1d", 24 * 60, Span::Hour, Self::Day),
        };
        StepRow { name, millis: minutes * 60 * 1_000, span, wider }
    }
}

impl FromStr for SeriesStep {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let steps = [Self::Minute, Self::FiveMinutes, Self::Hour, Self::Day];
        steps.into_iter().find(|step| step.row().name == text).ok_or(StepError::Unknown)
    }
}

impl Metrics {
    /// Returns the query from `back` ms ago until now or `until`, if that is available.
    ///
    /// # Errors
    ///
    /// [`StepError::TooFar`] and [`StepError::NotKept`] with an available alternative.
    pub fn query(&self, back: u64, until: Option<Timestamp>, step: SeriesStep) -> Result<SeriesQuery, StepError> {
        let reach = |step: SeriesStep| self.retention_ms(step.row().span).min((MAX_BUCKETS - 1) * step.row().millis);
        if back <= reach(step) {
            return Ok(SeriesQuery { since: Timestamp(self.clock.now().0.saturating_sub(back)), until, step });
        }
        let mut wider = step.row().wider;
        while wider != SeriesStep::Day && back > reach(wider) {
            wider = wider.row().wider;
        }
        if back > reach(wider) {
            Err(StepError::NotKept(format_span(reach(wider))))
        } else {
            Err(StepError::TooFar(step, format_span(reach(step)), wider))
        }
    }

    /// Returns a tool's last 30 days by day, including today, as far as they are stored. It writes nothing, because it
    /// is public.
    #[boxed]
    pub async fn by_day(&self, endpoint: &EndpointId) -> Result<api::Metrics, StoreError> {
        let since = Timestamp(self.clock.now().0.saturating_sub(29 * SeriesStep::Day.row().millis));
        self.read_stored(endpoint, SeriesQuery { since, until: None, step: SeriesStep::Day }).await
    }

    /// Returns the series of all tools, including deleted ones.
    #[boxed]
    pub async fn series_of_all(&self, request: SeriesQuery) -> Result<api::Metrics, StoreError> {
        self.series(&OF_ALL, request).await
    }

    /// Returns the series of a tool.
    #[boxed]
    pub async fn series(&self, endpoint: &EndpointId, request: SeriesQuery) -> Result<api::Metrics, StoreError> {
        // Include calls that are not stored yet.
        self.write().await?;
        self.read_stored(endpoint, request).await
    }

    async fn read_stored(&self, endpoint: &EndpointId, request: SeriesQuery) -> Result<api::Metrics, StoreError> {
        let SeriesQuery { since, until, step } = request;
        let width = step.row().millis;
        let first = since.0 / width * width;
        let now = self.clock.now().0.max(since.0);
        let end = until.map_or(now + 1, |until| until.0.min(now + 1));
        let mut buckets: BTreeMap<u64, Bucket> =
            (first..end).step_by(usize::try_from(width).unwrap_or(usize::MAX)).map(|at| (at, Bucket::default())).collect();
        let own = (TerminatedText(endpoint.clone()), step.row().span as u8);
        let mut range = CALL_METRICS.under(&own).from(&(own.0.clone(), own.1, first)).before(&(own.0, own.1, end));
        while !range.is_empty() {
            let rows = CALL_METRICS.readable(&*self.store, &range, SOME, Direction::Forward).await?;
            let Some((last, _)) = rows.last() else { break };
            range = range.after(last);
            for ((_, _, start, _), more) in rows {
                if let (Some(bucket), Some(more)) = (buckets.get_mut(&(start / width * width)), more) {
                    *bucket += more;
                }
            }
        }
        let buckets = buckets.into_iter().map(|(at, bucket)| shown(Timestamp(at), bucket)).collect();
        Ok(api::Metrics { since: Timestamp(first), step: step.row().name.into(), buckets, ok: True })
    }
}

fn shown(at: Timestamp, bucket: Bucket) -> MetricsBucket {
    let (p50_ms, p95_ms) = (bucket.lengths.percentile(0.5), bucket.lengths.percentile(0.95));
    let Bucket { calls, paid, failed, gross, .. } = bucket;
    MetricsBucket { at, calls, paid, failed, gross_usd: MicroUsd(gross), p50_ms, p95_ms }
}

/// Formats a duration as in queries, rounded down to hours.
fn format_span(millis: u64) -> String {
    let hours = millis / 3_600_000;
    if hours.is_multiple_of(24) { format!("{}d", hours / 24) } else { format!("{hours}h") }
}
