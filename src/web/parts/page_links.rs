//! Links to the pages of tools, receipts, payouts and logs.

use maud::{Markup, html};

use super::words;
use crate::visitor::{segment, with_query};

/// Number of trailing characters of an id that distinguish it. The leading ones encode the time.
const LAST: usize = 6;

pub(crate) fn tool(slug: impl AsRef<str>) -> Markup {
    let slug = slug.as_ref();
    html! { a href=(tool_path(slug, "")) { code { (words(slug)) } } }
}

/// Returns the path of a tool's page, or of a page below it, for example `/calls`.
pub(crate) fn tool_path(slug: impl AsRef<str>, below: &str) -> String {
    format!("/dashboard/tools/{}{below}", segment(&slug))
}

pub(crate) fn receipt(id: impl AsRef<str>) -> Markup {
    let id = id.as_ref();
    html! { a href=(receipt_path(id)) { code { (words(id)) } } }
}

/// Links to the page of a receipt, with the end of its id.
pub(crate) fn receipt_in_brief(id: impl AsRef<str>) -> Markup {
    let id = id.as_ref();
    html! { a href=(receipt_path(id)) { code { (last(id)) } } }
}

fn receipt_path(id: &str) -> String {
    format!("/dashboard/receipts/{}", segment(id))
}

/// Links to the page of a payout. `builder` is the builder that an admin looks at.
pub(crate) fn payout(id: impl AsRef<str>, builder: &str) -> Markup {
    let id = id.as_ref();
    let path = with_query(&format!("/dashboard/payouts/{}", segment(id)), [("builderId", builder)]);
    html! { a href=(path) { code { (last(id)) } } }
}

pub(crate) fn log(slug: &str, call: &str) -> Markup {
    html! { a href=(with_query(&tool_path(slug, "/log"), [("callId", call)])) { code { (last(call)) } } }
}

fn last(id: &str) -> Markup {
    let from = id.char_indices().rev().nth(LAST - 1).map_or(0, |(at, _)| at);
    html! { @if from > 0 { "…" } (words(&id[from..])) }
}
