//! `/dashboard/admin/builders`: who is registered here, the oldest first.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, asked, entries, onward, owner, said, table};
use crate::web::{
    page::{Area, Page},
    parts::{empty::empty, state::state, text, time::moment},
    visitor::{Refused, Visitor, with_query},
};

pub(super) const PATH: &str = "/dashboard/admin/builders";

pub(in crate::web) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, Refused> {
    let cursor = asked(query.as_deref(), "cursor");
    let found = visitor.get(&with_query("/ai/admin/builders", [("limit", ROWS), ("cursor", &*cursor)])).await?;
    let main = visitor.made(|| view(&visitor, &found, !cursor.is_empty())).await?;
    Ok(visitor.show(Page::new(Area::Builders, "Builders", main)).await)
}

fn view(visitor: &Visitor, found: &Value, is_later: bool) -> Markup {
    let builders = entries(found, "builders");
    let next = found["nextCursor"].as_str().map(|cursor| with_query(PATH, [("cursor", cursor)]));
    let command = format!("curl -s -H \"X-Admin-Token: $TOKEN\" {}/ai/admin/builders", visitor.base_url());
    html! {
        @if builders.is_empty() { (empty("Nobody has registered yet.", Some(("/guides/build-a-tool", "How builders do")), Some(&command))) }
        @else {
            (table("Builders", &["Builder", "Name", "Contact", "Registered", "Key made", "State", "Tier"], &html! { @for builder in builders { (row(builder)) } }))
            (onward(is_later.then_some(PATH), next.as_deref()))
        }
    }
}

fn row(builder: &Value) -> Markup {
    html! {
        tr {
            th scope="row" { (owner(said(builder, "builderId"))) }
            td { (text::words(said(builder, "name"))) }
            td { (text::words(said(builder, "contact"))) }
            td { (moment(&builder["createdAt"])) }
            td { (moment(&builder["keyCreatedAt"])) }
            td { (state(if builder["suspended"].is_null() { "active" } else { "suspended" })) }
            td { (said(builder, "tier")) }
        }
    }
}
