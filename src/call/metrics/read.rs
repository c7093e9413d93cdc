//! Reading metrics: buckets as wide as they are asked for.

use std::{collections::BTreeMap, str::FromStr};

use serde::Serialize;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_store::{Direction, Ended, StoreError};
use tollhouse_tool::MicroUsd;

use super::{Bucket, CALL_METRICS, Metrics, OF_ALL, SOME, Span};

/// Most buckets of one answer: 90 days of hours, and some.
const MAX_BUCKETS: u64 = 2_200;

/// How wide the buckets of an answer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `1m`.
    Minute,
    /// `5m`.
    FiveMinutes,
    /// `1h`.
    Hour,
    /// `1d`.
    Day,
}

/// A span of time and a step that fit each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesQuery {
    since: Timestamp,
    /// Where it ends, if not now.
    until: Option<Timestamp>,
    step: Step,
}

/// Why a series cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum StepError {
    #[error("`step` is `1m`, `5m`, `1h` or `1d`")]
    Unknown,
    #[error("`step={step}` reaches back {reach}; ask for a shorter `since`, or for `step={wider}`", step = .0.name(), reach = .1, wider = .2.name())]
    TooFar(Step, String, Step),
    #[error("buckets are kept {0}; ask for a shorter `since`")]
    NotKept(String),
}

/// What happened at an endpoint, bucket by bucket.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// The start of the first bucket.
    pub since: Timestamp,
    /// Length of a bucket, as it was asked for.
    pub step: &'static str,
    /// Oldest first, without a gap up to the one of now, or to the last that begins before the end that was asked for.
    pub buckets: Vec<Line>,
}

/// One bucket.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Its start.
    pub at: Timestamp,
    /// Runs, succeeded and failed.
    pub calls: u64,
    /// Those that were charged.
    pub paid: u64,
    /// Code → calls that ended with it.
    pub failed: BTreeMap<String, u64>,
    pub gross_usd: MicroUsd,
    /// Of all calls, within 5 %; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
}

impl Step {
    fn millis(self) -> u64 {
        match self {
            Self::Minute => 60 * 1_000,
            Self::FiveMinutes => 5 * 60 * 1_000,
            Self::Hour => 3_600 * 1_000,
            Self::Day => 24 * 3_600 * 1_000,
        }
    }

    /// What it is made of.
    fn span(self) -> Span {
        match self {
            Self::Minute | Self::FiveMinutes => Span::Minute,
            Self::Hour | Self::Day => Span::Hour,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Minute => "1m",
            Self::FiveMinutes => "5m",
            Self::Hour => "1h",
            Self::Day => "1d",
        }
    }

    fn wider(self) -> Self {
        match self {
            Self::Minute => Self::FiveMinutes,
            Self::FiveMinutes => Self::Hour,
            Self::Hour | Self::Day => Self::Day,
        }
    }
}

impl FromStr for Step {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let steps = [Self::Minute, Self::FiveMinutes, Self::Hour, Self::Day];
        steps.into_iter().find(|step| step.name() == text).ok_or(StepError::Unknown)
    }
}

impl Metrics {
    /// What is asked for, if it can be had: from `back` ms ago, up to now or to `until`.
    ///
    /// # Errors
    ///
    /// [`StepError::TooFar`] and [`StepError::NotKept`] say what can.
    pub fn asked(&self, back: u64, until: Option<Timestamp>, step: Step) -> Result<SeriesQuery, StepError> {
        let reach = |step: Step| self.kept_ms(step.span()).min((MAX_BUCKETS - 1) * step.millis());
        if back <= reach(step) {
            return Ok(SeriesQuery { since: Timestamp(self.clock.now().0.saturating_sub(back)), until, step });
        }
        let mut wider = step.wider();
        while wider != Step::Day && back > reach(wider) {
            wider = wider.wider();
        }
        if back > reach(wider) {
            Err(StepError::NotKept(told(reach(wider))))
        } else {
            Err(StepError::TooFar(step, told(reach(step)), wider))
        }
    }

    /// The last 30 days of an endpoint, today among them, day by day, as far as they are kept, and stored: who reads it may be anyone, and has nothing written.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn by_day(&self, endpoint: &EndpointId) -> Result<Series, StoreError> {
        let since = Timestamp(self.clock.now().0.saturating_sub(29 * Step::Day.millis()));
        self.read_stored(endpoint, SeriesQuery { since, until: None, step: Step::Day }).await
    }

    /// The series that is asked for of all endpoints, also of those that are gone.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn series_of_all(&self, asked: SeriesQuery) -> Result<Series, StoreError> {
        self.series(&OF_ALL, asked).await
    }

    /// The series that is asked for.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn series(&self, endpoint: &EndpointId, asked: SeriesQuery) -> Result<Series, StoreError> {
        // What is not stored yet counts too.
        self.write().await?;
        self.read_stored(endpoint, asked).await
    }

    async fn read_stored(&self, endpoint: &EndpointId, asked: SeriesQuery) -> Result<Series, StoreError> {
        let SeriesQuery { since, until, step } = asked;
        let width = step.millis();
        let first = since.0 / width * width;
        let now = self.clock.now().0.max(since.0);
        let end = until.map_or(now + 1, |until| until.0.min(now + 1));
        let mut buckets: BTreeMap<u64, Bucket> =
            (first..end).step_by(usize::try_from(width).unwrap_or(usize::MAX)).map(|at| (at, Bucket::default())).collect();
        let own = (Ended(endpoint.clone()), step.span() as u8);
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
        let buckets = buckets.into_iter().map(|(at, bucket)| Line::new(Timestamp(at), bucket)).collect();
        Ok(Series { since: Timestamp(first), step: step.name(), buckets })
    }
}

impl Line {
    fn new(at: Timestamp, bucket: Bucket) -> Self {
        let (p50_ms, p95_ms) = (bucket.lengths.percentile(0.5), bucket.lengths.percentile(0.95));
        let Bucket { calls, paid, failed, gross, .. } = bucket;
        Self { at, calls, paid, failed, gross_usd: MicroUsd(gross), p50_ms, p95_ms }
    }
}

/// A span of time as queries write it, rounded down to hours.
fn told(millis: u64) -> String {
    let hours = millis / 3_600_000;
    if hours.is_multiple_of(24) { format!("{}d", hours / 24) } else { format!("{hours}h") }
}
