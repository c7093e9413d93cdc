//! Durations of recent calls per tool, in memory.

use std::collections::HashMap;

use tollhouse_base::id::EndpointId;

use super::bucket::DurationHistogram;

/// A tool's figures of recent calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecentStats {
    /// Runs, succeeded and failed.
    pub calls: u64,
    /// Median duration in milliseconds, within 5 %. `None` without calls.
    pub median_ms: Option<f64>,
}

/// Durations of recent calls per tool.
#[derive(Debug, Default)]
pub(super) struct RecentDurations {
    /// Whether a count was completed since the process began.
    is_counted: bool,
    /// Number of the current count.
    count: u64,
    of: HashMap<EndpointId, EndpointDurations>,
}

#[derive(Debug, Default)]
struct EndpointDurations {
    lengths: DurationHistogram,
    /// The last count that included it or during which it was called.
    count: u64,
}

impl RecentDurations {
    /// Returns a tool's figures. `None` before the first count is complete.
    pub(super) fn figures(&self, endpoint: &EndpointId) -> Option<RecentStats> {
        let lengths = self.of.get(endpoint).map(|of| &of.lengths);
        let calls = lengths.map_or(0, DurationHistogram::calls);
        self.is_counted.then(|| RecentStats { calls, median_ms: lengths.and_then(|lengths| lengths.percentile(0.5)) })
    }

    /// Returns whether a count was completed since the process began.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Adds newly stored calls.
    pub(super) fn add(&mut self, stored: HashMap<EndpointId, DurationHistogram>) {
        for (endpoint, more) in stored {
            let of = self.of.entry(endpoint).or_default();
            of.lengths += more;
            of.count = self.count;
        }
    }

    /// Replaces a tool's durations with counted ones.
    pub(super) fn set(&mut self, endpoint: EndpointId, lengths: DurationHistogram) {
        if lengths.calls() > 0 {
            self.of.insert(endpoint, EndpointDurations { lengths, count: self.count });
        } else {
            self.of.remove(&endpoint);
        }
    }

    /// Completes a count. Tools that it did not reach have no stored calls anymore.
    pub(super) fn counted(&mut self) {
        let now = self.count;
        self.of.retain(|_, of| of.count == now);
        self.count += 1;
        self.is_counted = true;
    }
}
