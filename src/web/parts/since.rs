//! How far back a page goes, and days of UTC.

use jiff::ToSpan as _;

use crate::base::clock::Timestamp;

/// As far as series go that are asked for without a word of it.
const USUAL: &str = "30d";

/// How wide the buckets of a series are, by how many seconds it goes back at the most.
const STEPS: [(u64, &str); 3] = [(2 * 3_600, "1m"), (24 * 3_600, "5m"), (7 * 24 * 3_600, "1h")];

/// How far back a page goes: `30d` as the API takes it, or `2026-10-24`, from the start of that day on.
#[derive(Debug)]
pub(in crate::web) struct Since<'a> {
    asked: &'a str,
    /// Milliseconds from the start of the day to now, where a day is asked for.
    back: Option<u64>,
}

impl<'a> Since<'a> {
    pub(in crate::web) fn read(asked: &'a str, now: Timestamp) -> Self {
        Self { asked, back: start(asked).map(|start| now.0.saturating_sub(start.0)) }
    }

    /// As lists take it. They begin with what was first: a second too early rather than too late.
    pub(in crate::web) fn of_list(&self) -> String {
        self.back.map_or_else(|| self.asked.to_owned(), |back| format!("{}s", back.div_ceil(1_000)))
    }

    /// As series take it, whose buckets are whole: a day that is asked for begins the first one. And how wide they are.
    pub(in crate::web) fn of_series(&self) -> (String, &'static str) {
        let asked = match self.back {
            Some(back) => format!("{}s", back / 1_000),
            None if self.asked.is_empty() => USUAL.to_owned(),
            None => self.asked.to_owned(),
        };
        let step = match (self.back, seconds(&asked)) {
            (None, Some(seconds)) => STEPS.iter().find(|(most, _)| seconds <= *most).map_or("1d", |(_, step)| step),
            _ => "1d",
        };
        (asked, step)
    }
}

/// A span of the API's in seconds.
fn seconds(span: &str) -> Option<u64> {
    let (unit, of) = [('d', 24 * 3_600), ('h', 3_600), ('m', 60), ('s', 1)].into_iter().find(|(unit, _)| span.ends_with(*unit))?;
    span.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(of)
}

/// The start of a day that is written as `2026-10-24`.
fn start(day: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = Some(day).filter(|day| day.len() == 10)?.parse().ok()?;
    let at = jiff::tz::TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    u64::try_from(at.as_millisecond()).ok().map(Timestamp)
}

/// The day of a moment, as it is written in both.
pub(in crate::web) fn day(moment: &str) -> &str {
    moment.split('T').next().unwrap_or_default()
}

/// All days from the first to the last, both among them; at most so many, the last ones.
pub(in crate::web) fn days(first: &str, last: &str, most: usize) -> Vec<String> {
    let (Ok(first), Ok(last)) = (first.parse::<jiff::civil::Date>(), last.parse::<jiff::civil::Date>()) else { return vec![] };
    let back = (0..i64::try_from(most).unwrap_or(i64::MAX)).map_while(|back| last.checked_sub(back.days()).ok());
    let mut days: Vec<_> = back.take_while(|day| *day >= first).map(|day| day.to_string()).collect();
    days.reverse();
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_asked_for_from_its_start() {
        let now = Timestamp(1_795_417_200_500);
        assert_eq!(day(&now.to_string()), "2026-11-23");
        let since = Since::read("2026-11-22", now);
        assert_eq!((since.of_list(), since.of_series()), ("111601s".to_owned(), ("111600s".to_owned(), "1d")));
        for (asked, list, series) in
            [("", "", ("30d", "1d")), ("1h", "1h", ("1h", "1m")), ("24h", "24h", ("24h", "5m")), ("7d", "7d", ("7d", "1h"))]
        {
            let since = Since::read(asked, now);
            assert_eq!((since.of_list(), since.of_series()), (list.to_owned(), (series.0.to_owned(), series.1)), "{asked}");
        }
        for asked in ["soon", "2026-13-01", "2026-11-2", "20261122", "999999999999999999999d"] {
            assert_eq!(Since::read(asked, now).of_list(), asked, "the API says what is wrong with it");
        }
    }

    #[test]
    fn days_go_on_over_the_ends_of_months() {
        assert_eq!(days("2026-02-27", "2026-03-01", 9), ["2026-02-27", "2026-02-28", "2026-03-01"]);
        assert_eq!(days("2026-02-27", "2026-03-01", 2), ["2026-02-28", "2026-03-01"]);
        assert_eq!(days("2026-03-02", "2026-03-01", 9), Vec::<String>::new());
        assert_eq!(days("then", "now", 9), Vec::<String>::new());
    }
}
