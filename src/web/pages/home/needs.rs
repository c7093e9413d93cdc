//! What needs a builder: tools that wait for an admin or were decided about, tools that fail often, money that has nowhere to go.

use maud::{Markup, html};
use serde_json::Value;

use super::shown::{PATH, Shown};
use crate::web::{
    parts::{places, since::day, state::state, text, time::moment},
    visitor::with_query,
};

/// Entries that are shown.
const MOST: usize = 20;
/// Of so many calls of a tool one may fail.
const ONE_OF: u64 = 20;

/// One thing that needs its builder, and where it is done.
struct Need {
    words: Markup,
    path: String,
    action: &'static str,
}

pub(super) fn view(shown: &Shown) -> Markup {
    let tools = shown.looked_at["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let decided = tools.iter().filter_map(decided);
    let waiting = tools.iter().filter_map(waiting);
    let failing = shown.report["byEndpoint"].as_array().into_iter().flatten().filter_map(|line| failing(shown, line));
    let needs: Vec<_> = decided.chain(failing).chain(unpaid(shown)).chain(waiting).collect();
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
                p.note { "Looked through: the first " (tools.len()) " of your tools. " a href=(with_query(PATH, [("builderId", builder)])) { "The others are in the list" } "." }
            }
        }
    }
}

/// A tool that does not take calls, by an admin or until one decides.
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

/// A tool that asks to touch more than it may.
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
        action: "See it",
    })
}

/// A tool of whose calls more than one of twenty failed.
fn failing(shown: &Shown, line: &Value) -> Option<Need> {
    let (calls, failed) = (line["calls"].as_u64()?, line["failedCalls"].as_u64()?);
    let slug = line["endpointSlug"].as_str()?;
    let since = day(shown.report["since"].as_str().unwrap_or_default());
    (failed * ONE_OF > calls).then(|| Need {
        words: html! { (places::tool(slug)) " " (state("failed")) " in " (failed) " of " (calls) " calls in 30 days." },
        path: with_query(&places::of_tool(slug, "/calls"), [("code", "failed"), ("since", since)]),
        action: "See the failures",
    })
}

/// Money was earned, and it is not said where it goes.
fn unpaid(shown: &Shown) -> Option<Need> {
    let earned = shown.report["totals"]["netUsd"].as_f64() > Some(0.0);
    (earned && shown.payout_settings.is_null()).then(|| Need {
        words: html! { "You have earned, and it is not said yet where payouts go." },
        path: with_query("/dashboard/payouts", [("builderId", shown.asked.get("builderId"))]),
        action: "Say where",
    })
}
