//! `/dashboard/tools/{slug}/log`: a page of a tool's log in order. With scripts it follows the log
//! live.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_front::PathParams;

use super::own;
use crate::{
    asked::Asked,
    page::Page,
    parts::{
        empty::empty,
        facts,
        lines::{are_cut, lines, says},
        same::{line, same},
        state::state,
        tabs::Tab,
        text,
        time::moment,
    },
    visitor::{Refused, SignedIn, Visitor, segment, with_query},
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
) -> Result<Response, Refused> {
    let wanted = Wanted { slug: &slug, asked: Asked::read(query.as_deref(), &["level", "callId", "since", "q", "lines", "cursor"]) };
    let record = own::record(&visitor, &slug).await?;
    let source = format!("{}/logs", own::source(&slug));
    let limit = if wanted.get("lines") == FEW { FEW } else { LINES };
    let asked = wanted.narrowed().into_iter().chain([("limit", limit), ("cursor", wanted.get("cursor"))]);
    let found = visitor.get(&with_query(&source, asked)).await?;
    let call = if wanted.get("callId").is_empty() { Value::Null } else { call(&visitor, &slug, wanted.get("callId")).await };
    let main = visitor.made(|| view(&visitor, &wanted, &record["endpoint"], &found, &call)).await?;
    let page = own::page(&visitor, &slug, Tab::Log, format!("Log of {slug}"), &main);
    Ok(visitor.show(Page { script: Some("live.js"), ..page }).await)
}

/// The requested lines.
struct Wanted<'a> {
    slug: &'a str,
    asked: Asked,
}

impl Wanted<'_> {
    fn get(&self, name: &str) -> &str {
        self.asked.get(name)
    }

    fn narrowed(&self) -> [(&'static str, &str); 3] {
        NARROWS.map(|name| (name, self.get(name)))
    }

    fn page(&self, cursor: &str) -> String {
        self.asked.with(&own::place(self.slug, "log"), &[("cursor", cursor)])
    }

    fn is_narrow(&self) -> bool {
        NARROWS.iter().chain(&["q"]).any(|name| !self.get(name).is_empty())
    }
}

/// Finds a call among the recent ones. Returns null if it is not there.
async fn call(visitor: &Visitor, slug: &str, id: &str) -> Value {
    let found = visitor.get(&with_query(&format!("{}/calls", own::source(slug)), [("limit", CALLS)])).await.unwrap_or_default();
    let calls = found["calls"].as_array().into_iter().flatten();
    calls.into_iter().find(|call| call["callId"] == id).cloned().unwrap_or_default()
}

fn view(visitor: &Visitor, wanted: &Wanted, tool: &Value, found: &Value, call: &Value) -> Markup {
    let (slug, q, of_one) = (wanted.slug, wanted.get("q"), wanted.get("callId"));
    let all = found["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The API returns the newest first, but a log is read downward.
    let shown: Vec<_> = all.iter().rev().filter(|entry| says(entry, q)).collect();
    let hidden = all.len() - shown.len();
    let older = found["nextCursor"].as_str().map(|cursor| wanted.page(cursor));
    let of_call = |call: &str| Some(with_query(&own::place(slug, "log"), [("callId", call)]));
    html! {
        (filters(wanted))
        @if !of_one.is_empty() { (of_one_call(slug, of_one, call)) }
        nav.pager aria-label="Pages of the log" {
            p { (text::counted(shown.len() as u64, "line", "lines")) @if hidden > 0 { ", and the words hide " (hidden) " more" } }
            @if !wanted.get("cursor").is_empty() { a.button.quiet href=(wanted.page("")) { "Newest lines" } }
            @if let Some(older) = &older { a.button href=(older) rel="next" { "Older lines" } }
        }
        @if are_cut(&shown) {
            @let few = wanted.asked.with(&own::place(slug, "log"), &[("lines", FEW)]);
            p.note { "Long lines are cut here, and each says by how much. " a href=(few) { (FEW) " lines at a time, with more of each" } }
        }
        @if wanted.get("cursor").is_empty() { (live()) }
        div #log.log role="log" aria-live="off" aria-label="Log" tabindex="0" data-live=[live_source(wanted)] data-q=(text::plain(q))
            data-page=(wanted.page("")) data-more[older.is_some()] {
            (lines(shown.iter().copied(), q, of_call))
            @if shown.is_empty() { div #nothing { (nothing(visitor, wanted, tool, hidden)) } }
        }
        p.note { a href=(with_query(&format!("/dashboard/api{}/logs", own::source(slug)), wanted.narrowed())) { "These lines as JSON" } }
        (same(visitor, &with_query(&format!("{}/logs", own::source(slug)), wanted.narrowed())))
    }
}

/// Returns the address where the script follows the same lines. `None` for a page of older lines.
fn live_source(wanted: &Wanted) -> Option<String> {
    let asked = wanted.narrowed().into_iter().filter(|(name, _)| *name != "since");
    wanted.get("cursor").is_empty().then(|| with_query(&format!("/dashboard/api{}/logs", own::source(wanted.slug)), asked))
}

fn filters(wanted: &Wanted) -> Markup {
    let [q, level, since, call] = ["q", "level", "since", "callId"].map(|name| wanted.get(name));
    let option = |value: &'static str, name: &'static str, now: &str| html! { option value=(value) selected[value == now] { (name) } };
    html! {
        form.filters action=(own::place(wanted.slug, "log")) {
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
            @if wanted.is_narrow() { a.button.quiet href=(own::place(wanted.slug, "log")) { "Clear" } }
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
            p { a href=(own::place(slug, "calls")) { "All calls" } }
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

fn nothing(visitor: &Visitor, wanted: &Wanted, tool: &Value, hidden: usize) -> Markup {
    let slug = wanted.slug;
    let all = own::place(slug, "log");
    let lines = line(visitor, &format!("/ai/endpoints/{}/logs", segment(slug)));
    if hidden > 0 {
        return empty(&format!("No line here says that; {hidden} others do not."), Some((&all, "Show all lines")), &lines);
    }
    if wanted.is_narrow() || !wanted.get("cursor").is_empty() {
        return empty("No line fits.", Some((&all, "Show all lines")), &lines);
    }
    if tool["capabilities"]["logs"] != true {
        let edit = own::place(slug, "edit");
        let ask = format!(
            "{} \\\n  -X PATCH -H 'content-type: application/json' -d '{{\"capabilities\":{{\"logs\":true}}}}'",
            line(visitor, &format!("/ai/endpoints/{}", segment(slug)))
        );
        return empty("It may write no log: it was not asked for, or waits for an admin.", Some((&edit, "Ask for logs")), &ask);
    }
    let call = format!("curl -s {}/tools/{slug} \\\n  -H 'content-type: application/json' -d '{{}}'", visitor.base_url());
    empty("No call has written a line yet.", Some((&own::place(slug, "edit"), "Run it")), &call)
}
