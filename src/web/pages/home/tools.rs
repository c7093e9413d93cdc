//! Lists a builder's tools with their prices, calls and earnings.

use std::collections::BTreeMap;

use maud::{Markup, html};
use tollhouse_api::{EndpointRevenue, EndpointSummary};

use super::view::{HomeView, PATH};
use crate::{Bar, Number, Words, money, onward, page_links, parts::chart::spark, state, table, text, with_query, word};

pub(super) fn view(shown: &HomeView) -> Markup {
    let tools = &shown.tools.endpoints;
    let net = money::heading("Net, 30 days", shown.simulated);
    let columns =
        [Words("Tool"), Words("State"), Number("Price"), Number("Calls, 30 days"), Number("Failed"), Words("By day"), Number(&net)];
    let days = shown.days();
    html! {
        section {
            h2 { "Tools" }
            (table("Tools and their calls", columns, tools.iter().map(|tool| row(shown, &days, tool))))
            (onward(tools.len(), shown.query, PATH, shown.tools.next_cursor.as_deref()))
            p { a.button href="/dashboard/new" { "Write a tool" } }
        }
    }
}

fn row(shown: &HomeView, days: &[String], tool: &EndpointSummary) -> [Markup; 7] {
    let tool = &tool.brief;
    let (slug, since) = (tool.slug.as_str(), shown.first());
    let line = shown.report.by_endpoint.iter().find(|line| line.endpoint_slug == tool.slug);
    let totals = line.map(|line| line.totals).unwrap_or_default();
    let calls = |code: &str| with_query(&page_links::tool_path(slug, "/calls"), [("code", code), ("since", &*since)]);
    let settled = [("builderId", shown.query.get("builderId")), ("kind", "payment.settled"), ("tool", slug), ("since", &*since)];
    [
        html! { a href=(page_links::tool_path(slug, "")) { (text::words(&tool.title)) } " " code.muted { (text::words(slug)) } },
        state(&word(tool.state)),
        money::price(tool.price_usd, tool.max_price_usd, shown.simulated),
        html! { a href=(calls("")) { (totals.calls) } },
        html! { a href=(calls("failed")) { (totals.failed_calls) } },
        line.map_or_else(|| html! {}, |line| by_day(line, days)),
        html! { a href=(with_query("/dashboard/events", settled)) { (money::usd(totals.net_usd)) } },
    ]
}

/// Shows the calls of each day, with failed ones marked.
fn by_day(line: &EndpointRevenue, days: &[String]) -> Markup {
    let number = |by: &Option<BTreeMap<String, u64>>, day: &str| by.as_ref().and_then(|by| by.get(day).copied()).unwrap_or_default() as f64;
    let bar = |day: &String| Bar { name: day.clone(), value: number(&line.calls_by_day, day), bad: number(&line.failed_by_day, day) };
    let bars: Vec<_> = days.iter().map(bar).collect();
    let Some(max) = bars.iter().filter(|bar| bar.value > 0.0).max_by(|one, other| one.value.total_cmp(&other.value)) else {
        return html! {};
    };
    spark(&format!("Calls by day. Maximum: {}, on {}.", max.value, max.name), &bars)
}
