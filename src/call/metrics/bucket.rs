//! Aggregated calls of a tool in a time span.

use std::{collections::BTreeMap, ops::AddAssign};

use serde::{Deserialize, Serialize};
use tollhouse_base::id::{EndpointId, RequestId};
use tollhouse_store::{Table, TerminatedText, Value, schema, write_postcard};

use crate::history::{CallOutcome, CallRecord, Charge};

/// Number of steps per doubling of the duration: within 5 %.
const STEPS: f64 = 8.0;
/// Format of stored buckets, from before all values had a format number.
const FORMAT: u8 = 1;

/// Tool, span, start, and the process that wrote it.
pub(super) type Key = (TerminatedText<EndpointId>, u8, u64, RequestId);

pub(super) const CALL_METRICS: Table<Key, Bucket> = schema::CALL_METRICS.holding();

/// Sums of calls, money and durations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Bucket {
    pub(super) calls: u64,
    /// Number of charged calls.
    pub(super) paid: u64,
    /// Number of failed calls by error code.
    pub(super) failed: BTreeMap<String, u64>,
    /// Micro-USD.
    pub(super) gross: u64,
    pub(super) lengths: DurationHistogram,
}

/// A histogram of durations: step → number of calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct DurationHistogram(BTreeMap<u8, u64>);

impl Bucket {
    pub(super) fn add(&mut self, call: &CallRecord) {
        self.calls += 1;
        if call.charged == Charge::Yes {
            self.paid += 1;
            self.gross = self.gross.saturating_add(call.price_usd.0);
        }
        if call.outcome == CallOutcome::Failed {
            let code = call.code.as_deref().unwrap_or_default();
            match self.failed.get_mut(code) {
                Some(count) => *count += 1,
                None => _ = self.failed.insert(code.to_owned(), 1),
            }
        }
        self.lengths.add(call.duration_ms);
    }
}

impl DurationHistogram {
    pub(super) fn add(&mut self, millis: f64) {
        *self.0.entry(step(millis)).or_default() += 1;
    }

    pub(super) fn calls(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the duration in milliseconds that `share` of the calls did not exceed. `None` without calls.
    pub(super) fn percentile(&self, share: f64) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank, rounded up")]
        let rank = ((self.calls() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let (step, _) = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        })?;
        Some(millis(*step))
    }
}

impl Value for Bucket {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        write_postcard(self, &mut out);
        out
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes.strip_prefix(&[FORMAT])?).ok()
    }
}

impl AddAssign for Bucket {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.paid += other.paid;
        self.gross = self.gross.saturating_add(other.gross);
        for (code, count) in other.failed {
            *self.failed.entry(code).or_default() += count;
        }
        self.lengths += other.lengths;
    }
}

impl AddAssign for DurationHistogram {
    fn add_assign(&mut self, other: Self) {
        for (step, count) in other.0 {
            *self.0.entry(step).or_default() += count;
        }
    }
}

/// Returns the step of a duration, on a logarithmic scale of microseconds.
fn step(millis: f64) -> u8 {
    let micros = (millis * 1_000.0).max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 or more, and cut to the largest")]
    let step = (micros.log2() * STEPS).min(f64::from(u8::MAX)) as u8;
    step
}

/// Returns the middle of a step in milliseconds, rounded to microseconds.
fn millis(step: u8) -> f64 {
    ((f64::from(step) + 0.5) / STEPS).exp2().round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_reported_within_5_percent() {
        let mut length = 0.1;
        while length < 300_000.0 {
            let reported = millis(step(length));
            assert!((reported / length - 1.0).abs() < 0.05, "{length} is reported as {reported}");
            length *= 1.07;
        }
    }
}
