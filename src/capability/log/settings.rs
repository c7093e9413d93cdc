//! Limits of logs: number, age and rate of lines.

use std::num::NonZeroU32;

use tollhouse_base::clock::{Clock, Timestamp};

/// How much of a log is kept, and how much may be queued.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Maximum number of lines of one tool. Older ones are removed. Default: 5,000.
    pub lines: u64,
    /// Maximum bytes of one tool's lines. Older ones are removed. Default: 4 MiB.
    pub bytes: u64,
    /// Maximum age of a line, in milliseconds. Default: 7 days.
    pub age_ms: u64,
    /// Maximum bytes of lines per second for one tool, and [`OWNER`] times as many for one owner. Bursts of [`BURST`]
    /// seconds' worth are allowed; further lines are dropped. Default: 256 KiB.
    pub rate: NonZeroU32,
    /// Maximum bytes of queued lines. Above it, lines of tools with more than their share are dropped. Default: 16 MiB.
    pub waiting: usize,
}

/// Size of a burst, in seconds' worth of lines.
pub(super) const BURST: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// An owner's rate limit, as a multiple of a tool's.
pub(super) const OWNER: NonZeroU32 = NonZeroU32::new(4).unwrap();

impl LogSettings {
    /// Returns the time before which lines are not kept.
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
