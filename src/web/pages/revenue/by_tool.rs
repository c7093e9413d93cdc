//! Revenue by tool, highest first, in pages.

use std::cmp::Reverse;

use maud::{Markup, html};
use serde_json::Value;

use super::report::{PATH, RevenueView, columns, headings};
use crate::{
    parts::{page_links, pager::pager, table::table},
    visitor::with_query,
};

/// Rows of a page.
const ROWS: usize = 25;

pub(super) fn view(shown: &RevenueView) -> Markup {
    let mut lines: Vec<&Value> = shown.report["byEndpoint"].as_array().into_iter().flatten().collect();
    lines.sort_by_key(|line| Reverse((line["netUsd"].as_f64().map(|net| (net * 1e6) as u64), line["calls"].as_u64())));
    let pages = lines.len().div_ceil(ROWS).max(1);
    let page = shown.requested.get("page").parse::<usize>().unwrap_or(1).clamp(1, pages);
    let at = |page: usize| shown.requested.with(PATH, &[("page", &page.to_string())]);
    let some = lines.iter().skip((page - 1) * ROWS).take(ROWS);
    let (count, total) = (some.len(), lines.len() as u64);
    let csv = shown.requested.with(&format!("{PATH}.csv"), &[("by", "tool"), ("page", "")]);
    html! {
        section {
            h2 { "By tool" }
            (table("Revenue by tool", columns("Tool", &headings(shown.simulated)), some.map(|line| row(shown, line))))
            (pager(count, total, (page > 1).then(|| at(1)).as_deref(), (page < pages).then(|| at(page + 1)).as_deref()))
            p.note {
                "Each number leads to its calls, as far as they are kept one by one. Calls of the owner are listed there too; they are no sales. "
                a href=(csv) { "All tools as CSV" }
            }
        }
    }
}

fn row(shown: &RevenueView, line: &Value) -> [Markup; 8] {
    let slug = line["endpointSlug"].as_str().unwrap_or_default();
    let calls = |code: &str| with_query(&page_links::of_tool(slug, "/calls"), [("code", code), ("since", shown.first())]);
    let [all, paid, failed, gross, refunded, fees, net] = RevenueView::cells(line, |sum| {
        Some(match sum {
            "calls" => calls(""),
            "failedCalls" => calls("failed"),
            "refundedUsd" => shown.events("payment.refunded", slug, shown.first()),
            _ => shown.events("payment.settled", slug, shown.first()),
        })
    });
    [page_links::tool(slug), all, paid, failed, gross, refunded, fees, net]
}
