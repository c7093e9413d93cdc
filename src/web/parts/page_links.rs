//! Links to the pages of tools, receipts, payouts and logs.

use maud::{Markup, html};

use super::text::words;
use crate::visitor::{segment, with_query};

/// Number of trailing characters of an id that distinguish it. The leading ones encode the time.
const LAST: usize = 6;

/// Links to the page of a tool.
pub(crate) fn tool(slug: &str) -> Markup {
    html! { a href=(of_tool(slug, "")) { code { (words(slug)) } } }
}

/// Returns the path of a tool's page, or of a page below it, for example `/calls`.
pub(crate) fn of_tool(slug: &str, below: &str) -> String {
    format!("/dashboard/tools/{}{below}", segment(slug))
}

/// Links to the page of a receipt.
pub(crate) fn receipt(id: &str) -> Markup {
    html! { a href=(of_receipt(id)) { code { (words(id)) } } }
}

/// Links to the page of a receipt, with the end of its id.
pub(crate) fn receipt_in_brief(id: &str) -> Markup {
    html! { a href=(of_receipt(id)) { code { (last(id)) } } }
}

fn of_receipt(id: &str) -> String {
    format!("/dashboard/receipts/{}", segment(id))
}

/// Links to the page of a payout. `builder` is the builder that an admin looks at.
pub(crate) fn payout(id: &str, builder: &str) -> Markup {
    let path = with_query(&format!("/dashboard/payouts/{}", segment(id)), [("builderId", builder)]);
    html! { a href=(path) { code { (last(id)) } } }
}

/// Links to the log of a call.
pub(crate) fn log(slug: &str, call: &str) -> Markup {
    html! { a href=(with_query(&of_tool(slug, "/log"), [("callId", call)])) { code { (last(call)) } } }
}

fn last(id: &str) -> Markup {
    let from = id.char_indices().rev().nth(LAST - 1).map_or(0, |(at, _)| at);
    html! { @if from > 0 { "…" } (words(&id[from..])) }
}
