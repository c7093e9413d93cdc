//! The only code that reads wall-clock time. Tests can set it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::lock::Lock;

/// A point in time, in milliseconds since 1970 UTC. In JSON it is RFC 3339 with milliseconds and `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(inline, extend("format" = "date-time"))]
pub struct Timestamp(#[schemars(with = "String")] pub u64);

impl Timestamp {
    /// Returns the seconds since 1970, rounded down.
    #[must_use]
    pub fn as_secs(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the time `millis` milliseconds later.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Returns the time `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        self.plus_millis(millis(duration))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        let at = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{at:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        u64::try_from(at.as_millisecond()).map(Self).map_err(D::Error::custom)
    }
}

/// A source of wall-clock time.
#[derive(Debug, Clone, Default)]
pub struct Clock(ClockSource);

/// The source of a clock's time.
#[derive(Debug, Clone, Default)]
enum ClockSource {
    /// This machine's clock.
    #[default]
    System,
    /// A time set by a test.
    Fixed(Arc<AtomicU64>),
    /// The last time reported by another clock and when it was read. Until then, this machine's clock.
    Others(Arc<Lock<Option<RemoteTime>>>),
}

/// A time reported by another clock, and the monotonic time at which it was read.
#[derive(Debug, Clone, Copy)]
struct RemoteTime {
    at: Timestamp,
    read: Instant,
}

/// How far a clock may drift from the one that it follows before it is set.
const SLACK: Duration = Duration::from_millis(20);

impl Clock {
    /// Returns a clock that stays at `at` until [`Clock::set`] moves it. For tests.
    #[must_use]
    pub fn fixed(at: Timestamp) -> Self {
        Self(ClockSource::Fixed(Arc::new(AtomicU64::new(at.0))))
    }

    /// Returns a clock that follows another one, such as a database's, once [`Clock::follow_remote`] has been called. Changes
    /// to this machine's clock do not move it after that.
    #[must_use]
    pub fn following() -> Self {
        Self(ClockSource::Others(Arc::default()))
    }

    /// Sets this clock to another one that reported `remote` in answer to a query sent at `sent` and answered now. Does
    /// nothing if this clock does not follow another, or if its time is within the error of measurement.
    pub fn follow_remote(&self, remote: Timestamp, sent: Instant) {
        let ClockSource::Others(last) = &self.0 else { return };
        let (elapsed, before) = (sent.elapsed(), self.now());
        let earliest = Timestamp(before.0.saturating_sub(millis(elapsed + SLACK)));
        let mut last = last.lock();
        if last.is_none() || !(earliest..=before.plus(SLACK)).contains(&remote) {
            *last = Some(RemoteTime { at: remote, read: sent + elapsed / 2 });
        }
    }

    /// Moves a fixed clock. Does nothing to any other.
    pub fn set(&self, at: Timestamp) {
        if let ClockSource::Fixed(fixed) = &self.0 {
            fixed.store(at.0, Ordering::SeqCst);
        }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockSource::Fixed(fixed) => Timestamp(fixed.load(Ordering::SeqCst)),
            ClockSource::Others(last) => match *last.lock() {
                Some(RemoteTime { at, read }) => at.plus(read.elapsed()),
                None => system(),
            },
            ClockSource::System => system(),
        }
    }
}

/// Reads this machine's clock.
fn system() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads time")]
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(millis(since))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_clock_moves_only_beyond_the_error_of_measurement() {
        let clock = Clock::following();
        assert!(clock.now().0.abs_diff(system().0) < 60_000, "no host has set it yet");
        let there = Timestamp(1_800_000_000_000);
        clock.follow_remote(there, Instant::now());
        let is_at = |at: Timestamp| {
            let now = clock.now();
            assert!((at.0..at.0 + 60_000).contains(&now.0), "{now} in place of {at}");
        };
        is_at(there);
        // Within the round-trip time, the new reading is no better than the one before.
        let request = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        clock.follow_remote(Timestamp(there.0 - 5_000), request);
        is_at(there);
        for moved in [there.plus_millis(86_400_000), Timestamp(there.0 - 86_400_000)] {
            clock.follow_remote(moved, Instant::now());
            is_at(moved);
        }
        for other in [Clock::default(), Clock::fixed(there)] {
            other.follow_remote(there.plus_millis(86_400_000), Instant::now());
            assert!(other.now() < there.plus_millis(86_400_000));
        }
    }
}
