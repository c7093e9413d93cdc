//! Decisions about a tool: one form for each, for the revision that was read.

use maud::{Markup, html};

use super::{
    capabilities::{named, parts},
    read_tool::ReadTool,
    shared::{entries, reason, reason_field, text_of, tiers},
    takedown,
    tool_limits::caps,
};
use crate::parts::form;

/// Returns the forms for pending requests.
pub(super) fn answers(read: &ReadTool) -> Markup {
    let tool = read.tool;
    let asks = named(&tool["requestedCapabilities"]).next().is_some() || read.asks_hosts();
    html! {
        (read.form("approve", html! {
            h3 { "Approve" }
            p.note { @if read.is_held() { "Its content is released. " } @if asks { "What is ticked is granted; what is not is refused." } }
            @if asks {
                fieldset {
                    legend { "Grant" }
                    // The list must be present even if no box is checked: without it, all requested
                    // hosts would be granted.
                    input type="hidden" name="each:/allowedHosts" value="";
                    (parts("grant", &tool["requestedCapabilities"], entries(tool, "requestedHosts"), true))
                }
            }
            (caps("cap", tool))
            (form::field("tier", "Tier", None, tiers("tier", "some:/tier", "", Some("as it is"))))
            (reason("why-approve", "its builder"))
            button.primary data-key="a" { "Approve" }
        }))
        (read.form("reject", html! {
            h3 { "Reject" }
            p.note { @if read.is_held() { "Its content stays held back; it answers no call. " } @if asks { "Nothing of what is asked is granted." } }
            (reason_field("why-reject", "Reason to reject, which its builder reads", Some("r")))
            button { "Reject" }
        }))
    }
}

/// Returns the forms for other decisions.
pub(super) fn others(read: &ReadTool) -> Markup {
    let tool = read.tool;
    let hosts = entries(tool, "allowedHosts");
    let has = named(&tool["capabilities"]).next().is_some() || !hosts.is_empty();
    let last = text_of(&tool["review"]["decision"], "decision");
    html! {
        @if matches!(last, "approve" | "reject") {
            details.way {
                summary { "Undo the last decision" }
                (read.form("reopen", html! {
                    p.note { "What was decided on waits again, as it did." }
                    (reason("why-reopen", "its builder"))
                    button { "Reopen" }
                }))
            }
        }
        @if has {
            details.way {
                summary { "Take something back" }
                (read.form("revoke", html! {
                    p.note { "Calls under way lose what is ticked at their next use of it; asking gives nothing of it back, only an approval does." }
                    fieldset {
                        legend { "Take back" }
                        input type="hidden" name="each:/allowedHosts" value="";
                        (parts("revoke", &tool["capabilities"], hosts, false))
                    }
                    (reason("why-revoke", "its builder"))
                    button { "Take back" }
                }))
            }
        }
        @if !read.waits() {
            details.way {
                summary { "Cap it, or set its tier" }
                (read.form("approve", html! {
                    p.note { "For this tool alone, beside what the policy says." }
                    (caps("cap", tool))
                    (form::field("tier", "Tier", None, tiers("tier", "some:/tier", text_of(tool, "tierCap"), Some("as it is"))))
                    (reason("why-cap", "its builder"))
                    button { "Set" }
                }))
            }
        }
        (takedown::offer(read.visitor, read.slug, tool, read.back))
    }
}
