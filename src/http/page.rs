//! Common parts of paths and queries: slugs, periods, limits and cursors.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error as _};
use tollhouse_front::{ApiError, cursor};
use tollhouse_tool::Slug;

/// Default number of entries on a page.
const DEFAULT_LIMIT: usize = 50;
/// Maximum number of entries on a page.
const MAX_LIMIT: usize = 200;

/// The number of entries on a page: 1 to 200, 50 by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLimit(pub(super) usize);

impl Default for PageLimit {
    fn default() -> Self {
        Self(DEFAULT_LIMIT)
    }
}

impl FromStr for PageLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit.map(Self).ok_or_else(|| format!("`limit` must be 1 to {MAX_LIMIT}"))
    }
}

impl<'de> Deserialize<'de> for PageLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The lists that cursors by slug are bound to.
const BY_SLUG: &[&str] = &["by slug"];

/// Returns the cursor of a list by slug whose page ends with `slug`.
pub(super) fn cursor_at(slug: &Slug) -> String {
    cursor::write(BY_SLUG, slug.as_str().as_bytes())
}

/// Returns the slug after which a list continues.
pub(super) fn behind(cursor: Option<String>) -> Result<Option<Slug>, ApiError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let text = cursor::read(BY_SLUG, &cursor).and_then(|slug| String::from_utf8(slug).ok());
    text.and_then(|text| text.parse().ok()).map(Some).ok_or_else(bad_cursor)
}

/// The query of a list without filters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    #[serde(default)]
    pub(super) limit: PageLimit,
    pub(super) cursor: Option<String>,
}

/// Parses a cursor that is the id of the last entry.
pub(super) fn parse_cursor<T: FromStr>(cursor: Option<String>) -> Result<Option<T>, ApiError> {
    cursor.map(|cursor| cursor.parse().map_err(|_| bad_cursor())).transpose()
}

/// Returns the last entry of a page that is full, after which the next page begins.
pub(super) fn last_if_full<T>(entries: &[T], limit: PageLimit) -> Option<&T> {
    entries.last().filter(|_| entries.len() == limit.0)
}

/// Rejects a stream with an end time.
pub(super) fn reject_until<T>(until: Option<T>) -> Result<(), ApiError> {
    let refused = |_| Err(ApiError::bad_request("`until` works only for pages, not for streams"));
    until.map_or(Ok(()), refused)
}

/// Returns the error for an invalid cursor.
pub(super) fn bad_cursor() -> ApiError {
    ApiError::bad_request("`cursor` must be the `nextCursor` of the previous page")
}
