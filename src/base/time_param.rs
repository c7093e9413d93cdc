//! Times as people and queries write them: absolute, or relative to now.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error as _};

use super::clock::Timestamp;

/// A time as written in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeParam {
    /// Milliseconds before now, written as `30d`, `24h`, `15m` or `90s`.
    Ago(u64),
    /// An absolute time such as `2026-11-22T09:58:03Z`, or the start of a UTC day such as `2026-11-22`.
    At(Timestamp),
}

impl TimeParam {
    /// Returns the time `days` days ago.
    #[must_use]
    pub const fn days(days: u64) -> Self {
        Self::Ago(days * 24 * 3_600 * 1_000)
    }

    /// Resolves to an absolute time, given the current one.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(millis) => Timestamp(now.0.saturating_sub(millis)),
            Self::At(at) => at,
        }
    }

    /// Returns how long before `now` it is, in milliseconds.
    #[must_use]
    pub fn back(self, now: Timestamp) -> u64 {
        match self {
            Self::Ago(millis) => millis,
            Self::At(at) => now.0.saturating_sub(at.0),
        }
    }
}

impl FromStr for TimeParam {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a time must be a number with `d`, `h`, `m` or `s`, for example `30d` for 30 days ago, or a date, for example `2026-11-22` or `2026-11-22T09:58:03Z`";
        relative(text).map(Self::Ago).or_else(|| absolute(text).map(Self::At)).ok_or(wrong)
    }
}

/// Parses a duration into milliseconds.
fn relative(text: &str) -> Option<u64> {
    let (unit, millis) = [('d', 24 * 3_600 * 1_000), ('h', 3_600 * 1_000), ('m', 60 * 1_000), ('s', 1_000)]
        .into_iter()
        .find(|(unit, _)| text.ends_with(*unit))?;
    // At most nine digits (2,700,000 years), so that nothing overflows.
    let digits = text.strip_suffix(unit).filter(|digits| (1..=9).contains(&digits.len()))?;
    let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse::<u64>().ok()? } else { return None };
    Some(number * millis)
}

fn absolute(text: &str) -> Option<Timestamp> {
    let at = match text.len() {
        10 => jiff::tz::TimeZone::UTC.to_timestamp(text.parse::<jiff::civil::Date>().ok()?.at(0, 0, 0, 0)).ok()?,
        _ => text.parse::<jiff::Timestamp>().ok()?,
    };
    u64::try_from(at.as_millisecond()).ok().map(Timestamp)
}

impl<'de> Deserialize<'de> for TimeParam {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_relative_or_absolute() {
        for (text, millis) in [("30d", 2_592_000_000), ("24h", 86_400_000), ("15m", 900_000), ("90s", 90_000), ("0s", 0)] {
            assert_eq!(text.parse(), Ok(TimeParam::Ago(millis)), "{text}");
        }
        let day = 1_795_305_600_000;
        for (text, at) in [("2026-11-22", day), ("2026-11-22T09:58:03Z", day + 35_883_000), ("2026-11-22T01:00:00.5+01:00", day + 500)] {
            assert_eq!(text.parse(), Ok(TimeParam::At(Timestamp(at))), "{text}");
        }
        for text in ["", "d", "30", "30D", "-1d", "+1d", "1.5h", "1d2h", " 1d", "1w", "1234567890s", "٣d", "1é"] {
            assert!(text.parse::<TimeParam>().is_err(), "{text}");
        }
        for text in ["2026-13-01", "2026-11-2", "20261122", "2026-11-22T09:58:03", "1969-12-31", "-002026-11-22", "٢٠٢٦-11-22"] {
            assert!(text.parse::<TimeParam>().is_err(), "{text}");
        }
    }

    #[test]
    fn future_times_are_zero_milliseconds_ago() {
        let now = Timestamp(90_000);
        assert_eq!((TimeParam::Ago(60_000).at(now), TimeParam::Ago(100_000).at(now)), (Timestamp(30_000), Timestamp(0)));
        assert_eq!(
            [TimeParam::Ago(60_000), TimeParam::At(Timestamp(60_000)), TimeParam::At(Timestamp(100_000))].map(|when| when.back(now)),
            [60_000, 30_000, 0]
        );
    }
}
