//! Tasks for a builder: tools that wait for or got a decision, tools that fail often, and money
//! without a payout address.

use maud::{Markup, html};
use serde_json::Value;

use super::view::{HomeView, PATH};
use crate::{
    parts::{
        money, page_links,
        state::state,
        text::{self, counted},
        time::moment,
    },
    visitor::with_query,
};

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
    let tools = shown.checked_at["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let decided = tools.iter().filter_map(decided);
    let waiting = tools.iter().filter_map(waiting);
    let stopped = tools.iter().filter_map(stopped);
    let sealed = tools.iter().filter_map(sealed);
    let failing = shown.report["byEndpoint"].as_array().into_iter().flatten().filter_map(|line| failing(shown, line));
    let needs: Vec<_> = decided.chain(sealed).chain(stopped).chain(failing).chain(payout(shown)).chain(waiting).collect();
    let builder = shown.requested.get("builderId");
    html! {
        section aria-labelledby="needs" {
            h2 #needs { "Needs you" }
            @if needs.is_empty() { p.muted { "Nothing needs you." } }
            ul.rows {
                @for BuilderTask { words, path, action } in needs.iter().take(MAX) { li { p { (words) } a.button href=(path) { (action) } } }
            }
            @if needs.len() > MAX { p.note { "And " (needs.len() - MAX) " more." } }
            @if shown.checked_at["nextCursor"].is_string() {
                p.note { "Looked through: the first " (tools.len()) " tools. " a href=(with_query(PATH, [("builderId", builder)])) { "The others are in the list" } "." }
            }
        }
    }
}

/// A tool that takes no calls because of a decision, or until there is one.
fn decided(tool: &Value) -> Option<BuilderTask> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    let (words, action, below) = match tool["state"].as_str().unwrap_or_default() {
        "held" => ("waits for an admin, and takes no calls", "See why", "/settings"),
        "rejected" => ("was not let through", "Change it", "/edit"),
        "taken_down" => ("was taken down", "See why", "/settings"),
        "suspended" => ("takes no calls while its owner is suspended", "See it", "/settings"),
        _ => return None,
    };
    let reason = tool["decision"]["reason"].as_str().filter(|reason| !reason.is_empty());
    Some(BuilderTask {
        words: html! {
            (page_links::tool(slug)) " " (words)
            @if tool["since"].is_string() { " since " (moment(&tool["since"])) }
            @if let Some(reason) = reason { ": " (text::summary(reason, 160)) } @else { "." }
        },
        path: page_links::of_tool(slug, below),
        action,
    })
}

/// A tool that requests more capabilities or hosts.
fn waiting(tool: &Value) -> Option<BuilderTask> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    let asks = tool["requestedCapabilities"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, request)| **request == true)
        .map(|(name, _)| name.as_str());
    let hosts = tool["requestedHosts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let request: Vec<_> = asks.chain(hosts).collect();
    let listed = request.join(", ");
    (!request.is_empty()).then(|| BuilderTask {
        words: html! { (page_links::tool(slug)) " asks for " (text::summary(&listed, 120)) ", which an admin has not granted yet." },
        path: page_links::of_tool(slug, ""),
        action: "See what it asks",
    })
}

/// A tool of whose calls more than one in twenty failed.
fn failing(shown: &HomeView, line: &Value) -> Option<BuilderTask> {
    let (calls, failed) = (line["calls"].as_u64()?, line["failedCalls"].as_u64()?);
    let slug = line["endpointSlug"].as_str()?;
    let since = shown.first();
    (failed * ONE_OF > calls).then(|| BuilderTask {
        words: html! { (page_links::tool(slug)) ": " (failed) " of " (counted(calls, "call", "calls")) " failed in 30 days." },
        path: with_query(&page_links::of_tool(slug, "/calls"), [("code", "failed"), ("since", since)]),
        action: "See the failures",
    })
}

/// A tool whose calls are refused for a while, because its code was stopped too often.
fn stopped(tool: &Value) -> Option<BuilderTask> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    let seconds = tool["heldForMs"].as_u64()?.div_ceil(1_000);
    Some(BuilderTask {
        words: html! {
            (page_links::tool(slug)) " " (state("held")) ": its code was stopped again and again, and its calls are refused for " (seconds) " seconds more."
        },
        path: with_query(&page_links::of_tool(slug, "/calls"), [("code", "failed")]),
        action: "See what was stopped",
    })
}

/// A tool whose secrets cannot be decrypted.
fn sealed(tool: &Value) -> Option<BuilderTask> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    (tool["secretsUnreadable"] == true).then(|| BuilderTask {
        words: html! { (page_links::tool(slug)) " has secrets that the host has no key for any more: its calls are refused until they are set anew." },
        path: page_links::of_tool(slug, "/secrets"),
        action: "Set them anew",
    })
}

/// Money that waits for a payout address, or for a payout.
fn payout(shown: &HomeView) -> Option<BuilderTask> {
    let (settings, waiting) = (&shown.payouts["payoutSettings"], &shown.payouts["waiting"]);
    let [amount, least] = [&waiting["amountUsd"], &settings["minimumUsd"]].map(money::in_micros);
    let path = with_query("/dashboard/payouts", [("builderId", shown.requested.get("builderId"))]);
    let receipts = waiting["receiptCount"].as_u64().unwrap_or_default();
    let waits =
        html! { (money::usd(&waiting["amountUsd"])) (money::mark(shown.simulated)) " of " (counted(receipts, "receipt", "receipts")) };
    if amount == 0 || amount < least {
        return None;
    }
    Some(match settings.is_null() {
        true => BuilderTask {
            words: html! { (waits) " " (if receipts == 1 { "waits" } else { "wait" }) " to be paid out, and it is not said yet where payouts go." },
            path,
            action: "Say where",
        },
        false => BuilderTask { words: html! { (waits) " can be paid out." }, path, action: "Make a packet" },
    })
}
