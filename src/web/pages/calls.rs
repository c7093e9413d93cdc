//! `/dashboard/tools/{slug}/calls`: the outcomes of a tool's calls, and sums of failures.

use std::collections::BTreeMap;

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::session::SessionKind;
use tollhouse_front::{Code, PathParams};

use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::{line, same},
        empty::empty,
        follow::{self, FollowedList, followed, named},
        money, page_links,
        pager::onward,
        state::state,
        table::{Column, table},
        tabs::{self, Tab},
        text,
        time::moment,
        time_range::{day, of_series},
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, Visitor, segment, with_query},
};

/// Rows of a page.
const ROWS: usize = 40;
/// Digits of a version's hash in a row.
const VERSION: usize = 8;

/// Characters of a time, and of a time without seconds.
const MOMENT: usize = 32;
const MINUTES: usize = 16;

/// Selectable time spans: query value and label.
const SPANS: [(&str, &str); 5] =
    [("", "as far as they are kept"), ("1h", "an hour"), ("24h", "a day"), ("7d", "7 days"), ("30d", "30 days")];

pub(crate) async fn page(
    SignedIn(visitor): SignedIn,
    PathParams(slug): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["code", "since", "until", "cursor"]);
    let api = format!("/ai/endpoints/{}", segment(&slug));
    let rows = follow::requested(query.as_deref(), ROWS);
    let limit = rows.unwrap_or(ROWS).to_string();
    let span = [("since", request.get("since")), ("until", request.get("until"))];
    let fields = [("outcome", request.get("code"))].into_iter().chain(span).chain([("limit", &*limit), ("cursor", request.get("cursor"))]);
    super::owner_pages::record(&visitor, &slug).await?;
    let path = with_query(&format!("{api}/calls"), fields);
    let found = visitor.get(&path).await?;
    let (from, step) = of_series(request.get("since"), request.get("until"));
    // Calls are kept longer than series, so there may be no sums.
    let series = visitor
        .get(&with_query(&format!("{api}/metrics"), [("since", from), ("until", request.get("until")), ("step", step)]))
        .await
        .unwrap_or_default();
    let owner = if visitor.kind() == Some(SessionKind::Admin) { ToolViewer::Others } else { ToolViewer::Own };
    let shown = CallsView {
        slug: &slug,
        requested: &request,
        path: page_links::of_tool(&slug, "/calls"),
        viewer: owner,
        simulated: visitor.plays().await?,
    };
    let sums = || html! { div #sums { (shown.sums(&series)) } };
    if rows.is_some() {
        let parts = || html! { (sums()) (follow::rows(shown.table(listed(&found)))) };
        return Ok(visitor.part(visitor.made(parts).await?));
    }
    let tabs = tabs::of_tool(&visitor, &slug, Tab::Calls);
    let main = visitor
        .made(|| {
            html! {
                (tabs)
                (sums())
                section {
                    h2 { "Each call" }
                    (shown.filters())
                    (followed(shown.followed(&api).as_ref(), shown.calls(&visitor, &found, &series)))
                }
                (same(&visitor, &path))
            }
        })
        .await?;
    let page = Page { script: Some("rows.js"), style: Some("make.css"), ..Page::new(Area::Tools, format!("Calls of {slug}"), main) };
    Ok(visitor.show(page.under("/dashboard", "Tools").under(&page_links::of_tool(&slug, ""), &slug)).await)
}

/// The relation of the visitor to the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolViewer {
    Own,
    Others,
}

impl ToolViewer {
    /// Returns how to name the owner's calls.
    fn owners(self) -> &'static str {
        match self {
            Self::Own => "your own",
            Self::Others => "its owner's",
        }
    }
}

/// The data of the page.
struct CallsView<'a> {
    slug: &'a str,
    requested: &'a PageQuery,
    /// Path of this page.
    path: String,
    viewer: ToolViewer,
    simulated: bool,
}

impl CallsView<'_> {
    /// Shows the sums of all calls, and of failed ones by code.
    fn sums(&self, series: &Value) -> Markup {
        let buckets = series["buckets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(first) = buckets.first() else { return html! {} };
        // If the buckets are days, the sums begin at the start of the first day.
        let from = if series["step"] == "1d" { day(first["at"].as_str().unwrap_or_default()) } else { self.requested.get("since") };
        let with_code = |code: &str| self.requested.with(&self.path, &[("code", code), ("since", from), ("cursor", "")]);
        let sum = |name: &str| buckets.iter().filter_map(|bucket| bucket[name].as_u64()).sum::<u64>();
        let mut codes = BTreeMap::<&str, u64>::new();
        for (code, calls) in buckets.iter().flat_map(|bucket| bucket["failed"].as_object()).flatten() {
            *codes.entry(code).or_default() += calls.as_u64().unwrap_or_default();
        }
        let (calls, failed) = (sum("calls"), codes.values().sum::<u64>());
        let mut codes: Vec<_> = codes.into_iter().collect();
        codes.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
        html! {
            dl.numbers {
                div { dt { "Calls" } dd { a href=(with_code("")) { (calls) } } }
                div { dt { "Succeeded" } dd { a href=(with_code("succeeded")) { (calls.saturating_sub(failed)) } } }
                div { dt { "Failed" } dd { a href=(with_code("failed")) { (failed) } } }
                div { dt { "Charged" } dd { (sum("paid")) } }
            }
            p.note {
                "Added up from " (moment(&first["at"])) " on"
                @if !self.requested.get("until").is_empty() { ", up to " (text::first(self.requested.get("until"), MOMENT)) }
                ". " (if self.viewer == ToolViewer::Own { "Your own calls" } else { "Its owner's calls" }) " are not among them."
            }
            @if !codes.is_empty() {
                section {
                    h2 { "Why they failed" }
                    (table("Why calls failed", [Column::Words("Code"), Column::Number("Calls"), Column::Words("What it means")], codes.iter().map(|(code, calls)| [
                        html! { code { (text::words(code)) } },
                        html! { a href=(with_code(code)) { (calls) } },
                        text::line(meaning(code)),
                    ])))
                }
            }
        }
    }

    fn filters(&self) -> Markup {
        let [code, since, until] = ["code", "since", "until"].map(|name| self.requested.get(name));
        let option =
            |value: &str, name: &str, now: &str| html! { option value=(text::plain(value)) selected[value == now] { (text::plain(name)) } };
        html! {
            form.filters action=(self.path) {
                div.field {
                    label for="code" { "Ended" }
                    select #code name="code" {
                        (option("", "in any way", code)) (option("succeeded", "succeeded", code)) (option("failed", "failed", code))
                        @if !["", "succeeded", "failed"].contains(&code) { (option(code, code, code)) }
                    }
                }
                div.field {
                    label for="since" { "Going back" }
                    select #since name="since" {
                        @for (span, name) in SPANS { (option(span, name, since)) }
                        @if SPANS.iter().all(|(span, _)| *span != since) { (option(since, &format!("from {since}"), since)) }
                    }
                }
                div.field { label for="until" { "Before" } input #until name="until" type="date" value=(text::plain(until)); }
                button { "Show" }
            }
        }
    }

    /// Returns how the script follows the list, or `None` for a page of past calls.
    fn followed(&self, api: &str) -> Option<FollowedList> {
        let is_over = ["until", "cursor"].iter().any(|name| !self.requested.get(name).is_empty());
        let live = || with_query(&format!("/dashboard/api{api}/calls"), [("outcome", self.requested.get("code"))]);
        (!is_over).then(|| FollowedList { live: live(), page: self.requested.with(&self.path, &[]), max: None })
    }

    fn calls(&self, visitor: &Visitor, found: &Value, series: &Value) -> Markup {
        let calls = listed(found);
        let next = found["nextCursor"].as_str().map(|cursor| self.requested.with(&self.path, &[("cursor", cursor)]));
        let first = (!self.requested.get("cursor").is_empty()).then(|| self.requested.with(&self.path, &[("cursor", "")]));
        if calls.is_empty() && next.is_none() {
            let call = format!("curl -si -X POST {}/tools/{}", visitor.base_url(), segment(self.slug));
            let tried = page_links::of_tool(self.slug, "/try");
            let narrows = |names: &[&str]| names.iter().any(|name| !self.requested.get(name).is_empty());
            if !narrows(&["code", "since", "until", "cursor"]) {
                return empty("Nobody has called it yet.", Some((&tried, "Try it")), &call);
            }
            let buckets = series["buckets"].as_array().filter(|buckets| buckets.iter().all(|bucket| bucket["calls"] == 0));
            if let Some(first) = buckets.and_then(|buckets| buckets.first()).filter(|_| !narrows(&["code", "until", "cursor"])) {
                let from: String = first["at"].as_str().unwrap_or_default().replace('T', " ").chars().take(MINUTES).collect();
                return empty(&format!("Nobody has called it since {from} UTC."), Some((&tried, "Try it")), &call);
            }
            let all = line(visitor, &format!("/ai/endpoints/{}/calls", segment(self.slug)));
            return empty("No call fits.", Some((&self.path, "Show all calls")), &all);
        }
        html! {
            (self.table(calls))
            (onward(calls.len(), first.as_deref(), next.as_deref()))
        }
    }

    fn table(&self, calls: &[Value]) -> Markup {
        let paid = money::heading("Paid", self.simulated);
        let columns = [
            Column::Words("When"),
            Column::Words("Ended"),
            Column::Number(&paid),
            Column::Number("Took, ms"),
            Column::Number("Processor, ms"),
            Column::Number("Input, bytes"),
            Column::Words("Version"),
            Column::Words("Receipt"),
            Column::Words("Log"),
        ];
        table("Calls", columns, calls.iter().map(|call| self.row(call)))
    }

    fn row(&self, call: &Value) -> [Markup; 9] {
        let describe = |name: &str| call[name].as_str().unwrap_or_default();
        let millis = |name: &str| html! { @if let Some(millis) = call[name].as_f64() { (format!("{millis:.1}")) } };
        [
            named(describe("callId"), moment(&call["at"])),
            ended(call),
            self.paid(call),
            millis("durationMs"),
            html! {
                (millis("cpuMs"))
                @if let Some(cold) = call["cold"].as_bool() { " " span.muted { (if cold { "cold" } else { "warm" }) } }
            },
            html! { (call["inputBytes"]) },
            html! { code { (text::first(describe("version").trim_start_matches("sha256:"), VERSION)) } },
            html! { @if let Some(id) = call["receiptId"].as_str() { (page_links::receipt_in_brief(id)) } },
            html! { a href=(with_query(&page_links::of_tool(self.slug, "/log"), [("callId", describe("callId"))])) { "log" span.aside { " of " (describe("callId")) } } },
        ]
    }

    /// Shows how a call was paid, and whether.
    fn paid(&self, call: &Value) -> Markup {
        let method = call["payment"].as_str().unwrap_or_default();
        html! {
            @if call["owner"] == true { (self.viewer.owners()) ", free" }
            @else if method == "free" { "free" }
            @else {
                @match &call["charged"] {
                    Value::Bool(true) => { (money::usd(&call["priceUsd"])) " by " (text::words(method)) }
                    Value::Bool(false) => { "not charged" }
                    _ => { (state("unknown")) " " (money::usd(&call["priceUsd"])) " by " (text::words(method)) }
                }
            }
        }
    }
}

/// Returns the calls of an answer.
fn listed(found: &Value) -> &[Value] {
    found["calls"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Shows the outcome of a call. Its reason can be unfolded.
fn ended(call: &Value) -> Markup {
    html! {
        (state(call["outcome"].as_str().unwrap_or_default()))
        @if let Some(code) = call["code"].as_str() {
            " "
            @match call["error"].as_str() {
                Some(error) => details { summary { code { (text::words(code)) } } p { (text::line(error)) } },
                None => code { (text::words(code)) },
            }
        }
    }
}

/// Meanings of failures for the tool's owner, with more detail than callers get.
const MEANINGS: [(&str, &str); 5] = [
    ("error_status", "the handler told of a failure itself, by the status of its answer or by `isError`"),
    ("handler_failed", "the handler threw an error, or never came to an answer; nothing was charged"),
    ("invalid_output", "the handler's answer does not fit the output schema; nothing was charged"),
    ("payment_required", "the payment was refused when it was to be taken; the answer was kept back"),
    ("sandbox_crashed", "the process that the handler ran in ended under it; nothing was charged"),
];

/// Returns the meaning of a code, from this list or from the table of faults.
fn meaning(code: &str) -> &'static str {
    if let Some((_, words)) = MEANINGS.iter().find(|(known, _)| *known == code) {
        return words;
    }
    Code::ALL.iter().map(|known| known.row()).find(|row| row.name == code).map_or("", |row| row.sentence)
}
