//! A tool as an admin has read it. Decisions apply to that revision.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    capabilities::named,
    shared::{entries, text_of},
};
use crate::{parts::form, visitor::Visitor};

/// A tool as read, and the page that its forms lead back to.
pub(super) struct ReadTool<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) slug: &'a str,
    pub(super) tool: &'a Value,
    pub(super) back: &'a str,
}

impl ReadTool<'_> {
    /// Returns the form for a decision.
    pub(super) fn form(&self, decision: &str, fields: Markup) -> Markup {
        let fields = html! {
            (form::onto(self.tool["revision"].as_u64().unwrap_or_default()))
            input type="hidden" name="text:/decision" value=(decision);
            (fields)
        };
        form::of(self.visitor, "decideReview", &[("slug", self.slug)], self.back, fields)
    }

    /// Returns whether held content, capabilities or hosts wait for a decision.
    pub(super) fn waits(&self) -> bool {
        named(&self.tool["requestedCapabilities"]).next().is_some() || self.asks_hosts() || self.is_held()
    }

    pub(super) fn asks_hosts(&self) -> bool {
        !entries(self.tool, "requestedHosts").is_empty()
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(text_of(&self.tool["review"], "state"), "content_review" | "content_blocked")
    }
}
