//! Taking a tool down and restoring it, on its own page and on its review.

use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_api::{OwnEndpoint, ReviewState};

use super::{read_tool::ReadTool, shared::reason};
use crate::{parts::page_links, visitor::Visitor};

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
                summary { "Put it back" }
                (read.form("restore", html! {
                    p.note { "It is seen again, in the state that it was in, and takes calls if it did." }
                    (reason("why-restore", "its builder"))
                    button.primary { "Restore" }
                }))
            } @else {
                summary { "Take it down" }
                (read.form("takedown", html! {
                    p.note { "Nobody but its builder and admins sees it from then on, and it takes no call. Calls under way lose what they may touch at once; who paid for one that fails is not charged." }
                    (reason("why-takedown", "its builder"))
                    button.danger { "Take down" }
                }))
            }
        }
    }
}
