//! Taking a tool down and restoring it, on its own page and on its review.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{OwnEndpoint, ReviewState};

use super::{read_tool::ReadTool, shared::reason};
use crate::{Visitor, page_links};

/// Returns the section with the form on the tool's own page, or nothing if the visitor is not an
/// admin.
pub(crate) fn section(visitor: &Visitor, slug: &str, tool: &OwnEndpoint) -> Markup {
    html! {
        @if visitor.kind() == Some(SessionKind::Admin) {
            h2 { "As an admin" }
            (offer(visitor, slug, tool, &page_links::tool_path(slug, "")))
        }
    }
}

pub(super) fn offer(visitor: &Visitor, slug: &str, tool: &OwnEndpoint, back: &str) -> Markup {
    let read = ReadTool { visitor, slug, tool, back };
    html! {
        details.way {
            @if tool.review.state == ReviewState::TakenDown {
                summary { "Restore the tool" }
                (read.form("restore", html! {
                    p.note { "The tool is visible again, in its previous state." }
                    (reason("why-restore", "the builder"))
                    button.primary { "Restore" }
                }))
            } @else {
                summary { "Take the tool down" }
                (read.form("takedown", html! {
                    p.note { "Only the builder and admins can see the tool, and it takes no calls. Running calls lose their grants at once. If such a call fails, it is not charged, unless the tool charges before the run." }
                    (reason("why-takedown", "the builder"))
                    button.danger { "Take down" }
                }))
            }
        }
    }
}
