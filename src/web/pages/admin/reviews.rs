//! `/dashboard/admin/reviews`: pending decisions, oldest first.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    capabilities,
    shared::{Admin, ROWS, counted, entries, owner_by_name, text_of},
};
use crate::{
    page::{Area, Page},
    parts::{cli_hint::line, empty::empty, form, pager::pager, state::state, text, time::moment},
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

const PATH: &str = "/dashboard/admin/reviews";

/// Maximum names of hosts and rules in a row.
const NAMED: usize = 5;

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["cursor"]);
    let found = visitor.get(&with_query("/ai/admin/reviews", [("limit", ROWS), ("cursor", request.get("cursor"))])).await?;
    let main = visitor.made(|| html! { (view(&visitor, &found, &request)) (rescan(&visitor)) }).await?;
    Ok(visitor.show(Page::new(Area::Reviews, "Reviews", main)).await)
}

fn view(visitor: &Visitor, found: &Value, request: &PageQuery) -> Markup {
    let (reviews, total) = (entries(found, "reviews"), found["total"].as_u64().unwrap_or_default());
    let command = line(visitor, "/ai/admin/audit");
    html! {
        p.lead { "What builders published or ask for, and you decide about. What waits longest comes first." }
        @if reviews.is_empty() { (empty("Nothing waits for you.", Some(("/dashboard/admin/audit", "What was done")), &command)) }
        @else {
            ul.rows { @for review in reviews { (row(review)) } }
            (pager(reviews.len(), total, request.first(PATH).as_deref(), request.next(PATH, found).as_deref()))
        }
    }
}

/// Shows the form that applies changed rules to all tools. Otherwise they apply only to new
/// uploads.
fn rescan(visitor: &Visitor) -> Markup {
    html! {
        section aria-labelledby="rescan" {
            h2 #rescan { "Scan again" }
            p.words { "Every tool of a builder is scanned by the rules in force; what they find comes to this list, and what an admin approved stays approved." }
            (form::of(visitor, "rescan", &[], PATH, html! { button { "Scan all" } }))
        }
    }
}

fn row(review: &Value) -> Markup {
    let slug = text_of(review, "slug");
    let findings = entries(review, "findings");
    let hosts = entries(review, "requestedHosts");
    let first = review["approvedVersion"].is_null();
    html! {
        li {
            h2 { a href={ (PATH) "/" (segment(slug)) } { (text::words(text_of(review, "title"))) } }
            p { (moment(&review["since"])) }
            p.what {
                @if !review["content"].is_null() {
                    @if first { "New content" } @else { "Changed content" }
                    @if findings.is_empty() { ": nothing was found in it. " } @else {
                        ": " (counted(findings.len() as u64, "finding", "findings")) ", "
                        @for (position, finding) in findings.iter().take(NAMED).enumerate() { @if position > 0 { ", " } code { (text::words(text_of(finding, "rule"))) } }
                        @if findings.len() > NAMED { " and " (findings.len() - NAMED) " more" } ". "
                    }
                }
                @let requested: Vec<_> = capabilities::named(&review["requestedCapabilities"]).collect();
                @if !requested.is_empty() { "Asks for " (requested.join(", ")) ". " }
                @if !hosts.is_empty() {
                    "Hosts: "
                    @for (position, host) in hosts.iter().take(NAMED).enumerate() { @if position > 0 { ", " } code { (text::words(host.as_str().unwrap_or_default())) } }
                    @if hosts.len() > NAMED { " and " (hosts.len() - NAMED) " more" } "."
                }
            }
            p.marks {
                code { (text::words(slug)) }
                @if let Some(held) = review["content"].as_str() { (state(if held == "content_review" { "in review" } else { "blocked" })) }
                span { "of " (owner_by_name(text_of(review, "owner"), &review["builder"]["name"])) }
                span { "revision " (review["revision"]) }
                @if first { span { "never approved" } }
            }
        }
    }
}
