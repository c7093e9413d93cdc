//! `/dashboard/admin/audit`: the changes and who made them, latest first.

use maud::{Markup, html};
use tollhouse_api::{AuditEntry, AuditPage};

use super::shared::{Admin, ROWS, owner};
use crate::{
    Area, Page, PageQuery, PageResult, RawQuery, Visitor, Words, api_section, curl_command, empty, form, lazy_html, moment, onward,
    page_links::tool, state, table, text, with_query,
};

const PATH: &str = "/dashboard/admin/audit";

/// Query fields of the page.
const FILTERS: [&str; 3] = ["since", "actor", "slug"];

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["since", "actor", "slug", "cursor"]);
    let fields = FILTERS.map(|name| (name, query.get(name)));
    let api = with_query("/ai/admin/audit", fields);
    let paged = fields.into_iter().chain([("limit", ROWS), ("cursor", query.get("cursor"))]);
    let found = visitor.get::<AuditPage>(&with_query("/ai/admin/audit", paged)).await?;
    let main = lazy_html! {
        (filters(&query))
        (trail(&visitor, &found, &query))
        (api_section(&visitor, &api))
    };
    let main = visitor.render(main).await?;
    Ok(visitor.show(Page::new(Area::Audit, "Audit", main)).await)
}

fn filters(query: &PageQuery) -> Markup {
    let field = |id: &'static str, label: &str, note: &str| {
        form::field(
            id,
            label,
            Some(note),
            html! { input id=(id) name=(id) value=(text::plain(query.get(id))) autocomplete="off" spellcheck="false"; },
        )
    };
    html! {
        form.filters role="search" aria-label="Audit trail" action=(PATH) {
            (field("since", "How far back", "for example 24h or 30d"))
            (field("actor", "Who", "admin, or a builder's id"))
            (field("slug", "Tool", "slug"))
            button.primary { "Show" }
        }
        @if query.has_any(&FILTERS) { p.chips { a href=(PATH) { "Clear" } } }
    }
}

fn trail(visitor: &Visitor, AuditPage { entries, next_cursor, .. }: &AuditPage, query: &PageQuery) -> Markup {
    html! {
        @if entries.is_empty() { (empty("No matching changes.", Some((PATH, "Show all changes")), &curl_command(visitor, "/ai/admin/audit"))) }
        @else {
            (table("Audit trail", ["When", "Who", "What", "Target", "Fields", "Outcome"].map(Words), entries.iter().map(row)))
            (onward(entries.len(), query, PATH, next_cursor.as_ref()))
        }
    }
}

fn row(entry: &AuditEntry) -> [Markup; 6] {
    [
        moment(entry.at),
        html! { @match &entry.actor.builder_id { Some(id) => (owner(id)), None => "admin" } },
        html! { (entry.method) " " code { (text::words(&entry.path)) } },
        html! {
            @if let Some(slug) = &entry.slug { (tool(slug)) }
            @if let Some(id) = &entry.builder_id { " " (owner(id)) }
            @if let (None, None, Some(subject)) = (&entry.slug, &entry.builder_id, &entry.subject) { (owner(subject)) }
        },
        text::words(entry.fields.join(", ")),
        html! {
            @match &entry.outcome {
                None => { (state("unknown")) " (still running, or the host stopped before it ended)" }
                Some(outcome) if (200..300).contains(&outcome.status) => { (state("done")) span.aside { " " (outcome.status) } }
                Some(outcome) => {
                    (state("refused")) " " (outcome.status) " " code { (text::words(outcome.code.as_deref().unwrap_or_default())) }
                }
            }
        },
    ]
}
