//! Tasks for a builder: tools that wait for or got a decision, tools that fail often, and money
//! without a payout address.

use maud::{Markup, html};
use tollhouse_api::{EndpointRevenue, EndpointSummary};
use tollhouse_base::plural::plural;
use tollhouse_tool::EndpointState;

use super::view::{HomeView, PATH};
use crate::{moment, money, page_links, state, text, with_query};

/// Maximum shown tasks.
const MAX: usize = 20;
/// A tool is reported if more than one in this many calls fails.
const ONE_OF: u64 = 20;

/// A task for the builder, with a link.
struct BuilderTask {
    words: Markup,
    path: String,
    action: &'static str,
}

pub(super) fn view(shown: &HomeView) -> Markup {
    let tools = &shown.checked.endpoints;
    let decided = tools.iter().filter_map(decided);
    let waiting = tools.iter().filter_map(waiting);
    let stopped = tools.iter().filter_map(stopped);
    let sealed = tools.iter().filter_map(sealed);
    let failing = shown.report.by_endpoint.iter().filter_map(|line| failing(shown, line));
    let needs: Vec<_> = decided.chain(sealed).chain(stopped).chain(failing).chain(payout(shown)).chain(waiting).collect();
    let builder = shown.query.get("builderId");
    html! {
        section aria-labelledby="needs" {
            h2 #needs { "Needs your attention" }
            @if needs.is_empty() { p.muted { "Nothing needs your attention." } }
            ul.rows {
                @for BuilderTask { words, path, action } in needs.iter().take(MAX) { li { p { (words) } a.button href=(path) { (action) } } }
            }
            @if needs.len() > MAX { p.note { "And " (needs.len() - MAX) " more." } }
            @if shown.checked.next_cursor.is_some() {
                p.note { "Only the first " (tools.len()) " tools were checked. " a href=(with_query(PATH, [("builderId", builder)])) { "See all tools" } "." }
            }
        }
    }
}

/// A tool that takes no calls because of a decision, or until there is one.
fn decided(tool: &EndpointSummary) -> Option<BuilderTask> {
    let (words, action, below) = match tool.brief.state {
        EndpointState::Held => ("waits for review and takes no calls", "See why", "/settings"),
        EndpointState::Rejected => ("was rejected", "Edit the tool", "/edit"),
        EndpointState::TakenDown => ("was taken down", "See why", "/settings"),
        EndpointState::Suspended => ("takes no calls while its owner is suspended", "See the tool", "/settings"),
        EndpointState::Active | EndpointState::Paused => return None,
    };
    let reason = tool.brief.decision.as_ref().and_then(|decision| decision.reason.as_deref()).filter(|reason| !reason.is_empty());
    Some(BuilderTask {
        words: html! {
            (page_links::tool(&tool.brief.slug)) " " (words)
            @if let Some(since) = tool.brief.since { " since " (moment(since)) }
            @if let Some(reason) = reason { ": " (text::summary(reason, 160)) } @else { "." }
        },
        path: page_links::tool_path(&tool.brief.slug, below),
        action,
    })
}

/// A tool that requests more capabilities or hosts.
fn waiting(tool: &EndpointSummary) -> Option<BuilderTask> {
    let hosts = tool.brief.requested_hosts.iter().map(String::as_str);
    let query: Vec<_> = tool.brief.requested_capabilities.names().map(|name| name as &str).chain(hosts).collect();
    (!query.is_empty()).then(|| BuilderTask {
        words: html! {
            (page_links::tool(&tool.brief.slug)) " requests " (text::summary(&query.join(", "), 120)) ", which an admin has not granted yet."
        },
        path: page_links::tool_path(&tool.brief.slug, ""),
        action: "See the request",
    })
}

/// A tool of whose calls more than one in twenty failed.
fn failing(shown: &HomeView, line: &EndpointRevenue) -> Option<BuilderTask> {
    let (slug, calls, failed) = (&line.endpoint_slug, line.totals.calls, line.totals.failed_calls);
    (failed * ONE_OF > calls).then(|| BuilderTask {
        words: html! { (page_links::tool(slug)) ": " (failed) " of " (plural(calls, "call")) " failed in 30 days." },
        path: with_query(&page_links::tool_path(slug, "/calls"), [("code", "failed"), ("since", &*shown.first())]),
        action: "See the failures",
    })
}

/// A tool whose calls are refused for a while, because its code was stopped too often.
fn stopped(tool: &EndpointSummary) -> Option<BuilderTask> {
    let seconds = tool.held_for_ms?.div_ceil(1_000);
    Some(BuilderTask {
        words: html! {
            (page_links::tool(&tool.brief.slug)) " " (state("held")) ": its code was stopped repeatedly. Its calls are refused for another " (seconds) " seconds."
        },
        path: with_query(&page_links::tool_path(&tool.brief.slug, "/calls"), [("code", "failed")]),
        action: "See the stopped calls",
    })
}

/// A tool whose secrets cannot be decrypted.
fn sealed(tool: &EndpointSummary) -> Option<BuilderTask> {
    tool.secrets_unreadable.then(|| BuilderTask {
        words: html! { (page_links::tool(&tool.brief.slug)) " has secrets that the host cannot decrypt. Its calls are refused until the secrets are set again." },
        path: page_links::tool_path(&tool.brief.slug, "/secrets"),
        action: "Set them again",
    })
}

/// Money that waits for a payout address, or for a payout.
fn payout(shown: &HomeView) -> Option<BuilderTask> {
    let (settings, waiting) = (shown.payouts.payout_settings.as_ref(), &shown.payouts.waiting);
    if waiting.amount_usd.is_zero() || settings.is_some_and(|settings| waiting.amount_usd < settings.minimum_usd) {
        return None;
    }
    let path = with_query("/dashboard/payouts", [("builderId", shown.query.get("builderId"))]);
    let receipts = waiting.receipt_count;
    let waits = html! { (money::amount(waiting.amount_usd, shown.simulated)) " of " (plural(receipts, "receipt")) };
    Some(match settings {
        None => BuilderTask {
            words: html! { (waits) " " (if receipts == 1 { "waits" } else { "wait" }) " to be paid out, but no payout address is set." },
            path,
            action: "Set an address",
        },
        Some(_) => BuilderTask { words: html! { (waits) " can be paid out." }, path, action: "Create a payout" },
    })
}
