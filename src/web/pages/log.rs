//! `/dashboard/tools/{slug}/log`: a page of a tool's log in order. With scripts it follows the log
//! live.

use maud::{Markup, html};
use tollhouse_api::{Call, CallPage, LogPage, OwnEndpoint};
use tollhouse_base::plural::plural;
use tollhouse_front::PathParams;
use tollhouse_tool::Capability;

use super::owner_pages;
use crate::{
    Page, PageQuery, PageResult, RawQuery, SignedIn, Tab, Visitor, api_section, curl_command, empty, facts, form, lines,
    lines::{are_cut, contains},
    moment, page_links, segment, state, text, with_query, word,
};

/// Lines of a page, and of a page that shows each line in full.
const LINES: &str = "100";
const FEW: &str = "10";
/// Number of recent calls in which one is searched for.
const CALLS: &str = "200";

/// Choices of the filters: query value and label.
const LEVELS: [(&str, &str); 4] = [("", "all"), ("info", "info"), ("warn", "warn"), ("error", "error")];
const SPANS: [(&str, &str); 5] = [("", "any time"), ("15m", "15 minutes"), ("1h", "1 hour"), ("24h", "24 hours"), ("7d", "7 days")];

/// Filters that the API applies to a log.
const NARROWS: [&str; 3] = ["level", "callId", "since"];

pub(crate) async fn page(SignedIn(visitor): SignedIn, PathParams(slug): PathParams, RawQuery(raw): RawQuery) -> PageResult {
    let filter = LogFilter { slug: &slug, query: PageQuery::read(raw.as_deref(), &["level", "callId", "since", "q", "lines", "cursor"]) };
    let record = owner_pages::record(&visitor, &slug).await?;
    let source = format!("{}/logs", owner_pages::api_path(&slug));
    let limit = if filter.get("lines") == FEW { FEW } else { LINES };
    let fields = filter.narrowed().into_iter().chain([("limit", limit), ("cursor", filter.get("cursor"))]);
    let found = visitor.get::<LogPage>(&with_query(&source, fields)).await?;
    let call = if filter.get("callId").is_empty() { None } else { find_call(&visitor, &slug, filter.get("callId")).await };
    let main = visitor.render(|| view(&visitor, &filter, &record, &found, call.as_ref())).await?;
    let page = owner_pages::page(&visitor, &slug, Tab::Log, format!("Log of {slug}"), &main);
    Ok(visitor.show(Page { script: Some("live.js"), ..page }).await)
}

struct LogFilter<'a> {
    slug: &'a str,
    query: PageQuery,
}

impl LogFilter<'_> {
    fn get(&self, name: &str) -> &str {
        self.query.get(name)
    }

    fn narrowed(&self) -> [(&'static str, &str); 3] {
        NARROWS.map(|name| (name, self.get(name)))
    }

    fn page(&self, cursor: &str) -> String {
        self.query.with(&owner_pages::page_path(self.slug, "log"), &[("cursor", cursor)])
    }

    fn is_narrow(&self) -> bool {
        self.query.has_any(&NARROWS) || !self.get("q").is_empty()
    }
}

/// Finds a call among the recent ones.
async fn find_call(visitor: &Visitor, slug: &str, id: &str) -> Option<Call> {
    let found = visitor.get::<CallPage>(&with_query(&format!("{}/calls", owner_pages::api_path(slug)), [("limit", CALLS)])).await.ok()?;
    found.calls.iter().find(|call| call.call_id.as_str() == id).cloned()
}

fn view(visitor: &Visitor, filter: &LogFilter, tool: &OwnEndpoint, found: &LogPage, call: Option<&Call>) -> Markup {
    let (slug, q, of_one) = (filter.slug, filter.get("q"), filter.get("callId"));
    let all = &found.logs;
    // The API returns the newest first, but a log is read downward.
    let shown: Vec<_> = all.iter().rev().filter(|entry| contains(entry, q)).collect();
    let hidden = all.len() - shown.len();
    let older = found.next_cursor.as_deref().map(|cursor| filter.page(cursor));
    let of_call = |call: &str| Some(with_query(&owner_pages::page_path(slug, "log"), [("callId", call)]));
    html! {
        (filters(filter))
        @if !of_one.is_empty() { (call_section(slug, of_one, call)) }
        nav.pager aria-label="Pages of the log" {
            p { (plural(shown.len(), "line")) @if hidden > 0 { ", " (hidden) " more hidden by the search" } }
            @if !filter.get("cursor").is_empty() { a.button.quiet href=(filter.page("")) { "Newest lines" } }
            @if let Some(older) = &older { a.button href=(older) rel="next" { "Older lines" } }
        }
        @if are_cut(&shown) {
            @let few = filter.query.with(&owner_pages::page_path(slug, "log"), &[("lines", FEW)]);
            p.note { "Long lines are shortened here, each with the number of omitted characters. " a href=(few) { "Show " (FEW) " lines at a time, with more of each" } }
        }
        @if filter.get("cursor").is_empty() { (live()) }
        div #log.log role="log" aria-live="off" aria-label="Log" tabindex="0" data-live=[live_source(filter)] data-q=(text::plain(q))
            data-page=(filter.page("")) data-more[older.is_some()] {
            (lines(shown.iter().copied(), q, of_call))
            @if shown.is_empty() { div #nothing { (empty_log(visitor, filter, tool, hidden)) } }
        }
        p.note { a href=(with_query(&format!("/dashboard/api{}/logs", owner_pages::api_path(slug)), filter.narrowed())) { "See these lines as JSON" } }
        (api_section(visitor, &with_query(&format!("{}/logs", owner_pages::api_path(slug)), filter.narrowed())))
    }
}

/// Returns the address where the script follows the same lines. `None` for a page of older lines.
fn live_source(filter: &LogFilter) -> Option<String> {
    let fields = filter.narrowed().into_iter().filter(|(name, _)| *name != "since");
    filter.get("cursor").is_empty().then(|| with_query(&format!("/dashboard/api{}/logs", owner_pages::api_path(filter.slug)), fields))
}

fn filters(filter: &LogFilter) -> Markup {
    let [q, level, since, call] = ["q", "level", "since", "callId"].map(|name| filter.get(name));
    html! {
        form.filters action=(owner_pages::page_path(filter.slug, "log")) {
            div.field.wide { label for="q" { "Words" } input #q name="q" type="search" value=(text::plain(q)) data-key="/"; }
            (form::select("level", "Minimum level", &LEVELS, level, str::to_owned))
            (form::select("since", "Since", &SPANS, since, |since| format!("from {since}")))
            @if !call.is_empty() { input type="hidden" name="callId" value=(text::plain(call)); }
            button.primary { "Show" }
            @if filter.is_narrow() { a.button.quiet href=(owner_pages::page_path(filter.slug, "log")) { "Clear" } }
        }
    }
}

/// Shows the outcome of the call that the lines belong to.
fn call_section(slug: &str, id: &str, call: Option<&Call>) -> Markup {
    html! {
        section {
            h2 { "One call" }
            (facts::list(&[
                ("Call", Some(facts::id(id))),
                ("Outcome", call.map(|call| state(&word(call.outcome)))),
                ("Reason", call.and_then(|call| call.code.as_deref()).map(|code| html! { code { (text::words(code)) } })),
                ("Time", call.map(|call| moment(call.at))),
                ("Duration", call.map(|call| html! { (format!("{:.1}", call.duration_ms)) " ms" })),
                ("Receipt", call.and_then(|call| call.receipt_id.as_ref()).map(page_links::receipt)),
            ]))
            @if call.is_none() { p.muted { "This call is not among the last " (CALLS) " finished calls." } }
            p { a href=(owner_pages::page_path(slug, "calls")) { "All calls" } }
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

fn empty_log(visitor: &Visitor, filter: &LogFilter, tool: &OwnEndpoint, hidden: usize) -> Markup {
    let slug = filter.slug;
    let all = owner_pages::page_path(slug, "log");
    let lines = curl_command(visitor, &format!("/ai/endpoints/{}/logs", segment(slug)));
    if hidden > 0 {
        return empty(&format!("No line contains these words. Lines without them: {hidden}."), Some((&all, "Show all lines")), &lines);
    }
    if filter.is_narrow() || !filter.get("cursor").is_empty() {
        return empty("No matching lines.", Some((&all, "Show all lines")), &lines);
    }
    if !tool.common.capabilities.has(Capability::Logs) {
        let edit = owner_pages::page_path(slug, "edit");
        let ask = format!(
            "{} \\\n  -X PATCH -H 'content-type: application/json' -d '{{\"capabilities\":{{\"logs\":true}}}}'",
            curl_command(visitor, &format!("/ai/endpoints/{}", segment(slug)))
        );
        return empty(
            "This tool can't write logs: the logs capability was not requested or awaits approval.",
            Some((&edit, "Request logs")),
            &ask,
        );
    }
    let call = format!("curl -s {}/tools/{slug} \\\n  -H 'content-type: application/json' -d '{{}}'", visitor.base_url());
    empty("No log lines yet.", Some((&owner_pages::page_path(slug, "edit"), "Run the tool")), &call)
}
