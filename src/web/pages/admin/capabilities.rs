//! What a tool may touch, and what it means to let it.

use maud::{Markup, html};
use serde_json::Value;

use super::shared::entries;
use crate::web::parts::text;

/// Each by its name, with what granting it allows.
const MEANINGS: [(&str, &str); 4] = [
    ("kv", "keep values of its own between calls, up to its limits"),
    ("files", "keep files of its own between calls, up to its limits"),
    ("httpGetJson", "have this host ask the hosts that it was allowed, and read the JSON that they answer; nothing else of the network"),
    ("logs", "write lines that its builder reads, also what callers sent to it"),
];

/// The names of those that are there.
pub(super) fn named(capabilities: &Value) -> impl Iterator<Item = &str> {
    let all = capabilities.as_object().into_iter().flatten();
    all.filter(|(_, there)| **there == true).map(|(name, _)| name.as_str())
}

/// What granting one allows.
pub(super) fn meaning(name: &str) -> &'static str {
    MEANINGS.iter().find(|(known, _)| *known == name).map_or("do what this page has no words for", |(_, words)| words)
}

/// Parts that can be ticked, each by itself: what is not is left out of the decision's `capabilities` and `allowedHosts`.
pub(super) fn parts(id: &str, capabilities: &Value, hosts: &[Value], ticked: bool) -> Markup {
    html! {
        @for name in named(capabilities) {
            div.box {
                input type="hidden" name={ "flag:/capabilities/" (text::plain(name)) } value="false";
                input #{ (id) "-" (text::plain(name)) } type="checkbox" name={ "flag:/capabilities/" (text::plain(name)) } value="true" checked[ticked];
                label for={ (id) "-" (text::plain(name)) } { code { (text::words(name)) } ": may " (meaning(name)) }
            }
        }
        @for (place, host) in hosts.iter().filter_map(Value::as_str).enumerate() {
            div.box {
                input #{ (id) "-host-" (place) } type="checkbox" name="each:/allowedHosts" value=(host) checked[ticked];
                label for={ (id) "-host-" (place) } { "reach " code { (text::words(host)) } }
            }
        }
    }
}

/// What is granted, and what an admin took away, in a sentence each.
pub(super) fn had(tool: &Value) -> Markup {
    let hosts: Vec<_> = entries(tool, "allowedHosts").iter().filter_map(Value::as_str).collect();
    let names: Vec<_> = named(&tool["capabilities"]).collect();
    html! {
        @if names.is_empty() { "nothing" } @else { (names.join(", ")) }
        @if !hosts.is_empty() { "; hosts: " @for (place, host) in hosts.iter().enumerate() { @if place > 0 { ", " } code { (text::words(host)) } } }
    }
}
