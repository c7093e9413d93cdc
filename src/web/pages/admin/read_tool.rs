//! A tool as an admin has read it. Decisions apply to that revision.

use maud::{Markup, html};
use tollhouse_api::{OwnEndpoint, ReviewState};

use crate::{Visitor, form};

/// A tool as read, and the page that its forms lead back to.
pub(super) struct ReadTool<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) slug: &'a str,
    pub(super) tool: &'a OwnEndpoint,
    pub(super) back: &'a str,
}

impl ReadTool<'_> {
    pub(super) fn form(&self, decision: &str, fields: Markup) -> Markup {
        let fields = html! {
            (form::revision(self.tool.revision))
            input type="hidden" name="text:/decision" value=(decision);
            (fields)
        };
        form::operation(self.visitor, "decideReview", &[("slug", self.slug)], self.back, fields)
    }

    /// Returns whether held content, capabilities or hosts wait for a decision.
    pub(super) fn waits(&self) -> bool {
        self.has_requests() || self.is_held()
    }

    /// Returns whether it requests capabilities or hosts.
    pub(super) fn has_requests(&self) -> bool {
        self.tool.requested_capabilities.names().next().is_some() || !self.tool.requested_hosts.is_empty()
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.tool.review.state, ReviewState::ContentReview | ReviewState::ContentBlocked)
    }
}
