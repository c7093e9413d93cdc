//! Where things have their pages: links to them by their names.

use maud::{Markup, html};

use super::text::words;
use crate::visitor::{segment, with_query};

/// Letters of an id that tell it from those beside it: the first ones are of its time.
const LAST: usize = 6;

/// The page of a tool.
pub(crate) fn tool(slug: &str) -> Markup {
    html! { a href=(of_tool(slug, "")) { code { (words(slug)) } } }
}

/// The address of a tool's page, or of one below it such as `/calls`.
pub(crate) fn of_tool(slug: &str, below: &str) -> String {
    format!("/dashboard/tools/{}{below}", segment(slug))
}

/// The page of a receipt.
pub(crate) fn receipt(id: &str) -> Markup {
    html! { a href=(of_receipt(id)) { code { (words(id)) } } }
}

/// The same where there is little room.
pub(crate) fn receipt_in_brief(id: &str) -> Markup {
    html! { a href=(of_receipt(id)) { code { (last(id)) } } }
}

fn of_receipt(id: &str) -> String {
    format!("/dashboard/receipts/{}", segment(id))
}

/// The page of a packet; `builder` is whom an admin looks at.
pub(crate) fn payout(id: &str, builder: &str) -> Markup {
    let path = with_query(&format!("/dashboard/payouts/{}", segment(id)), [("builderId", builder)]);
    html! { a href=(path) { code { (last(id)) } } }
}

/// What a call of a tool has logged.
pub(crate) fn log(slug: &str, call: &str) -> Markup {
    html! { a href=(with_query(&of_tool(slug, "/log"), [("callId", call)])) { code { (last(call)) } } }
}

fn last(id: &str) -> Markup {
    let from = id.char_indices().rev().nth(LAST - 1).map_or(0, |(at, _)| at);
    html! { @if from > 0 { "…" } (words(&id[from..])) }
}
