//! What paths and queries have in common: what is named, how long back, how many, from where on.

use std::str::FromStr;

use axum::Json;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};

pub(super) use crate::front::{PathParams, QueryParams};
use crate::{
    base::clock::Timestamp,
    front::{Fault, cursor},
    tool::Slug,
};

/// Entries of a page when the query does not say.
const DEFAULT_LIMIT: usize = 50;
/// Most entries of a page.
const MAX_LIMIT: usize = 200;

/// A span of time as queries write it: `30d`, `24h`, `15m`, `90s`. In milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(u64);

impl Span {
    pub(super) const fn days(days: u64) -> Self {
        Self(days * 24 * 3_600 * 1_000)
    }

    pub(super) const fn millis(self) -> u64 {
        self.0
    }

    /// The moment so long before `now`.
    pub(super) fn before(self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(self.0))
    }
}

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a duration is digits and `d`, `h`, `m` or `s`, such as `30d`";
        let unit = match text.as_bytes().last() {
            Some(b'd') => 24 * 3_600 * 1_000,
            Some(b'h') => 3_600 * 1_000,
            Some(b'm') => 60 * 1_000,
            Some(b's') => 1_000,
            _ => return Err(wrong),
        };
        let digits = &text[..text.len() - 1];
        // At most nine digits: no overflow, and 2,700,000 years.
        if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong);
        }
        Ok(Self(digits.parse::<u64>().map_err(|_| wrong)? * unit))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// How many entries a page has: 1 to 200, 50 when it is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit(pub(super) usize);

impl Default for Limit {
    fn default() -> Self {
        Self(DEFAULT_LIMIT)
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit.map(Self).ok_or_else(|| format!("`limit` is 1 to {MAX_LIMIT}"))
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// What the cursors of lists by slug are made for.
const BY_SLUG: &[&str] = &["by slug"];

/// The cursor of a list by slug, whose page ends with `slug`.
pub(super) fn cursor_at(slug: &Slug) -> String {
    cursor::write(BY_SLUG, slug.as_str().as_bytes())
}

/// The slug that a list goes on behind.
pub(super) fn behind(cursor: Option<String>) -> Result<Option<Slug>, Fault> {
    let Some(cursor) = cursor else { return Ok(None) };
    let text = cursor::read(BY_SLUG, &cursor).and_then(|slug| String::from_utf8(slug).ok());
    text.and_then(|text| text.parse().ok()).map(Some).ok_or_else(bad_cursor)
}

/// A page of a list: its entries under their name, and where the next one begins.
pub(super) fn paged(name: &str, entries: &impl Serialize, next: Option<String>) -> Json<Value> {
    let mut answer = json!({ "ok": true, name: entries });
    if let Some(next) = next {
        answer["nextCursor"] = json!(next);
    }
    Json(answer)
}

/// What to say of a cursor that is not one of ours.
pub(super) fn bad_cursor() -> Fault {
    Fault::bad_request("`cursor` is the `nextCursor` of the page before")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit_and_nothing_else() {
        for (text, millis) in [("30d", 2_592_000_000), ("24h", 86_400_000), ("15m", 900_000), ("90s", 90_000), ("0s", 0)] {
            assert_eq!(text.parse(), Ok(Span(millis)), "{text}");
        }
        for text in ["", "d", "30", "30D", "-1d", "+1d", "1.5h", "1d2h", " 1d", "1w", "1234567890s", "٣d", "1é"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
