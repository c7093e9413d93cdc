//! Tabs between the pages of a tool's owner.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;

use crate::visitor::{Visitor, segment};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Tool,
    Edit,
    Versions,
    Calls,
    Log,
    Secrets,
    Settings,
    Review,
}

/// Path below the tool's page, and label, of each tab.
const ALL: [(Tab, &str, &str); 7] = [
    (Tab::Tool, "", "Tool"),
    (Tab::Edit, "/edit", "Edit"),
    (Tab::Versions, "/versions", "Versions"),
    (Tab::Calls, "/calls", "Calls"),
    (Tab::Log, "/log", "Log"),
    (Tab::Secrets, "/secrets", "Secrets"),
    (Tab::Settings, "/settings", "Settings"),
];

/// Returns the tabs of a tool, with the current one marked.
pub(crate) fn tool_tabs(visitor: &Visitor, slug: &str, here: Tab) -> Markup {
    let slug = segment(slug).to_string();
    let current = |tab: Tab| (tab == here).then_some("page");
    html! {
        nav.tabs aria-label="Tool" {
            @for (tab, below, name) in ALL { a href={ "/dashboard/tools/" (slug) (below) } aria-current=[current(tab)] { (name) } }
            @if visitor.kind() == Some(SessionKind::Admin) {
                a href={ "/dashboard/admin/reviews/" (slug) } aria-current=[current(Tab::Review)] { "Review" }
            }
        }
    }
}
