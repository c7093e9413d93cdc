//! `/dashboard/home`: tasks for the builder, their tools, and recent events.

mod todos;
mod tools;
mod view;

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{EndpointSummaryPage, EventPage, PayoutSettingsResponse, Revenue};

use self::view::HomeView;
use super::events;
use crate::{
    Area, Bar, IntoResponse as _, MONTH, Page, PageQuery, PageResult, RawQuery, Redirect, SignedIn, Visitor, api_section, code, day,
    followed, lazy_html,
    parts::{chart::calls_by_day, event_lines},
    with_query,
};

/// Tools on a page, and tools that are checked for tasks.
const ROWS: &str = "25";
const LOOKED_AT: &str = "200";
/// Number of latest events.
const EVENTS: usize = 10;

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["builderId", "cursor"]);
    match visitor.kind() {
        Some(SessionKind::Admin) if query.get("builderId").is_empty() => return Ok(Redirect::to("/dashboard/admin").into_response()),
        Some(SessionKind::Holder) => return Ok(Redirect::to("/dashboard/credit").into_response()),
        _ => {}
    }
    let of = ("builderId", query.get("builderId"));
    let path = with_query("/ai/builders/endpoints", [of, ("limit", ROWS), ("cursor", query.get("cursor"))]);
    let tools = visitor.get::<EndpointSummaryPage>(&path).await?;
    let checked = visitor.get::<EndpointSummaryPage>(&with_query("/ai/builders/endpoints", [of, ("limit", LOOKED_AT)])).await?;
    let report = visitor.get::<Revenue>(&with_query("/ai/builders/revenue", [of, ("since", MONTH), ("daily", "true")])).await?;
    let settings = visitor.get::<PayoutSettingsResponse>(&with_query("/ai/builders/payout-settings", [of])).await?;
    let events = visitor.get::<EventPage>(&with_query("/ai/builders/events", [of, ("limit", &*EVENTS.to_string())])).await?;
    let now = visitor.now().to_string();
    let shown = HomeView {
        query: &query,
        tools: &tools,
        checked: &checked,
        report: &report,
        payouts: &settings,
        today: day(&now),
        simulated: visitor.is_simulated().await?,
    };
    let main = lazy_html! {
        @if shown.checked.endpoints.is_empty() { (first_tool(&visitor)) } @else {
            (todos::view(&shown))
            (tools::view(&shown))
            (calls(&shown))
        }
        (last_events(&query, &events, shown.simulated))
        (api_section(&visitor, &path))
    };
    let main = visitor.render(main).await?;
    Ok(visitor.show(Page { script: Some("rows.js"), style: Some("make.css"), ..Page::new(Area::Home, "Home", main) }).await)
}

/// Shows three ways to a first tool.
fn first_tool(visitor: &Visitor) -> Markup {
    let create = format!(
        "curl -s {}/ai/endpoints/create \\\n  -H \"x-builder-key: $BUILDER_KEY\" -H 'content-type: application/json' \\\n  -d '{{\n    \
         \"slug\": \"my-first-tool\", \"title\": \"Echo\", \"handlerType\": \"js_request_response\", \"priceUsd\": 0,\n    \
         \"handler\": {{\"source\": \"export default async (req) => ({{ again: req.input }});\", \"language\": \"js\"}},\n    \
         \"safetyAttestation\": {{\"accepted\": true}}\n  }}'",
        visitor.base_url()
    );
    html! {
        p.lead { "You have no tools yet. There are three ways to publish the first one." }
        section {
            h2 { "Write it here" }
            p { "Use an editor, and run the tool before you publish it." }
            p { a.button.primary href="/dashboard/new" { "Write a tool" } }
        }
        section {
            h2 { "Publish it through the API" }
            (code::block("Publish a tool", "sh", &create))
        }
        section {
            h2 { "Follow the guide" }
            p { "Step by step, for people and for their coding agents: " a href="/guides/build-a-tool" { "Build a tool" } "." }
        }
    }
}

/// Shows a chart of calls of all tools by day.
fn calls(shown: &HomeView) -> Markup {
    let bar = |name: String| {
        let totals = shown.report.by_day.iter().find(|line| line.day == name).map(|line| line.totals).unwrap_or_default();
        Bar { name, value: totals.calls as f64, bad: totals.failed_calls as f64 }
    };
    let days: Vec<_> = shown.days().into_iter().map(bar).collect();
    let totals = &shown.report.totals;
    html! {
        @if totals.calls > 0 { section { h2 { "Calls" } (calls_by_day("by-day", &days, totals.calls, Some(totals.failed_calls))) } }
    }
}

fn last_events(query: &PageQuery, found: &EventPage, simulated: bool) -> Markup {
    let builder = query.get("builderId");
    let list = html! {
        @if found.events.is_empty() { p.muted { "No events in the last 7 days." } }
        @else { (event_lines::table_of(&found.events, builder, simulated)) }
    };
    html! {
        section {
            h2 { "Latest events" }
            (followed(Some(&events::last(builder, EVENTS)), list))
            p { a href=(with_query("/dashboard/events", [("builderId", builder)])) { "All events" } }
        }
    }
}
