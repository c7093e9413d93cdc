//! Tasks for a builder: tools that wait for or got a decision, tools that fail often, and money
//! without a payout address.

use maud::{Markup, html};
use serde_json::Value;

use super::shown::{PATH, Shown};
use crate::{
    parts::{
        money, places,
        state::state,
        text::{self, counted},
        time::moment,
    },
    visitor::with_query,
};

/// Maximum shown tasks.
const MOST: usize = 20;
/// A tool is reported if more than one in this many calls fails.
const ONE_OF: u64 = 20;

/// A task for the builder, with a link.
struct Need {
    words: Markup,
    path: String,
    action: &'static str,
}

pub(super) fn view(shown: &Shown) -> Markup {
    let tools = shown.looked_at["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let decided = tools.iter().filter_map(decided);
    let waiting = tools.iter().filter_map(waiting);
    let stopped = tools.iter().filter_map(stopped);
    let sealed = tools.iter().filter_map(sealed);
    let failing = shown.report["byEndpoint"].as_array().into_iter().flatten().filter_map(|line| failing(shown, line));
    let needs: Vec<_> = decided.chain(sealed).chain(stopped).chain(failing).chain(payout(shown)).chain(waiting).collect();
    let builder = shown.asked.get("builderId");
    html! {
        section aria-labelledby="needs" {
            h2 #needs { "Needs you" }
            @if needs.is_empty() { p.muted { "Nothing needs you." } }
            ul.rows {
                @for Need { words, path, action } in needs.iter().take(MOST) { li { p { (words) } a.button href=(path) { (action) } } }
            }
            @if needs.len() > MOST { p.note { "And " (needs.len() - MOST) " more." } }
            @if shown.looked_at["nextCursor"].is_string() {
                p.note { "Looked through: the first " (tools.len()) " tools. " a href=(with_query(PATH, [("builderId", builder)])) { "The others are in the list" } "." }
            }
        }
    }
}

/// A tool that takes no calls because of a decision, or until there is one.
fn decided(tool: &Value) -> Option<Need> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    let (words, action, below) = match tool["state"].as_str().unwrap_or_default() {
        "held" => ("waits for an admin, and takes no calls", "See why", "/settings"),
        "rejected" => ("was not let through", "Change it", "/edit"),
        "taken_down" => ("was taken down", "See why", "/settings"),
        "suspended" => ("takes no calls while its owner is suspended", "See it", "/settings"),
        _ => return None,
    };
    let reason = tool["decision"]["reason"].as_str().filter(|reason| !reason.is_empty());
    Some(Need {
        words: html! {
            (places::tool(slug)) " " (words)
            @if tool["since"].is_string() { " since " (moment(&tool["since"])) }
            @if let Some(reason) = reason { ": " (text::summary(reason, 160)) } @else { "." }
        },
        path: places::of_tool(slug, below),
        action,
    })
}

/// A tool that requests more capabilities or hosts.
fn waiting(tool: &Value) -> Option<Need> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    let asks =
        tool["requestedCapabilities"].as_object().into_iter().flatten().filter(|(_, asked)| **asked == true).map(|(name, _)| name.as_str());
    let hosts = tool["requestedHosts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let asked: Vec<_> = asks.chain(hosts).collect();
    let listed = asked.join(", ");
    (!asked.is_empty()).then(|| Need {
        words: html! { (places::tool(slug)) " asks for " (text::summary(&listed, 120)) ", which an admin has not granted yet." },
        path: places::of_tool(slug, ""),
        action: "See what it asks",
    })
}

/// A tool of whose calls more than one in twenty failed.
fn failing(shown: &Shown, line: &Value) -> Option<Need> {
    let (calls, failed) = (line["calls"].as_u64()?, line["failedCalls"].as_u64()?);
    let slug = line["endpointSlug"].as_str()?;
    let since = shown.first();
    (failed * ONE_OF > calls).then(|| Need {
        words: html! { (places::tool(slug)) ": " (failed) " of " (counted(calls, "call", "calls")) " failed in 30 days." },
        path: with_query(&places::of_tool(slug, "/calls"), [("code", "failed"), ("since", since)]),
        action: "See the failures",
    })
}

/// A tool whose calls are refused for a while, because its code was stopped too often.
fn stopped(tool: &Value) -> Option<Need> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    let seconds = tool["heldForMs"].as_u64()?.div_ceil(1_000);
    Some(Need {
        words: html! {
            (places::tool(slug)) " " (state("held")) ": its code was stopped again and again, and its calls are refused for " (seconds) " seconds more."
        },
        path: with_query(&places::of_tool(slug, "/calls"), [("code", "failed")]),
        action: "See what was stopped",
    })
}

/// A tool whose secrets cannot be decrypted.
fn sealed(tool: &Value) -> Option<Need> {
    let slug = tool["slug"].as_str().unwrap_or_default();
    (tool["secretsUnreadable"] == true).then(|| Need {
        words: html! { (places::tool(slug)) " has secrets that the host has no key for any more: its calls are refused until they are set anew." },
        path: places::of_tool(slug, "/secrets"),
        action: "Set them anew",
    })
}

/// Money that waits for a payout address, or for a payout.
fn payout(shown: &Shown) -> Option<Need> {
    let (settings, waiting) = (&shown.payouts["payoutSettings"], &shown.payouts["waiting"]);
    let [amount, least] = [&waiting["amountUsd"], &settings["minimumUsd"]].map(money::in_micros);
    let path = with_query("/dashboard/payouts", [("builderId", shown.asked.get("builderId"))]);
    let receipts = waiting["receiptCount"].as_u64().unwrap_or_default();
    let waits =
        html! { (money::usd(&waiting["amountUsd"])) (money::mark(shown.simulated)) " of " (counted(receipts, "receipt", "receipts")) };
    if amount == 0 || amount < least {
        return None;
    }
    Some(match settings.is_null() {
        true => Need {
            words: html! { (waits) " " (if receipts == 1 { "waits" } else { "wait" }) " to be paid out, and it is not said yet where payouts go." },
            path,
            action: "Say where",
        },
        false => Need { words: html! { (waits) " can be paid out." }, path, action: "Make a packet" },
    })
}
