//! The only reader of wall-clock time. Tests set it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A moment, in milliseconds since 1970 UTC. As JSON: RFC 3339 with milliseconds and `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Seconds since 1970, rounded down.
    #[must_use]
    pub fn as_secs(self) -> u64 {
        self.0 / 1_000
    }

    /// The moment `millis` later.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
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

/// Tells the time.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<AtomicU64>>);

impl Clock {
    /// A clock that stands at `at` until [`Clock::set`] moves it. For tests.
    #[must_use]
    pub fn fixed(at: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicU64::new(at.0))))
    }

    /// Moves a fixed clock; does nothing to the real one.
    pub fn set(&self, at: Timestamp) {
        if let Some(fixed) = &self.0 {
            fixed.store(at.0, Ordering::SeqCst);
        }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(fixed) => Timestamp(fixed.load(Ordering::SeqCst)),
            None => {
                #[expect(clippy::disallowed_methods, reason = "this is the place that reads time")]
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
        }
    }
}
