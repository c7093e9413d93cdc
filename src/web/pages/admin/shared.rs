//! Shared parts of the admin pages: access and components.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use maud::{Markup, html};
use tollhouse_account::session::SessionKind;
use tollhouse_base::id::RequestId;
use tollhouse_front::{ApiError, Code};
use tollhouse_protocol::Tier;

use crate::{IntoResponse as _, Response, Services, SignedIn, Visitor, form, segment, text, word};

pub(super) const ROWS: &str = "50";

/// A signed-in admin. Others get the API's refusal.
pub(crate) struct Admin(pub(super) Visitor);

impl FromRequestParts<Arc<Services>> for Admin {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, services: &Arc<Services>) -> Result<Self, Response> {
        let SignedIn(visitor) = SignedIn::from_request_parts(parts, services).await.map_err(|refused| refused.into_response())?;
        only_admins(&visitor).map_err(|refused| refused.into_response())?;
        Ok(Self(visitor))
    }
}

/// Refuses visitors who are not admins, as the API does.
pub(super) fn only_admins(visitor: &Visitor) -> Result<(), ApiError> {
    match visitor.kind() {
        Some(SessionKind::Admin) => Ok(()),
        Some(SessionKind::Builder | SessionKind::Holder) | None => Err(ApiError::new(Code::NotOwner, "only admins can do this")),
    }
}

pub(super) fn owner(id: impl AsRef<str>) -> Markup {
    let id = id.as_ref();
    html! {
        @if id.starts_with("bld_") { a href={ "/dashboard/admin/builders/" (segment(id)) } { code { (text::words(id)) } } }
        @else { (text::words(id)) }
    }
}

/// Shows an owner by name, if it is known.
pub(super) fn owner_by_name(id: impl AsRef<str>, name: Option<&str>) -> Markup {
    match name {
        Some(name) => html! { a href={ "/dashboard/admin/builders/" (segment(&id)) } { (text::words(name)) } },
        None => owner(id),
    }
}

/// The subject of decisions, and the page that their forms lead back to.
pub(super) struct DecisionTarget<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) operation: &'static str,
    pub(super) id: &'a str,
    pub(super) back: &'a str,
}

impl DecisionTarget<'_> {
    pub(super) fn form(&self, decision: &str, fields: Markup) -> Markup {
        let fields = html! { input type="hidden" name="text:/decision" value=(decision); (fields) };
        form::operation(self.visitor, self.operation, &[("id", self.id)], self.back, fields)
    }
}

/// Returns the field for the reason of a decision, which `reader` can see.
pub(super) fn reason(id: &str, reader: &str) -> Markup {
    reason_field(id, &format!("Reason, shown to {reader}"), None)
}

/// Returns the field for a reason, with this label. The label must name the action if a keyboard
/// shortcut leads to the field.
pub(super) fn reason_field(id: &str, label: &str, key: Option<&str>) -> Markup {
    html! {
        div.field.wide {
            label for=(id) { (label) }
            input id=(id) name="some:/reason" maxlength=(tollhouse_tool::public_texts::MAX_DECISION_REASON) autocomplete="off" data-key=[key];
        }
    }
}

/// Returns the choice of tiers, with their names in the API. `unset` is the text of an empty choice.
pub(super) fn tiers(id: &str, name: &str, now: Option<Tier>, unset: Option<&str>) -> Markup {
    html! {
        select id=(id) name=(name) {
            @if let Some(unset) = unset { option value="" { (unset) } }
            @for tier in [Tier::Jit, Tier::Jitless] { option value=(word(tier)) selected[Some(tier) == now] { (word(tier)) } }
        }
    }
}

/// Returns a hidden idempotency key, so that a double click creates a credit only once.
pub(super) fn once() -> Markup {
    html! { input type="hidden" name="header:idempotency-key" value=(RequestId::generate()); }
}
