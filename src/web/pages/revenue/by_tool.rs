//! Revenue by tool, highest first, in pages.

use std::cmp::Reverse;

use maud::{Markup, html};
use tollhouse_api::EndpointRevenue;

use super::report::{PATH, RevenueView, columns, headings};
use crate::{
    page_links,
    pager::{counted, links},
    table, with_query,
};

const ROWS: usize = 25;

pub(super) fn view(shown: &RevenueView) -> Markup {
    let mut lines: Vec<_> = shown.report.by_endpoint.iter().collect();
    lines.sort_by_key(|line| Reverse((line.totals.net_usd, line.totals.calls)));
    let pages = lines.len().div_ceil(ROWS).max(1);
    let page = shown.query.get("page").parse::<usize>().unwrap_or(1).clamp(1, pages);
    let at = |page: usize| shown.query.with(PATH, &[("page", &page.to_string())]);
    let some = lines.iter().skip((page - 1) * ROWS).take(ROWS);
    let (count, total) = (some.len(), lines.len() as u64);
    let csv = shown.query.with(&format!("{PATH}.csv"), &[("by", "tool"), ("page", "")]);
    html! {
        section {
            h2 { "By tool" }
            (table("Revenue by tool", columns("Tool", &headings(shown.simulated)), some.map(|line| row(shown, line))))
            (links(&counted(count, total), (page > 1).then(|| at(1)), (page < pages).then(|| at(page + 1))))
            p.note {
                "Each number links to its calls, if they are still stored. That list includes the owner's calls, which are not sales. "
                a href=(csv) { "Download all tools as CSV" }
            }
        }
    }
}

fn row(shown: &RevenueView, line: &EndpointRevenue) -> [Markup; 8] {
    let slug = line.endpoint_slug.as_str();
    let calls = |code: &str| with_query(&page_links::tool_path(slug, "/calls"), [("code", code), ("since", &*shown.first)]);
    let [all, paid, failed, gross, refunded, fees, net] = RevenueView::cells(&line.totals, |sum| {
        Some(match sum {
            "calls" => calls(""),
            "failedCalls" => calls("failed"),
            "refundedUsd" => shown.events("payment.refunded", slug, &shown.first),
            _ => shown.events("payment.settled", slug, &shown.first),
        })
    });
    [page_links::tool(slug), all, paid, failed, gross, refunded, fees, net]
}
