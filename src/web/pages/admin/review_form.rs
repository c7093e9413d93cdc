//! Decisions about a tool: one form for each, for the revision that was read.

use maud::{Markup, html};
use tollhouse_api::OwnEndpoint;
use tollhouse_protocol::limits::TABLE;
use tollhouse_tool::{ANY_PUBLIC_HOST, ReviewAction};

use super::{
    capabilities::parts,
    read_tool::ReadTool,
    shared::{reason, reason_field, tiers},
    takedown,
};
use crate::form;

/// Returns the forms for pending requests.
pub(super) fn answers(read: &ReadTool) -> Markup {
    let tool = read.tool;
    let asks = read.has_requests();
    html! {
        (read.form("approve", html! {
            h3 { "Approve" }
            p.note { @if read.is_held() { "Releases the content. " } @if asks { "Grants the selected requests and refuses the rest." } }
            @if asks {
                fieldset {
                    legend { "Grant" }
                    // The list must be present even if no box is checked: without it, all requested
                    // hosts would be granted.
                    input type="hidden" name="each:/allowedHosts" value="";
                    (parts("grant", &tool.requested_capabilities, &tool.requested_hosts, true))
                }
            }
            (caps("cap", tool))
            (form::field("tier", "Tier", None, tiers("tier", "some:/tier", None, Some("unchanged"))))
            (reason("why-approve", "the builder"))
            button.primary data-key="a" { "Approve" }
        }))
        (read.form("reject", html! {
            h3 { "Reject" }
            p.note { @if read.is_held() { "The content stays blocked, and the tool takes no calls. " } @if asks { "Grants none of the requests." } }
            (reason_field("why-reject", "Reason for the rejection, shown to the builder", Some("r")))
            button { "Reject" }
        }))
    }
}

pub(super) fn others(read: &ReadTool) -> Markup {
    let tool = read.tool;
    let has = tool.common.capabilities.names().next().is_some() || !tool.allowed_hosts.is_empty();
    let last = tool.review.decision.as_ref().map(|record| record.decision);
    html! {
        @if matches!(last, Some(ReviewAction::Approve | ReviewAction::Reject)) {
            details.way {
                summary { "Undo the last decision" }
                (read.form("reopen", html! {
                    p.note { "The tool waits for review again, as before the decision." }
                    (reason("why-reopen", "the builder"))
                    button { "Reopen" }
                }))
            }
        }
        @if has {
            details.way {
                summary { "Revoke grants" }
                (read.form("revoke", html! {
                    p.note { "Running calls lose the selected grants the next time they use them. Only an approval can restore the grants." }
                    fieldset {
                        legend { "Revoke" }
                        input type="hidden" name="each:/allowedHosts" value="";
                        (parts("revoke", &tool.common.capabilities, &tool.allowed_hosts, false))
                    }
                    (reason("why-revoke", "the builder"))
                    button { "Revoke" }
                }))
            }
        }
        @if !read.waits() {
            details.way {
                summary { "Set caps or the tier" }
                (read.form("approve", html! {
                    p.note { "Applies only to this tool, in addition to the policy." }
                    (caps("cap", tool))
                    (form::field("tier", "Tier", None, tiers("tier", "some:/tier", Some(tool.tier_cap), Some("unchanged"))))
                    (reason("why-cap", "the builder"))
                    button { "Save" }
                }))
            }
        }
        @if !read.waits() && !tool.allowed_hosts.iter().any(|host| host == ANY_PUBLIC_HOST) {
            details.way {
                summary { "Grant any public host" }
                (read.form("approve", html! {
                    p.note { "Its owner can then list " code { (ANY_PUBLIC_HOST) } ". Private addresses stay unreachable." }
                    input type="hidden" name="each:/allowedHosts" value=(ANY_PUBLIC_HOST);
                    (reason("why-grant", "the builder"))
                    button { "Grant any public host" }
                }))
            }
        }
        (takedown::offer(read.visitor, read.slug, tool, read.back))
    }
}

/// Shows a field for each limit of the tool. An empty one leaves the limit unchanged.
fn caps(id: &str, tool: &OwnEndpoint) -> Markup {
    html! {
        details.way {
            summary { "Caps" @if let set @ 1.. = tool.limit_caps.0.len() { " (" (set) " set)" } }
            p.note { "A number sets a cap, " code { "null" } " removes it, and an empty field keeps it." }
            div.caps {
                @for row in TABLE {
                    @let cap = tool.limit_caps.get(row.name);
                    div.field {
                        label for={ (id) "-" (row.name) } { code { (row.name) } ", " (row.unit) }
                        input #{ (id) "-" (row.name) } name={ "json:/limits/" (row.name) } autocomplete="off" pattern="[0-9]+|null" placeholder=[cap];
                        p.note { "In force: " (tool.limits.get(row.name).unwrap_or(row.default)) @if cap.is_some() { ", capped" } }
                    }
                }
            }
        }
    }
}
