//! `/dashboard/admin/reviews`: pending decisions, oldest first.

use maud::{Markup, html};
use tollhouse_api::{PendingReview, ReviewPage};
use tollhouse_base::plural::plural;
use tollhouse_tool::HoldKind;

use super::shared::{Admin, ROWS, owner_by_name};
use crate::{
    Area, Page, PageQuery, PageResult, RawQuery, Visitor, curl_command, empty, form, moment, pager, segment, state, text, with_query,
};

const PATH: &str = "/dashboard/admin/reviews";

/// Maximum names of hosts and rules in a row.
const NAMED: usize = 5;

pub(crate) async fn page(Admin(visitor): Admin, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &["cursor"]);
    let found = visitor.get::<ReviewPage>(&with_query("/ai/admin/reviews", [("limit", ROWS), ("cursor", query.get("cursor"))])).await?;
    let main = visitor.render(|| html! { (view(&visitor, &found, &query)) (rescan(&visitor)) }).await?;
    Ok(visitor.show(Page::new(Area::Reviews, "Reviews", main)).await)
}

fn view(visitor: &Visitor, found: &ReviewPage, query: &PageQuery) -> Markup {
    let reviews = &found.reviews;
    let command = curl_command(visitor, "/ai/admin/audit");
    html! {
        p.lead { "Tools and requests of builders that wait for your decision, oldest first." }
        @if reviews.is_empty() { (empty("Nothing waits for review.", Some(("/dashboard/admin/audit", "See the audit trail")), &command)) }
        @else {
            ul.rows { @for review in reviews { (row(review)) } }
            (pager(reviews.len(), found.total as u64, query, PATH, found.next_cursor.as_deref()))
        }
    }
}

/// Shows the form that applies changed rules to all tools. Otherwise they apply only to new
/// uploads.
fn rescan(visitor: &Visitor) -> Markup {
    html! {
        section aria-labelledby="rescan" {
            h2 #rescan { "Scan again" }
            p.words { "Scans all builders' tools with the current rules. Findings appear in this list. Content that an admin approved stays approved." }
            (form::operation(visitor, "rescan", &[], PATH, html! { button { "Scan all tools" } }))
        }
    }
}

fn row(review: &PendingReview) -> Markup {
    let slug = &review.slug;
    let rules: Vec<_> = review.findings.iter().flatten().map(|finding| &*finding.rule).collect();
    let hosts: Vec<_> = review.requested_hosts.iter().map(String::as_str).collect();
    let first = review.approved_version.is_none();
    html! {
        li {
            h2 { a href={ (PATH) "/" (segment(slug)) } { (text::words(&review.title)) } }
            p { @if let Some(since) = review.since { (moment(since)) } }
            p.what {
                @if review.content.is_some() {
                    @if first { "New content" } @else { "Changed content" }
                    @if rules.is_empty() { ": no findings. " } @else {
                        ": " (plural(rules.len(), "finding")) ", " (first_of(&rules)) ". "
                    }
                }
                @let requested: Vec<_> = review.requested_capabilities.names().collect();
                @if !requested.is_empty() { "Requests " (requested.join(", ")) ". " }
                @if !hosts.is_empty() { "Hosts: " (first_of(&hosts)) "." }
            }
            p.marks {
                code { (text::words(slug)) }
                @if let Some(held) = review.content { (state(if held == HoldKind::ContentReview { "in review" } else { "blocked" })) }
                span { "of " (owner_by_name(&review.owner, review.builder.as_ref().map(|builder| &*builder.name))) }
                span { "revision " (review.revision) }
                @if first { span { "never approved" } }
            }
        }
    }
}

/// Shows the first of these names, and the number of the others.
fn first_of(names: &[&str]) -> Markup {
    html! {
        @for (position, name) in names.iter().take(NAMED).enumerate() { @if position > 0 { ", " } code { (text::words(name)) } }
        @if names.len() > NAMED { " and " (names.len() - NAMED) " more" }
    }
}
