//! Common parts of paths and queries: slugs, periods, limits and cursors.

use std::str::FromStr;

use axum::Json;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};
use tollhouse_front::{ApiError, cursor};
use tollhouse_tool::Slug;

pub(super) use tollhouse_base::time_param::TimeParam;
pub(super) use tollhouse_front::{PathParams, QueryParams};

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
        limit.map(Self).ok_or_else(|| format!("`limit` is 1 to {MAX_LIMIT}"))
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

/// Returns a page of a list: its entries under `name`, and the cursor of the next page.
pub(super) fn paged(name: &str, entries: &impl Serialize, next: Option<String>) -> Json<Value> {
    let mut answer = json!({ "ok": true, name: entries });
    if let Some(next) = next {
        answer["nextCursor"] = json!(next);
    }
    Json(answer)
}

/// Rejects a stream with an end time.
///
/// # Errors
///
/// 400 if there is one.
pub(super) fn without_total<T>(until: Option<T>) -> Result<(), ApiError> {
    let refused = |_| Err(ApiError::bad_request("`until` is of pages: a stream goes on"));
    until.map_or(Ok(()), refused)
}

/// Returns the error for an invalid cursor.
pub(super) fn bad_cursor() -> ApiError {
    ApiError::bad_request("`cursor` is the `nextCursor` of the page before")
}
