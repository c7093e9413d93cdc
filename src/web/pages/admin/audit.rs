//! `/dashboard/admin/audit`: the changes and who made them, latest first.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, entries, owner, said};
use crate::{
    asked::Asked,
    page::{Area, Page},
    parts::{
        empty::empty,
        form,
        pager::onward,
        places::tool,
        same::{line, same},
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    visitor::{Refused, Visitor, with_query},
};

const PATH: &str = "/dashboard/admin/audit";

/// Query fields of the page.
const WANTED: [&str; 3] = ["since", "actor", "slug"];

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, Refused> {
    let asked = Asked::read(query.as_deref(), &["since", "actor", "slug", "cursor"]);
    let wanted = WANTED.map(|name| (name, asked.get(name)));
    let api = with_query("/ai/admin/audit", wanted);
    let paged = wanted.into_iter().chain([("limit", ROWS), ("cursor", asked.get("cursor"))]);
    let found = visitor.get(&with_query("/ai/admin/audit", paged)).await?;
    let main = visitor
        .made(|| {
            html! {
                (filters(&asked))
                (trail(&visitor, &found, &asked))
                (same(&visitor, &api))
            }
        })
        .await?;
    Ok(visitor.show(Page::new(Area::Audit, "Audit", main)).await)
}

fn filters(asked: &Asked) -> Markup {
    let field = |id: &'static str, label: &str, note: &str| {
        form::field(
            id,
            label,
            Some(note),
            html! { input id=(id) name=(id) value=(text::plain(asked.get(id))) autocomplete="off" spellcheck="false"; },
        )
    };
    html! {
        form.filters role="search" aria-label="Audit trail" action=(PATH) {
            (field("since", "How far back", "such as 24h, 30d"))
            (field("actor", "Who", "admin, or a builder's id"))
            (field("slug", "Tool", "its slug"))
            button.primary { "Show" }
        }
        @if WANTED.iter().any(|name| !asked.get(name).is_empty()) { p.chips { a href=(PATH) { "Clear" } } }
    }
}

fn trail(visitor: &Visitor, found: &Value, asked: &Asked) -> Markup {
    let trail = entries(found, "entries");
    html! {
        @if trail.is_empty() { (empty("Nothing was changed that fits.", Some((PATH, "All of the trail")), &line(visitor, "/ai/admin/audit"))) }
        @else {
            (table("Trail", ["When", "Who", "What", "On", "Fields", "How it ended"].map(Column::Words), trail.iter().map(row)))
            (onward(trail.len(), asked.first(PATH).as_deref(), asked.next(PATH, found).as_deref()))
        }
    }
}

fn row(entry: &Value) -> [Markup; 6] {
    let fields: Vec<_> = entries(entry, "fields").iter().filter_map(Value::as_str).collect();
    [
        moment(&entry["at"]),
        html! { @match entry["actor"]["builderId"].as_str() { Some(id) => (owner(id)), None => "admin" } },
        html! { (said(entry, "method")) " " code { (text::words(said(entry, "path"))) } },
        html! {
            @if let Some(slug) = entry["slug"].as_str() { (tool(slug)) }
            @if let Some(id) = entry["builderId"].as_str() { " " (owner(id)) }
        },
        text::words(&fields.join(", ")),
        html! {
            @match entry["outcome"]["status"].as_u64() {
                None => { (state("unknown")) " it is under way, or the host ended before it did" }
                Some(status @ 200..300) => { (state("done")) span.aside { " " (status) } }
                Some(status) => { (state("refused")) " " (status) " " code { (text::words(said(&entry["outcome"], "code"))) } }
            }
        },
    ]
}
