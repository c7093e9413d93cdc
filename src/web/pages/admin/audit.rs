//! `/dashboard/admin/audit`: the changes and who made them, latest first.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, entries, owner, text_of};
use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::{line, same},
        empty::empty,
        form,
        page_links::tool,
        pager::onward,
        state::state,
        table::{Column, table},
        text,
        time::moment,
    },
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, with_query},
};

const PATH: &str = "/dashboard/admin/audit";

/// Query fields of the page.
const WANTED: [&str; 3] = ["since", "actor", "slug"];

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["since", "actor", "slug", "cursor"]);
    let requested = WANTED.map(|name| (name, request.get(name)));
    let api = with_query("/ai/admin/audit", requested);
    let paged = requested.into_iter().chain([("limit", ROWS), ("cursor", request.get("cursor"))]);
    let found = visitor.get(&with_query("/ai/admin/audit", paged)).await?;
    let main = visitor
        .made(|| {
            html! {
                (filters(&request))
                (trail(&visitor, &found, &request))
                (same(&visitor, &api))
            }
        })
        .await?;
    Ok(visitor.show(Page::new(Area::Audit, "Audit", main)).await)
}

fn filters(request: &PageQuery) -> Markup {
    let field = |id: &'static str, label: &str, note: &str| {
        form::field(
            id,
            label,
            Some(note),
            html! { input id=(id) name=(id) value=(text::plain(request.get(id))) autocomplete="off" spellcheck="false"; },
        )
    };
    html! {
        form.filters role="search" aria-label="Audit trail" action=(PATH) {
            (field("since", "How far back", "such as 24h, 30d"))
            (field("actor", "Who", "admin, or a builder's id"))
            (field("slug", "Tool", "its slug"))
            button.primary { "Show" }
        }
        @if WANTED.iter().any(|name| !request.get(name).is_empty()) { p.chips { a href=(PATH) { "Clear" } } }
    }
}

fn trail(visitor: &Visitor, found: &Value, request: &PageQuery) -> Markup {
    let trail = entries(found, "entries");
    html! {
        @if trail.is_empty() { (empty("Nothing was changed that fits.", Some((PATH, "All of the trail")), &line(visitor, "/ai/admin/audit"))) }
        @else {
            (table("Trail", ["When", "Who", "What", "On", "Fields", "How it ended"].map(Column::Words), trail.iter().map(row)))
            (onward(trail.len(), request.first(PATH).as_deref(), request.next(PATH, found).as_deref()))
        }
    }
}

fn row(entry: &Value) -> [Markup; 6] {
    let fields: Vec<_> = entries(entry, "fields").iter().filter_map(Value::as_str).collect();
    [
        moment(&entry["at"]),
        html! { @match entry["actor"]["builderId"].as_str() { Some(id) => (owner(id)), None => "admin" } },
        html! { (text_of(entry, "method")) " " code { (text::words(text_of(entry, "path"))) } },
        html! {
            @if let Some(slug) = entry["slug"].as_str() { (tool(slug)) }
            @if let Some(id) = entry["builderId"].as_str() { " " (owner(id)) }
        },
        text::words(&fields.join(", ")),
        html! {
            @match entry["outcome"]["status"].as_u64() {
                None => { (state("unknown")) " it is under way, or the host ended before it did" }
                Some(status @ 200..300) => { (state("done")) span.aside { " " (status) } }
                Some(status) => { (state("refused")) " " (status) " " code { (text::words(text_of(&entry["outcome"], "code"))) } }
            }
        },
    ]
}
