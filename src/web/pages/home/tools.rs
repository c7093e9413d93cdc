//! Lists a builder's tools with their prices, calls and earnings.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::view::{HomeView, PATH};
use crate::{
    parts::{
        chart::{Bar, spark},
        money, page_links,
        pager::onward,
        state::state,
        table::{Column, table},
        text,
    },
    visitor::with_query,
};

pub(super) fn view(shown: &HomeView) -> Markup {
    let tools = shown.tools["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let next = shown.tools["nextCursor"].as_str().map(|cursor| shown.requested.with(PATH, &[("cursor", cursor)]));
    let first = (!shown.requested.get("cursor").is_empty()).then(|| shown.requested.with(PATH, &[("cursor", "")]));
    let net = money::heading("Net, 30 days", shown.simulated);
    let columns = [
        Column::Words("Tool"),
        Column::Words("State"),
        Column::Number("Price"),
        Column::Number("Calls, 30 days"),
        Column::Number("Failed"),
        Column::Words("By day"),
        Column::Number(&net),
    ];
    let days = shown.days();
    html! {
        section {
            h2 { "Tools" }
            (table("Tools and their calls", columns, tools.iter().map(|tool| row(shown, &days, tool))))
            (onward(tools.len(), first.as_deref(), next.as_deref()))
            p { a.button href="/dashboard/new" { "Write a tool" } }
        }
    }
}

fn row(shown: &HomeView, days: &[String], tool: &Value) -> [Markup; 7] {
    let describe = |name: &str| tool[name].as_str().unwrap_or_default();
    let slug = describe("slug");
    let since = shown.first();
    let mut lines = shown.report["byEndpoint"].as_array().into_iter().flatten();
    let none = json!({ "calls": 0, "failedCalls": 0, "netUsd": 0 });
    let line = lines.find(|line| line["endpointSlug"] == slug).unwrap_or(&none);
    let calls = |code: &str| with_query(&page_links::of_tool(slug, "/calls"), [("code", code), ("since", since)]);
    let settled = [("builderId", shown.requested.get("builderId")), ("kind", "payment.settled"), ("tool", slug), ("since", since)];
    [
        html! { a href=(page_links::of_tool(slug, "")) { (text::words(describe("title"))) } " " code.muted { (text::words(slug)) } },
        state(describe("state")),
        money::price(tool, shown.simulated),
        html! { a href=(calls("")) { (line["calls"]) } },
        html! { a href=(calls("failed")) { (line["failedCalls"]) } },
        by_day(line, days),
        html! { a href=(with_query("/dashboard/events", settled)) { (money::usd(&line["netUsd"])) } },
    ]
}

/// Shows the calls of each day, with failed ones marked.
fn by_day(line: &Value, days: &[String]) -> Markup {
    let number = |by: &str, day: &str| line[by][day].as_u64().unwrap_or_default() as f64;
    let bar = |day: &String| Bar { name: day.clone(), value: number("callsByDay", day), bad: number("failedByDay", day) };
    let bars: Vec<_> = days.iter().map(bar).collect();
    let Some(max) = bars.iter().filter(|bar| bar.value > 0.0).max_by(|one, other| one.value.total_cmp(&other.value)) else {
        return html! {};
    };
    spark(&format!("Calls by day. Most in a day: {}, on {}.", max.value, max.name), &bars)
}
