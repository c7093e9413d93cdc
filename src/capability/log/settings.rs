//! How many lines of logs are kept, how long, and how fast they may come.

use std::num::NonZeroU32;

use tollhouse_base::clock::{Clock, Timestamp};

/// How much of a log is kept, and how much may wait to be written.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Lines of one endpoint; older ones go. Default: 5,000.
    pub lines: u64,
    /// Bytes of one endpoint's lines; older ones go. Default: 4 MiB.
    pub bytes: u64,
    /// Age at which a line goes, in milliseconds. Default: 7 days.
    pub age_ms: u64,
    /// Bytes a second of one endpoint's lines, and [`OWNER`] times as many of one owner's; further ones are dropped, but for
    /// [`BURST`] seconds' worth at once. Default: 256 KiB.
    pub rate: NonZeroU32,
    /// Bytes of the lines that wait for the store. Beyond them lines of whoever has more than its part of them are dropped.
    /// Default: 16 MiB.
    pub waiting: usize,
}

/// Seconds whose lines may come at once.
pub(super) const BURST: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// As many endpoints of one owner may write as fast as one may.
pub(super) const OWNER: NonZeroU32 = NonZeroU32::new(4).unwrap();

impl LogSettings {
    /// Lines from before then are not kept.
    pub(super) fn oldest(&self, clock: &Clock) -> Timestamp {
        Timestamp(clock.now().0.saturating_sub(self.age_ms))
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        const RATE: NonZeroU32 = NonZeroU32::new(256 << 10).unwrap();
        Self { lines: 5_000, bytes: 4 << 20, age_ms: 7 * 24 * 3_600 * 1_000, rate: RATE, waiting: 16 << 20 }
    }
}
