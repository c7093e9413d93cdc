//! Points in time, as the API writes them.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const MILLIS_PER_DAY: u64 = 86_400_000;
/// The last millisecond that has a year of four digits.
const MAX: u64 = 253_402_300_799_999;

/// A point in time, in milliseconds since 1970 UTC. In JSON it is RFC 3339 with milliseconds and `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// A text that is not a point in time from 1970 on, as the API writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseTimestampError;

impl fmt::Display for ParseTimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time is written as `2026-11-22T09:58:03.000Z`, from 1970 on")
    }
}

impl std::error::Error for ParseTimestampError {}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0.min(MAX);
        let (year, month, day) = date_of(at / MILLIS_PER_DAY);
        let (seconds, millis) = (at % MILLIS_PER_DAY / 1_000, at % 1_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        parse(text).map(Self).ok_or(ParseTimestampError)
    }
}

/// Parses `2026-11-22T09:58:03Z`, with or without a fraction of a second.
fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix(['Z', 'z'])?.split_once(['T', 't'])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let millis: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let days = days_of(year, month, day)?;
    // A date that does not exist, such as February 30, converts to another one.
    (date_of(days) == (year, month, day)).then_some(days * MILLIS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1_000 + millis)
}

/// Parses three numbers with these lengths.
fn numbers(text: &str, separator: char, lengths: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut found = [0; 3];
    for (number, length) in found.iter_mut().zip(lengths) {
        let part = parts.next().filter(|part| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// Returns year, month and day of a day since 1970. A year begins in March here, so that the leap day is its last.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (year, month, day) = (year + era * 400, (month + 2) % 12 + 1, day - (153 * month + 2) / 5 + 1);
    (year + u64::from(month <= 2), month, day)
}

/// Returns the day since 1970, if the date is not before.
fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_written_and_read_as_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (1_795_341_483_120, "2026-11-22T09:58:03.120Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!((Timestamp(millis).to_string(), text.parse()), (text.to_owned(), Ok(Timestamp(millis))));
        }
        assert_eq!("2026-11-22T09:58:03Z".parse(), Ok(Timestamp(1_795_341_483_000)));
        assert_eq!("2026-11-22t09:58:03.1209z".parse(), Ok(Timestamp(1_795_341_483_120)));
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        for day in (0..2_932_897).step_by(97) {
            let (year, month, date) = date_of(day);
            assert_eq!(days_of(year, month, date), Some(day), "{year}-{month}-{date}");
        }
    }

    #[test]
    fn text_that_is_not_a_time_is_rejected() {
        for wrong in [
            "",
            "2026-11-22",
            "2026-11-22T09:58:03",
            "2026-11-22T09:58:03+00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-1-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "0000-01-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(wrong.parse::<Timestamp>(), Err(ParseTimestampError), "{wrong}");
        }
    }
}
