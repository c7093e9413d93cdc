//! What these pages have in common: who they are for, and what they are made of.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::request::Parts,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    account::session::Kind,
    base::id::RequestId,
    front::{Code, Fault},
    web::{
        parts::text,
        services::Services,
        visitor::{Refused, SignedIn, Visitor, segment},
    },
};

/// Rows of a page.
pub(super) const ROWS: &str = "50";

/// An admin who is signed in. Others are told what the API tells them.
pub(in crate::web) struct Admin(pub(super) Visitor);

impl FromRequestParts<Arc<Services>> for Admin {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, services: &Arc<Services>) -> Result<Self, Response> {
        let SignedIn(visitor) = SignedIn::from_request_parts(parts, services).await.map_err(|refused| refused.into_response())?;
        only_admins(&visitor).map_err(|refused| refused.into_response())?;
        Ok(Self(visitor))
    }
}

/// Refuses others as the API does.
pub(super) fn only_admins(visitor: &Visitor) -> Result<(), Fault> {
    match visitor.kind() {
        Some(Kind::Admin) => Ok(()),
        Some(Kind::Builder | Kind::Holder) | None => Err(Fault::new(Code::NotOwner, "this is for admins")),
    }
}

/// Whether no real money moves here.
pub(super) async fn plays(visitor: &Visitor) -> Result<bool, Refused> {
    Ok(visitor.get("/health").await?["payment"]["simulated"] == true)
}

/// What follows an amount that is not real.
pub(super) fn mark(simulated: bool) -> Markup {
    html! { @if simulated { " " span.play { "simulated" } } }
}

/// The heading of a column of amounts.
pub(super) fn heading(name: &str, simulated: bool) -> String {
    if simulated { format!("{name}, simulated") } else { name.to_owned() }
}

/// What a query says under a name.
pub(super) fn asked(query: Option<&str>, wanted: &str) -> String {
    let found = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// The entries of a list.
pub(super) fn entries<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn said<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// So many of what is called so.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Whose something is, by the id that lists name them by.
pub(super) fn owner(id: &str) -> Markup {
    html! {
        @if id.starts_with("bld_") { a href={ "/dashboard/admin/builders/" (segment(id)) } { code { (text::words(id)) } } }
        @else { (text::words(id)) }
    }
}

/// The name of a tool, which leads to its page.
pub(super) fn tool(slug: &str) -> Markup {
    html! { a href={ "/dashboard/tools/" (segment(slug)) } { code { (text::words(slug)) } } }
}

/// A table that is moved in its box where it is wider than the page.
pub(super) fn table(name: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="group" aria-label=(name) tabindex="0" {
            table {
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// Why it is decided so, in words that somebody else reads.
pub(super) fn reason(id: &str, reader: &str, key: Option<&str>) -> Markup {
    html! {
        div.field.wide {
            label for=(id) { "Reason, which " (reader) " reads" }
            input id=(id) name="some:/reason" maxlength="1000" autocomplete="off" data-key=[key];
        }
    }
}

/// How code runs, by the names that the API has.
pub(super) fn tiers(id: &str, name: &str, now: &str, unsaid: Option<&str>) -> Markup {
    html! {
        select id=(id) name=(name) {
            @if let Some(unsaid) = unsaid { option value="" { (unsaid) } }
            @for tier in ["jit", "jitless"] { option value=(tier) selected[tier == now] { (tier) } }
        }
    }
}

/// From one page to the next of a list that does not say how long it is.
pub(super) fn onward(first: Option<&str>, next: Option<&str>) -> Markup {
    html! {
        @if first.is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                @if let Some(first) = first { a.button.quiet href=(first) { "First page" } }
                @if let Some(next) = next { a.button href=(next) rel="next" { "Next page" } }
            }
        }
    }
}

/// Sent twice, as by two clicks, it is minted once: the page's own key says that it is the same.
pub(super) fn once() -> Markup {
    html! { input type="hidden" name="header:idempotency-key" value=(RequestId::generate()); }
}
