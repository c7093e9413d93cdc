//! Cron expressions with five fields, in UTC.
//!
//! The fields are minute, hour, day of the month, month, and day of the week, as in cron(8): `*`, numbers, ranges, lists
//! and steps (`*/5`, `9-17/2`), and English abbreviations of months and days. Sunday is 0 or 7. If both days are
//! restricted, either one is enough; a day field that starts with `*` does not count as restricted.

#[cfg(test)]
mod fuzz;

use tollhouse_base::clock::Timestamp;

/// Maximum length of an expression, in bytes.
const MAX_BYTES: usize = 100;

const MS_PER_MINUTE: u64 = 60_000;
const MINUTES_PER_DAY: u64 = 24 * 60;

/// Number of days that are searched for an occurrence. February 29 has the longest gap, from 2096 to 2104.
const SEARCHED_DAYS: u64 = 9 * 366;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A parsed cron expression. Each field is a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether either of the day fields is enough.
    either_day: bool,
}

/// Why an expression is invalid, as a part of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(String);

/// A field of an expression.
struct Field {
    name: &'static str,
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, names: &[] },
    Field { name: "hour", min: 0, max: 23, names: &[] },
    Field { name: "day of the month", min: 1, max: 31, names: &[] },
    Field { name: "month", min: 1, max: 12, names: &MONTHS },
    Field { name: "day of the week", min: 0, max: 7, names: &WEEKDAYS },
];

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// [`CronError`], also for an expression without any occurrence, such as February 30.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        if text.len() > MAX_BYTES {
            return Err(CronError(format!("a cron expression has at most {MAX_BYTES} characters")));
        }
        let parts: Vec<_> = text.split_ascii_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = parts.as_slice() else {
            return Err(CronError(format!(
                "a cron expression has five fields, minute, hour, day of the month, month and day of the week; `{}` has {}",
                text.escape_debug(),
                parts.len()
            )));
        };
        let [minute, hour, day, month, weekday] = &FIELDS;
        let either_day = !days.starts_with('*') && !weekdays.starts_with('*');
        let weekdays = weekday.parse(weekdays)?;
        let cron = Self {
            minutes: minute.parse(minutes)?,
            hours: hour.parse(hours)?,
            days: day.parse(days)?,
            months: month.parse(months)?,
            // 7 is Sunday too.
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            either_day,
        };
        match cron.next(Timestamp(0)) {
            Some(_) => Ok(cron),
            None => Err(CronError(format!("`{}` names a day that does not exist", text.escape_debug()))),
        }
    }

    /// Returns the first occurrence after `after`.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let first = after.0 / MS_PER_MINUTE + 1;
        let (today, now) = (first / MINUTES_PER_DAY, first % MINUTES_PER_DAY);
        let days = today..today.saturating_add(SEARCHED_DAYS);
        days.filter(|day| self.has_day(*day)).find_map(|day| {
            let from = if day == today { now } else { 0 };
            (from..MINUTES_PER_DAY).find(|minute| self.has_minute(*minute)).map(|minute| at(day, minute))
        })
    }

    /// Returns the last occurrence not after `until`.
    pub fn latest(&self, until: Timestamp) -> Option<Timestamp> {
        let last = until.0 / MS_PER_MINUTE;
        let (today, now) = (last / MINUTES_PER_DAY, last % MINUTES_PER_DAY);
        let days = today.saturating_sub(SEARCHED_DAYS)..=today;
        days.rev().filter(|day| self.has_day(*day)).find_map(|day| {
            let to = if day == today { now } else { MINUTES_PER_DAY - 1 };
            (0..=to).rev().find(|minute| self.has_minute(*minute)).map(|minute| at(day, minute))
        })
    }

    fn has_minute(&self, minute: u64) -> bool {
        has(self.hours, minute / 60) && has(self.minutes, minute % 60)
    }

    /// `day`: days since 1970.
    fn has_day(&self, day: u64) -> bool {
        let (month, of_month) = month_and_day(day);
        // 1970 began on a Thursday.
        let (fits_month, fits_week) = (has(self.days, of_month), has(self.weekdays, (day + 4) % 7));
        has(self.months, month) && if self.either_day { fits_month || fits_week } else { fits_month && fits_week }
    }
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, CronError> {
        text.split(',').try_fold(0, |set, part| Ok(set | self.parse_part(part)?))
    }

    fn parse_part(&self, part: &str) -> Result<u64, CronError> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((from, to)) => (self.number(from)?, self.number(to)?),
            None if step.is_some() => return Err(self.invalid(part, "a step needs `*` or a range before it")),
            None => (self.number(range)?, self.number(range)?),
        };
        if from > to {
            return Err(self.invalid(part, "the range ends before it begins"));
        }
        let step = match step.map(digits) {
            None => 1,
            Some(Some(step)) if step > 0 => step,
            Some(_) => return Err(self.invalid(part, "a step is a whole number above 0")),
        };
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        Ok((from..=to).step_by(step).fold(0, |set, number| set | (1 << number)))
    }

    fn number(&self, text: &str) -> Result<u64, CronError> {
        let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let number = match named {
            Some(index) => Some(self.min + index as u64),
            None => digits(text),
        };
        let number = number.filter(|number| (self.min..=self.max).contains(number));
        number.ok_or_else(|| self.invalid(text, &format!("it must be from {} to {}", self.min, self.max)))
    }

    fn invalid(&self, part: &str, reason: &str) -> CronError {
        CronError(format!("`{}` is not a valid {}: {reason}", part.escape_debug(), self.name))
    }
}

fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn has(set: u64, number: u64) -> bool {
    (set >> number) & 1 == 1
}

fn at(day: u64, minute: u64) -> Timestamp {
    Timestamp((day * MINUTES_PER_DAY + minute) * MS_PER_MINUTE)
}

/// Returns the month, from 1, and the day of the month of a day since 1970. The year begins in March here, so that the
/// leap day is its last one.
fn month_and_day(day: u64) -> (u64, u64) {
    let of_era = (day + 719_468) % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    (if month < 10 { month + 3 } else { month - 9 }, of_year - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        serde_json::from_value(serde_json::json!(format!("{text}:00Z"))).unwrap()
    }

    fn next(cron: &str, after: &str) -> Timestamp {
        Cron::parse(cron).unwrap().next(time(after)).unwrap()
    }

    #[test]
    fn next_occurrence_is_the_first_one_after() {
        for (cron, after, expected) in [
            ("* * * * *", "2026-11-30T23:59", "2026-12-01T00:00"),
            ("*/15 * * * *", "2026-11-30T10:14", "2026-11-30T10:15"),
            ("*/15 * * * *", "2026-11-30T10:15", "2026-11-30T10:30"),
            ("5 4 * * *", "2026-11-30T04:05", "2026-12-01T04:05"),
            ("0 9-17/4 * * mon-fri", "2026-11-27T17:00", "2026-11-30T09:00"),
            ("0 0 1 1 *", "2026-01-01T00:00", "2027-01-01T00:00"),
            ("0 0 29 2 *", "2096-03-01T00:00", "2104-02-29T00:00"),
            ("0 0 31 * *", "2026-11-30T00:00", "2026-12-31T00:00"),
            ("0 0 * * 7", "2026-11-28T00:00", "2026-11-29T00:00"),
            ("0 0 * * SUN", "2026-11-29T00:00", "2026-12-06T00:00"),
            ("0 0 13 * 5", "2026-11-01T00:00", "2026-11-06T00:00"),
            ("0 0 */2 * 1", "2026-11-01T00:00", "2026-11-09T00:00"),
            ("1,2,30-31 12 * Dec *", "2026-11-30T00:00", "2026-12-01T12:01"),
        ] {
            assert_eq!(next(cron, after), time(expected), "{cron} after {after}");
        }
    }

    #[test]
    fn latest_occurrence_is_the_one_before_or_now() {
        for (cron, until, expected) in [
            ("*/15 * * * *", "2026-11-30T10:15", "2026-11-30T10:15"),
            ("*/15 * * * *", "2026-11-30T10:14", "2026-11-30T10:00"),
            ("0 12 * * *", "2026-12-01T00:00", "2026-11-30T12:00"),
            ("0 0 29 2 *", "2104-02-28T00:00", "2096-02-29T00:00"),
        ] {
            assert_eq!(Cron::parse(cron).unwrap().latest(time(until)), Some(time(expected)), "{cron} until {until}");
        }
        assert_eq!(Cron::parse("0 0 1 3 *").unwrap().latest(Timestamp(0)), None);
    }

    #[test]
    fn occurrences_forward_and_backward_agree() {
        for cron in ["* * * * *", "7 */5 * * 1-5", "30 2 28-31 2,4 *", "0 0 1 * 0"] {
            let cron = Cron::parse(cron).unwrap();
            let mut now = time("2027-12-31T22:13");
            for _ in 0..200 {
                let next = cron.next(now).unwrap();
                assert_eq!(cron.latest(next), Some(next));
                assert!(cron.latest(Timestamp(next.0 - 1)).is_none_or(|latest| latest <= now));
                now = next;
            }
        }
    }

    #[test]
    fn invalid_expressions_are_explained() {
        for (cron, part) in [
            ("", "has 0"),
            ("* * * *", "has 4"),
            ("* * * * * *", "has 6"),
            ("@daily", "has 1"),
            ("60 * * * *", "`60` is not a valid minute: it must be from 0 to 59"),
            ("* 24 * * *", "not a valid hour"),
            ("* * 0 * *", "from 1 to 31"),
            ("* * * 13 *", "not a valid month"),
            ("* * * * 8", "from 0 to 7"),
            ("5/10 * * * *", "a step needs `*` or a range"),
            ("*/0 * * * *", "a whole number above 0"),
            ("*/-5 * * * *", "a whole number above 0"),
            ("30-10 * * * *", "ends before it begins"),
            ("+5 * * * *", "not a valid minute"),
            ("1,, * * * *", "not a valid minute"),
            ("0 0 30 2 *", "does not exist"),
            ("0 0 31 2,4,6 *", "does not exist"),
            ("\u{7f} * * * *", "not a valid minute"),
        ] {
            let error = Cron::parse(cron).unwrap_err().to_string();
            assert!(error.contains(part), "{cron}: {error}");
        }
        assert!(Cron::parse(&format!("{} * * * *", "1,".repeat(60))).is_err());
    }
}
