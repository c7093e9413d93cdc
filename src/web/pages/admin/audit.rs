//! `/dashboard/admin/audit`: who changed what, the last first.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shared::{Admin, ROWS, asked, entries, onward, owner, said, table, tool};
use crate::web::{
    page::{Area, Page},
    parts::{code, empty::empty, form, sample::quoted, state::state, text, time::moment},
    visitor::{Refused, with_query},
};

const PATH: &str = "/dashboard/admin/audit";

/// What is asked for; each is in the address.
struct Wanted {
    since: String,
    actor: String,
    slug: String,
}

impl Wanted {
    fn fields(&self) -> [(&str, &str); 3] {
        [("since", &self.since), ("actor", &self.actor), ("slug", &self.slug)]
    }
}

pub(in crate::web) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, Refused> {
    let read = |name| asked(query.as_deref(), name);
    let (wanted, cursor) = (Wanted { since: read("since"), actor: read("actor"), slug: read("slug") }, read("cursor"));
    let api = with_query("/ai/admin/audit", wanted.fields());
    let found =
        visitor.get(&with_query("/ai/admin/audit", wanted.fields().into_iter().chain([("limit", ROWS), ("cursor", &*cursor)]))).await?;
    let main = visitor
        .made(|| {
            let command = format!("curl -s -H \"X-Admin-Token: $TOKEN\" {}", quoted(&format!("{}{api}", visitor.base_url())));
            html! {
                (filters(&wanted))
                (trail(&found, &wanted, !cursor.is_empty()))
                section { h2 { "The same without this page" } (code::block("Command", "sh", &command)) }
            }
        })
        .await?;
    Ok(visitor.show(Page::new(Area::Audit, "Audit", main)).await)
}

fn filters(wanted: &Wanted) -> Markup {
    let field = |id: &'static str, label: &str, note: &str, value: &str| {
        form::field(
            id,
            label,
            Some(note),
            html! { input id=(id) name=(id) value=(text::plain(value)) autocomplete="off" spellcheck="false"; },
        )
    };
    html! {
        form.filters role="search" aria-label="Audit trail" action=(PATH) {
            (field("since", "How far back", "such as 24h, 30d", &wanted.since))
            (field("actor", "Who", "admin, or a builder's id", &wanted.actor))
            (field("slug", "Tool", "its slug", &wanted.slug))
            button.primary { "Show" }
        }
        @if wanted.fields().iter().any(|(_, value)| !value.is_empty()) { p.chips { a href=(PATH) { "Clear" } } }
    }
}

fn trail(found: &Value, wanted: &Wanted, is_later: bool) -> Markup {
    let first = with_query(PATH, wanted.fields());
    let next = found["nextCursor"].as_str().map(|cursor| with_query(PATH, wanted.fields().into_iter().chain([("cursor", cursor)])));
    let trail = entries(found, "entries");
    html! {
        @if trail.is_empty() { (empty("Nothing was changed that fits.", Some((PATH, "All of the trail")), None)) }
        @else {
            (table("Trail", &["When", "Who", "What", "On", "Fields", "How it ended"], &html! { @for entry in trail { (row(entry)) } }))
            (onward(is_later.then_some(&*first), next.as_deref()))
        }
    }
}

fn row(entry: &Value) -> Markup {
    let fields: Vec<_> = entries(entry, "fields").iter().filter_map(Value::as_str).collect();
    let status = entry["outcome"]["status"].as_u64();
    html! {
        tr {
            th scope="row" { (moment(&entry["at"])) }
            td { @match entry["actor"]["builderId"].as_str() { Some(id) => (owner(id)), None => "admin" } }
            td { (said(entry, "method")) " " code { (text::words(said(entry, "path"))) } }
            td {
                @if let Some(slug) = entry["slug"].as_str() { (tool(slug)) }
                @if let Some(id) = entry["builderId"].as_str() { " " (owner(id)) }
            }
            td { (text::words(&fields.join(", "))) }
            td {
                @match status {
                    None => { (state("unknown")) " it is under way, or the host ended before it did" }
                    Some(status @ 200..300) => { (state("done")) span.aside { " " (status) } }
                    Some(status) => { (state("refused")) " " (status) " " code { (text::words(said(&entry["outcome"], "code"))) } }
                }
            }
        }
    }
}
