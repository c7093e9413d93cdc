//! The capabilities of a tool, and their meaning.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_tool::Capability;

use super::shared::entries;
use crate::parts::text;

/// Returns the names of the capabilities that are set.
pub(super) fn named(capabilities: &Value) -> impl Iterator<Item = &str> {
    let all = capabilities.as_object().into_iter().flatten();
    all.filter(|(_, there)| **there == true).map(|(name, _)| name.as_str())
}

/// Returns what a capability permits.
pub(super) fn meaning(name: &str) -> &'static str {
    Capability::ALL.iter().map(|known| known.row()).find(|known| known.name == name).map_or("", |known| known.allows)
}

/// Shows a checkbox for each capability and host. Unchecked ones are missing in the decision's
/// `capabilities` and `allowedHosts`.
pub(super) fn parts(id: &str, capabilities: &Value, hosts: &[Value], ticked: bool) -> Markup {
    html! {
        @for name in named(capabilities) {
            div.box {
                input type="hidden" name={ "flag:/capabilities/" (text::plain(name)) } value="false";
                input #{ (id) "-" (text::plain(name)) } type="checkbox" name={ "flag:/capabilities/" (text::plain(name)) } value="true" checked[ticked];
                label for={ (id) "-" (text::plain(name)) } { code { (text::words(name)) } ": may " (meaning(name)) }
            }
        }
        @for (position, host) in hosts.iter().filter_map(Value::as_str).enumerate() {
            div.box {
                input #{ (id) "-host-" (position) } type="checkbox" name="each:/allowedHosts" value=(host) checked[ticked];
                label for={ (id) "-host-" (position) } { "reach " code { (text::words(host)) } }
            }
        }
    }
}

/// Describes what is granted, and what an admin revoked.
pub(super) fn had(tool: &Value) -> Markup {
    let hosts: Vec<_> = entries(tool, "allowedHosts").iter().filter_map(Value::as_str).collect();
    let names: Vec<_> = named(&tool["capabilities"]).collect();
    html! {
        @if names.is_empty() { "nothing" } @else { (names.join(", ")) }
        @if !hosts.is_empty() { "; hosts: " @for (position, host) in hosts.iter().enumerate() { @if position > 0 { ", " } code { (text::words(host)) } } }
    }
}
