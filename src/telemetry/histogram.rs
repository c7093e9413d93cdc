//! Histograms of durations.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Upper bounds of the buckets, inclusive, in microseconds. There is one more bucket without a bound.
pub(super) const BOUNDS_US: [u64; 19] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
    30_000_000, 60_000_000,
];

/// A histogram. Each observation costs two atomic additions.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Count of each bucket, not cumulative.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    nanos: AtomicU64,
}

/// The counts of a histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistogramSnapshot {
    /// Count of each bucket, not cumulative. The last has no bound.
    pub(super) buckets: Vec<u64>,
    /// Sum of all durations, in seconds.
    pub(super) seconds: f64,
}

impl Histogram {
    pub(super) const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BOUNDS_US.len() + 1], nanos: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, elapsed: Duration) {
        let bucket = BOUNDS_US.partition_point(|bound| Duration::from_micros(*bound) < elapsed);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.nanos.fetch_add(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn shape(&self) -> HistogramSnapshot {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        HistogramSnapshot { buckets, seconds: Duration::from_nanos(self.nanos.load(Relaxed)).as_secs_f64() }
    }
}

impl HistogramSnapshot {
    /// Returns the number of observations.
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_are_inclusive() {
        let histogram = Histogram::new();
        for micros in [0, 50, 51, 60_000_000, 60_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let HistogramSnapshot { buckets, seconds } = histogram.shape();
        assert_eq!((buckets[0], buckets[1], buckets[18], buckets[19]), (2, 1, 1, 1));
        assert!((seconds - 120.000_102).abs() < 1e-9, "{seconds}");
    }
}
