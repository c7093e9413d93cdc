//! `/dashboard/tools/{slug}/log`: a page of a tool's log in order. With scripts it follows the log
//! live.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_front::PathParams;

use super::owner_pages;
use crate::{
    page::Page,
    parts::{
        cli_hint::{line, same},
        empty::empty,
        facts,
        lines::{are_cut, level_class, lines},
        state::state,
        tabs::Tab,
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, Visitor, segment, with_query},
};

/// Lines of a page, and of a page that shows each line in full.
const LINES: &str = "100";
const FEW: &str = "10";
/// Number of recent calls in which one is searched for.
const CALLS: &str = "200";

/// Filters that the API applies to a log.
const NARROWS: [&str; 3] = ["level", "callId", "since"];

pub(crate) async fn page(
    SignedIn(visitor): SignedIn,
    PathParams(slug): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let requested =
        LogFilter { slug: &slug, requested: PageQuery::read(query.as_deref(), &["level", "callId", "since", "q", "lines", "cursor"]) };
    let record = owner_pages::record(&visitor, &slug).await?;
    let source = format!("{}/logs", owner_pages::source(&slug));
    let limit = if requested.get("lines") == FEW { FEW } else { LINES };
    let request = requested.narrowed().into_iter().chain([("limit", limit), ("cursor", requested.get("cursor"))]);
    let found = visitor.get(&with_query(&source, request)).await?;
    let call = if requested.get("callId").is_empty() { Value::Null } else { call(&visitor, &slug, requested.get("callId")).await };
    let main = visitor.made(|| view(&visitor, &requested, &record["endpoint"], &found, &call)).await?;
    let page = owner_pages::page(&visitor, &slug, Tab::Log, format!("Log of {slug}"), &main);
    Ok(visitor.show(Page { script: Some("live.js"), ..page }).await)
}

/// The requested lines.
struct LogFilter<'a> {
    slug: &'a str,
    requested: PageQuery,
}

impl LogFilter<'_> {
    fn get(&self, name: &str) -> &str {
        self.requested.get(name)
    }

    fn narrowed(&self) -> [(&'static str, &str); 3] {
        NARROWS.map(|name| (name, self.get(name)))
    }

    fn page(&self, cursor: &str) -> String {
        self.requested.with(&owner_pages::place(self.slug, "log"), &[("cursor", cursor)])
    }

    fn is_narrow(&self) -> bool {
        NARROWS.iter().chain(&["q"]).any(|name| !self.get(name).is_empty())
    }
}

/// Finds a call among the recent ones. Returns null if it is not there.
async fn call(visitor: &Visitor, slug: &str, id: &str) -> Value {
    let found = visitor.get(&with_query(&format!("{}/calls", owner_pages::source(slug)), [("limit", CALLS)])).await.unwrap_or_default();
    let calls = found["calls"].as_array().into_iter().flatten();
    calls.into_iter().find(|call| call["callId"] == id).cloned().unwrap_or_default()
}

fn view(visitor: &Visitor, requested: &LogFilter, tool: &Value, found: &Value, call: &Value) -> Markup {
    let (slug, q, of_one) = (requested.slug, requested.get("q"), requested.get("callId"));
    let all = found["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The API returns the newest first, but a log is read downward.
    let shown: Vec<_> = all.iter().rev().filter(|entry| level_class(entry, q)).collect();
    let hidden = all.len() - shown.len();
    let older = found["nextCursor"].as_str().map(|cursor| requested.page(cursor));
    let of_call = |call: &str| Some(with_query(&owner_pages::place(slug, "log"), [("callId", call)]));
    html! {
        (filters(requested))
        @if !of_one.is_empty() { (of_one_call(slug, of_one, call)) }
        nav.pager aria-label="Pages of the log" {
            p { (text::counted(shown.len() as u64, "line", "lines")) @if hidden > 0 { ", and the words hide " (hidden) " more" } }
            @if !requested.get("cursor").is_empty() { a.button.quiet href=(requested.page("")) { "Newest lines" } }
            @if let Some(older) = &older { a.button href=(older) rel="next" { "Older lines" } }
        }
        @if are_cut(&shown) {
            @let few = requested.requested.with(&owner_pages::place(slug, "log"), &[("lines", FEW)]);
            p.note { "Long lines are cut here, and each says by how much. " a href=(few) { (FEW) " lines at a time, with more of each" } }
        }
        @if requested.get("cursor").is_empty() { (live()) }
        div #log.log role="log" aria-live="off" aria-label="Log" tabindex="0" data-live=[live_source(requested)] data-q=(text::plain(q))
            data-page=(requested.page("")) data-more[older.is_some()] {
            (lines(shown.iter().copied(), q, of_call))
            @if shown.is_empty() { div #nothing { (nothing(visitor, requested, tool, hidden)) } }
        }
        p.note { a href=(with_query(&format!("/dashboard/api{}/logs", owner_pages::source(slug)), requested.narrowed())) { "These lines as JSON" } }
        (same(visitor, &with_query(&format!("{}/logs", owner_pages::source(slug)), requested.narrowed())))
    }
}

/// Returns the address where the script follows the same lines. `None` for a page of older lines.
fn live_source(requested: &LogFilter) -> Option<String> {
    let request = requested.narrowed().into_iter().filter(|(name, _)| *name != "since");
    requested.get("cursor").is_empty().then(|| with_query(&format!("/dashboard/api{}/logs", owner_pages::source(requested.slug)), request))
}

fn filters(requested: &LogFilter) -> Markup {
    let [q, level, since, call] = ["q", "level", "since", "callId"].map(|name| requested.get(name));
    let option = |value: &'static str, name: &'static str, now: &str| html! { option value=(value) selected[value == now] { (name) } };
    html! {
        form.filters action=(owner_pages::place(requested.slug, "log")) {
            div.field.wide { label for="q" { "Words" } input #q name="q" type="search" value=(text::plain(q)) data-key="/"; }
            div.field {
                label for="level" { "From level" }
                select #level name="level" {
                    (option("", "all", level)) (option("info", "info", level)) (option("warn", "warn", level))
                    (option("error", "error", level))
                }
            }
            div.field {
                label for="since" { "Since" }
                select #since name="since" {
                    (option("", "ever", since)) (option("15m", "15 minutes", since)) (option("1h", "an hour", since))
                    (option("24h", "a day", since)) (option("7d", "a week", since))
                }
            }
            @if !call.is_empty() { input type="hidden" name="callId" value=(text::plain(call)); }
            button.primary { "Show" }
            @if requested.is_narrow() { a.button.quiet href=(owner_pages::place(requested.slug, "log")) { "Clear" } }
        }
    }
}

/// Shows the outcome of the call that the lines belong to.
fn of_one_call(slug: &str, id: &str, call: &Value) -> Markup {
    let receipt = call["receiptId"].as_str();
    html! {
        section {
            h2 { "One call" }
            (facts::list(&[
                ("Call", Some(facts::id(id))),
                ("Ended", call["outcome"].as_str().map(|outcome| state(if outcome == "succeeded" { "succeeded" } else { "failed" }))),
                ("Why", call["code"].as_str().map(|code| html! { code { (text::words(code)) } })),
                ("At", call["at"].is_string().then(|| moment(&call["at"]))),
                ("Took", call["durationMs"].as_f64().map(|millis| html! { (format!("{millis:.1}")) " ms" })),
                ("Receipt", receipt.map(|id| html! { a href={ "/dashboard/receipts/" (segment(id)) } { code { (text::words(id)) } } })),
            ]))
            @if call.is_null() { p.muted { "It is none of the last " (CALLS) " calls that have ended." } }
            p { a href=(owner_pages::place(slug, "calls")) { "All calls" } }
        }
    }
}

/// Controls for following the log. Without scripts they take up space but are invisible.
fn live() -> Markup {
    html! {
        p.buttons.needs-script {
            button #follow type="button" aria-keyshortcuts="f" { "Follow" }
            label.box { input #aloud type="checkbox"; "Read new lines aloud" }
            span #following.muted role="status" { "Not following" }
            button #newer.quiet type="button" hidden {}
        }
    }
}

fn nothing(visitor: &Visitor, requested: &LogFilter, tool: &Value, hidden: usize) -> Markup {
    let slug = requested.slug;
    let all = owner_pages::place(slug, "log");
    let lines = line(visitor, &format!("/ai/endpoints/{}/logs", segment(slug)));
    if hidden > 0 {
        return empty(&format!("No line here says that; {hidden} others do not."), Some((&all, "Show all lines")), &lines);
    }
    if requested.is_narrow() || !requested.get("cursor").is_empty() {
        return empty("No line fits.", Some((&all, "Show all lines")), &lines);
    }
    if tool["capabilities"]["logs"] != true {
        let edit = owner_pages::place(slug, "edit");
        let ask = format!(
            "{} \\\n  -X PATCH -H 'content-type: application/json' -d '{{\"capabilities\":{{\"logs\":true}}}}'",
            line(visitor, &format!("/ai/endpoints/{}", segment(slug)))
        );
        return empty("It may write no log: it was not asked for, or waits for an admin.", Some((&edit, "Ask for logs")), &ask);
    }
    let call = format!("curl -s {}/tools/{slug} \\\n  -H 'content-type: application/json' -d '{{}}'", visitor.base_url());
    empty("No call has written a line yet.", Some((&owner_pages::place(slug, "edit"), "Run it")), &call)
}
