//! `/dashboard/tools/{slug}/calls`: the outcomes of a tool's calls, and sums of failures.

use std::collections::BTreeMap;

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{Call, CallPage, Charged, Metrics, MetricsBucket, ReceiptKind};
use tollhouse_front::{Code, PathParams};

use crate::{
    Area, FollowedList, Number, Page, PageQuery, PageResult, RawQuery, SignedIn, Tab, Visitor, Words, api_section, curl_command, empty,
    follow::{self, named},
    followed, form, lazy_html, moment, money, onward, page_links,
    parts::time_range::{day, series_span},
    segment, state, table, tabs, text, with_query, word,
};

const ROWS: usize = 40;
/// Digits of a version's hash in a row.
const VERSION: usize = 8;

/// Characters of a time, and of a time without seconds.
const MOMENT: usize = 32;
const MINUTES: usize = 16;

/// Selectable outcomes: query value and label.
const OUTCOMES: [(&str, &str); 3] = [("", "all"), ("succeeded", "succeeded"), ("failed", "failed")];

/// Selectable time spans: query value and label.
const SPANS: [(&str, &str); 5] = [("", "all stored calls"), ("1h", "1 hour"), ("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days")];

pub(crate) async fn page(SignedIn(visitor): SignedIn, PathParams(slug): PathParams, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["code", "since", "until", "cursor"]);
    let api = format!("/ai/endpoints/{}", segment(&slug));
    let rows = follow::requested(raw.as_deref(), ROWS);
    let limit = rows.unwrap_or(ROWS).to_string();
    let span = [("since", query.get("since")), ("until", query.get("until"))];
    let fields = [("outcome", query.get("code"))].into_iter().chain(span).chain([("limit", &*limit), ("cursor", query.get("cursor"))]);
    super::owner_pages::record(&visitor, &slug).await?;
    let path = with_query(&format!("{api}/calls"), fields);
    let found = visitor.get::<CallPage>(&path).await?;
    let (from, step) = series_span(query.get("since"), query.get("until"));
    // Calls are kept longer than series, so there may be no sums.
    let series = visitor
        .get::<Metrics>(&with_query(&format!("{api}/metrics"), [("since", from), ("until", query.get("until")), ("step", step)]))
        .await;
    let buckets = series.as_ref().map_or(&[][..], |series| &series.buckets[..]);
    let by_day = series.as_ref().is_ok_and(|series| series.step == "1d");
    let shown = CallsView {
        slug: &slug,
        query: &query,
        path: page_links::tool_path(&slug, "/calls"),
        is_own: visitor.kind() != Some(SessionKind::Admin),
        simulated: visitor.is_simulated().await?,
    };
    let sums = || html! { div #sums { (shown.sums(buckets, by_day)) } };
    if rows.is_some() {
        let parts = || html! { (sums()) (follow::rows(shown.table(&found.calls))) };
        return Ok(visitor.fragment(visitor.render(parts).await?));
    }
    let tabs = tabs::tool_tabs(&visitor, &slug, Tab::Calls);
    let main = lazy_html! {
        (tabs)
        (sums())
        section {
            h2 { "Individual calls" }
            (shown.filters())
            (followed(shown.followed(&api).as_ref(), shown.calls(&visitor, &found, buckets)))
        }
        (api_section(&visitor, &path))
    };
    let main = visitor.render(main).await?;
    let page = Page { script: Some("rows.js"), style: Some("make.css"), ..Page::new(Area::Tools, format!("Calls of {slug}"), main) };
    Ok(visitor.show(page.under("/dashboard", "Tools").under(&page_links::tool_path(&slug, ""), &slug)).await)
}

struct CallsView<'a> {
    slug: &'a str,
    query: &'a PageQuery,
    path: String,
    /// Whether the visitor owns the tool.
    is_own: bool,
    simulated: bool,
}

impl CallsView<'_> {
    /// Shows the sums of all calls, and of failed ones by code.
    fn sums(&self, buckets: &[MetricsBucket], by_day: bool) -> Markup {
        let Some(first) = buckets.first() else { return html! {} };
        // If the buckets are days, the sums begin at the start of the first day.
        let at = first.at.to_string();
        let from = if by_day { day(&at) } else { self.query.get("since") };
        let with_code = |code: &str| self.query.with(&self.path, &[("code", code), ("since", from), ("cursor", "")]);
        let sum = |of: fn(&MetricsBucket) -> u64| buckets.iter().map(of).sum::<u64>();
        let mut codes = BTreeMap::<&str, u64>::new();
        for (code, calls) in buckets.iter().flat_map(|bucket| &bucket.failed) {
            *codes.entry(code).or_default() += calls;
        }
        let (calls, failed) = (sum(|bucket| bucket.calls), codes.values().sum::<u64>());
        let mut codes: Vec<_> = codes.into_iter().collect();
        codes.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
        html! {
            dl.numbers {
                div { dt { "Calls" } dd { a href=(with_code("")) { (calls) } } }
                div { dt { "Succeeded" } dd { a href=(with_code("succeeded")) { (calls.saturating_sub(failed)) } } }
                div { dt { "Failed" } dd { a href=(with_code("failed")) { (failed) } } }
                div { dt { "Charged" } dd { (sum(|bucket| bucket.paid)) } }
            }
            p.note {
                "Totals since " (moment(&at))
                @if !self.query.get("until").is_empty() { " up to " (text::first(self.query.get("until"), MOMENT)) }
                ". " (if self.is_own { "Your own calls" } else { "The owner's calls" }) " are not included."
            }
            @if !codes.is_empty() {
                section {
                    h2 { "Reasons for failures" }
                    (table("Reasons for failures", [Words("Code"), Number("Calls"), Words("Meaning")], codes.iter().map(|(code, calls)| [
                        html! { code { (text::words(code)) } },
                        html! { a href=(with_code(code)) { (calls) } },
                        text::line(meaning(code)),
                    ])))
                }
            }
        }
    }

    fn filters(&self) -> Markup {
        let [code, since, until] = ["code", "since", "until"].map(|name| self.query.get(name));
        html! {
            form.filters action=(self.path) {
                (form::select("code", "Outcome", &OUTCOMES, code, str::to_owned))
                (form::select("since", "Period", &SPANS, since, |since| format!("from {since}")))
                div.field { label for="until" { "Before" } input #until name="until" type="date" value=(text::plain(until)); }
                button { "Show" }
            }
        }
    }

    /// Returns how the script follows the list, or `None` for a page of past calls.
    fn followed(&self, api: &str) -> Option<FollowedList> {
        let is_over = self.query.has_any(&["until", "cursor"]);
        let live = || with_query(&format!("/dashboard/api{api}/calls"), [("outcome", self.query.get("code"))]);
        (!is_over).then(|| FollowedList { live: live(), page: self.query.with(&self.path, &[]), max: None })
    }

    fn calls(&self, visitor: &Visitor, found: &CallPage, buckets: &[MetricsBucket]) -> Markup {
        let (calls, next) = (&found.calls, found.next_cursor.as_deref());
        if calls.is_empty() && next.is_none() {
            let call = format!("curl -si -X POST {}/tools/{}", visitor.base_url(), segment(self.slug));
            let tried = page_links::tool_path(self.slug, "/try");
            if !self.query.has_any(&["code", "since", "until", "cursor"]) {
                return empty("No calls yet.", Some((&tried, "Try the tool")), &call);
            }
            let is_idle = buckets.iter().all(|bucket| bucket.calls == 0) && !self.query.has_any(&["code", "until", "cursor"]);
            if let Some(first) = buckets.first().filter(|_| is_idle) {
                let from: String = first.at.to_string().replace('T', " ").chars().take(MINUTES).collect();
                return empty(&format!("No calls since {from} UTC."), Some((&tried, "Try the tool")), &call);
            }
            let all = curl_command(visitor, &format!("/ai/endpoints/{}/calls", segment(self.slug)));
            return empty("No matching calls.", Some((&self.path, "Show all calls")), &all);
        }
        html! {
            (self.table(calls))
            (onward(calls.len(), self.query, &self.path, next))
        }
    }

    fn table(&self, calls: &[Call]) -> Markup {
        let paid = money::heading("Paid", self.simulated);
        let columns = [
            Words("When"),
            Words("Outcome"),
            Number(&paid),
            Number("Duration, ms"),
            Number("CPU, ms"),
            Number("Input, bytes"),
            Words("Version"),
            Words("Receipt"),
            Words("Log"),
        ];
        table("Calls", columns, calls.iter().map(|call| self.row(call)))
    }

    fn row(&self, call: &Call) -> [Markup; 9] {
        let millis = |millis: f64| format!("{millis:.1}");
        let log = with_query(&page_links::tool_path(self.slug, "/log"), [("callId", call.call_id.as_str())]);
        [
            named(&call.call_id, moment(call.at)),
            ended(call),
            self.paid(call),
            html! { (millis(call.duration_ms)) },
            html! {
                @if let Some(cpu) = call.cpu_ms { (millis(cpu)) }
                @if let Some(cold) = call.cold { " " span.muted { (if cold { "cold" } else { "warm" }) } }
            },
            html! { (call.input_bytes) },
            html! { code { (text::first(call.version.trim_start_matches("sha256:"), VERSION)) } },
            html! { @if let Some(id) = &call.receipt_id { (page_links::receipt_in_brief(id)) } },
            html! { a href=(log) { "log" span.aside { " of " (call.call_id) } } },
        ]
    }

    /// Shows how a call was paid, and whether.
    fn paid(&self, call: &Call) -> Markup {
        let by = html! { (money::usd(call.price_usd)) " by " (word(call.payment)) };
        html! {
            @match call.charged {
                _ if call.schedule.is_some() => { "schedule " code { (text::words(call.schedule.as_ref().map_or("", |run| &run.cron))) } }
                _ if call.owner => { (if self.is_own { "your own call" } else { "the owner's call" }) ", free" }
                _ if call.payment == ReceiptKind::Free => "free",
                Charged::Yes => (by),
                Charged::No => "not charged",
                Charged::Unknown => { (state("unknown")) " " (by) }
            }
        }
    }
}

/// Shows the outcome of a call. Its reason can be unfolded.
fn ended(call: &Call) -> Markup {
    html! {
        (state(&word(call.outcome)))
        @if let Some(code) = &call.code {
            " "
            @match &call.error {
                Some(error) => details { summary { code { (text::words(code)) } } p { (text::line(error)) } },
                None => code { (text::words(code)) },
            }
        }
    }
}

/// Meanings of failures for the tool's owner, with more detail than callers get.
const MEANINGS: [(&str, &str); 5] = [
    ("error_status", "The handler reported a failure, with its status or `isError`"),
    ("handler_failed", "The handler threw an error or did not answer"),
    ("invalid_output", "The handler's answer does not match the output schema"),
    ("payment_required", "Settlement was refused, so the answer was withheld"),
    ("sandbox_crashed", "The worker process stopped during the call"),
];

/// Returns the meaning of a code, from this list or from the table of faults.
fn meaning(code: &str) -> &'static str {
    if let Some((_, words)) = MEANINGS.iter().find(|(known, _)| *known == code) {
        return words;
    }
    Code::ALL.iter().map(|known| known.row()).find(|row| row.name == code).map_or("", |row| row.sentence)
}
