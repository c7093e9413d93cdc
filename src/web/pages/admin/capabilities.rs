//! The capabilities of a tool, and their meaning.

use maud::{Markup, html};
use tollhouse_api::OwnEndpoint;
use tollhouse_tool::{Capabilities, Capability};

use crate::text;

/// Returns what a capability permits.
pub(super) fn meaning(name: &str) -> &'static str {
    Capability::ALL.iter().map(|known| known.row()).find(|known| known.name == name).map_or("", |known| known.allows)
}

/// Shows a checkbox for each capability and host. Unchecked ones are missing in the decision's
/// `capabilities` and `allowedHosts`.
pub(super) fn parts(id: &str, capabilities: &Capabilities, hosts: &[String], ticked: bool) -> Markup {
    html! {
        @for name in capabilities.names() {
            div.box {
                input type="hidden" name={ "flag:/capabilities/" (text::plain(name)) } value="false";
                input #{ (id) "-" (text::plain(name)) } type="checkbox" name={ "flag:/capabilities/" (text::plain(name)) } value="true" checked[ticked];
                label for={ (id) "-" (text::plain(name)) } { code { (text::words(name)) } ": can " (meaning(name)) }
            }
        }
        @for (position, host) in hosts.iter().enumerate() {
            div.box {
                input #{ (id) "-host-" (position) } type="checkbox" name="each:/allowedHosts" value=(host) checked[ticked];
                label for={ (id) "-host-" (position) } { "reach " code { (text::words(host)) } }
            }
        }
    }
}

/// Describes what is granted.
pub(super) fn granted(tool: &OwnEndpoint) -> Markup {
    let names: Vec<_> = tool.common.capabilities.names().collect();
    html! {
        @if names.is_empty() { "none" } @else { (names.join(", ")) }
        @if !tool.allowed_hosts.is_empty() {
            "; hosts: "
            @for (position, host) in tool.allowed_hosts.iter().enumerate() { @if position > 0 { ", " } code { (text::words(host)) } }
        }
    }
}
