//! A builder's tools: what each costs, how it is called and what it earned, in pages.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::shown::{PATH, Shown};
use crate::web::{
    parts::{
        money,
        pager::onward,
        places,
        since::day,
        state::state,
        table::{Column, table},
        text,
    },
    visitor::with_query,
};

pub(super) fn view(shown: &Shown) -> Markup {
    let tools = shown.tools["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let next = shown.tools["nextCursor"].as_str().map(|cursor| shown.asked.with(PATH, &[("cursor", cursor)]));
    let first = (!shown.asked.get("cursor").is_empty()).then(|| shown.asked.with(PATH, &[("cursor", "")]));
    let net = if shown.simulated { "Net, 30 days, simulated" } else { "Net, 30 days" };
    let columns = [
        Column::Words("Tool"),
        Column::Words("State"),
        Column::Number("Price"),
        Column::Number("Calls, 30 days"),
        Column::Number("Failed"),
        Column::Number(net),
    ];
    html! {
        section {
            h2 { "Your tools" }
            (table("Your tools", columns, tools.iter().map(|tool| row(shown, tool))))
            (onward(tools.len(), first.as_deref(), next.as_deref()))
            p { a.button href="/dashboard/new" { "Write a tool" } }
        }
    }
}

fn row(shown: &Shown, tool: &Value) -> [Markup; 6] {
    let said = |name: &str| tool[name].as_str().unwrap_or_default();
    let slug = said("slug");
    let since = day(shown.report["since"].as_str().unwrap_or_default());
    let mut lines = shown.report["byEndpoint"].as_array().into_iter().flatten();
    let none = json!({ "calls": 0, "failedCalls": 0, "netUsd": 0 });
    let line = lines.find(|line| line["endpointSlug"] == slug).unwrap_or(&none);
    let calls = |code: &str| with_query(&places::of_tool(slug, "/calls"), [("code", code), ("since", since)]);
    let settled = [("builderId", shown.asked.get("builderId")), ("kind", "payment.settled"), ("tool", slug), ("since", since)];
    [
        html! { (text::words(said("title"))) " " (places::tool(slug)) },
        state(said("state")),
        money::price(tool, false),
        html! { a href=(calls("")) { (line["calls"]) } },
        html! { a href=(calls("failed")) { (line["failedCalls"]) } },
        html! { a href=(with_query("/dashboard/events", settled)) { (money::usd(&line["netUsd"])) } },
    ]
}
