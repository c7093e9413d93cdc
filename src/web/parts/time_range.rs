//! Time spans of pages, and dates in UTC.

use jiff::ToSpan as _;

/// Thirty whole UTC days including today.
pub(crate) const MONTH: &str = "29d";

/// Time span of series if the query has none.
const USUAL: &str = "30d";

/// Bucket widths of a series, by the maximum span in seconds.
const STEPS: [(u64, &str); 3] = [(2 * 3_600, "1m"), (24 * 3_600, "5m"), (7 * 24 * 3_600, "1h")];

/// Returns the start and bucket width of the series for a list: whole days if the list begins or
/// ends with one.
pub(crate) fn series_span<'a>(since: &'a str, until: &str) -> (&'a str, &'static str) {
    let since = if since.is_empty() { USUAL } else { since };
    let step = match seconds(since) {
        Some(seconds) if until.is_empty() => STEPS.iter().find(|(max, _)| seconds <= *max).map_or("1d", |(_, step)| step),
        _ => "1d",
    };
    (since, step)
}

/// Parses an API time span, in seconds.
fn seconds(span: &str) -> Option<u64> {
    let (unit, of) = [('d', 24 * 3_600), ('h', 3_600), ('m', 60), ('s', 1)].into_iter().find(|(unit, _)| span.ends_with(*unit))?;
    span.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(of)
}

/// Returns the date of a time or date.
pub(crate) fn day(moment: &str) -> &str {
    moment.split('T').next().unwrap_or_default()
}

/// Returns the next date, or an empty string if `day` is invalid.
pub(crate) fn next_day(day: &str) -> String {
    day.parse::<jiff::civil::Date>().and_then(|day| day.tomorrow()).map(|day| day.to_string()).unwrap_or_default()
}

/// Returns all dates from first to last, inclusive. If there are more than `most`, only the latest.
pub(crate) fn days(first: &str, last: &str, max: usize) -> Vec<String> {
    let (Ok(first), Ok(last)) = (first.parse::<jiff::civil::Date>(), last.parse::<jiff::civil::Date>()) else { return vec![] };
    let back = (0..i64::try_from(max).unwrap_or(i64::MAX)).map_while(|back| last.checked_sub(back.days()).ok());
    let mut days: Vec<_> = back.take_while(|day| *day >= first).map(|day| day.to_string()).collect();
    days.reverse();
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_of_a_series_depends_on_its_span() {
        for (since, until, series) in [
            ("", "", ("30d", "1d")),
            ("1h", "", ("1h", "1m")),
            ("24h", "", ("24h", "5m")),
            ("7d", "", ("7d", "1h")),
            ("7d", "2026-11-22", ("7d", "1d")),
            ("2026-11-21", "2026-11-22", ("2026-11-21", "1d")),
            ("soon", "", ("soon", "1d")),
        ] {
            assert_eq!(series_span(since, until), series, "{since} {until}");
        }
    }

    #[test]
    fn days_continue_across_months() {
        assert_eq!(days("2026-02-27", "2026-03-01", 9), ["2026-02-27", "2026-02-28", "2026-03-01"]);
        assert_eq!(days("2026-02-27", "2026-03-01", 2), ["2026-02-28", "2026-03-01"]);
        assert_eq!(days("2026-03-02", "2026-03-01", 9), Vec::<String>::new());
        assert_eq!(days("then", "now", 9), Vec::<String>::new());
        assert_eq!(["2026-02-28", "2026-12-31", "then"].map(next_day), ["2026-03-01", "2027-01-01", ""]);
        assert_eq!(day("2026-11-23T00:00:00.000Z"), "2026-11-23");
    }
}
