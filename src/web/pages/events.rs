//! `/dashboard/events`: events of a builder's tools and money, by kind and tool.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_account::session::SessionKind;

use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::{line, same},
        empty::empty,
        event_lines::{self, KINDS},
        follow::{self, FollowedList, followed},
        pager::onward,
        text,
    },
    query::PageQuery,
    visitor::{ApiRefusal, SignedIn, Visitor, with_query},
};

const PATH: &str = "/dashboard/events";
/// The address from which the script learns of new events.
const LIVE: &str = "/dashboard/api/ai/builders/events";
/// Rows of a page.
const ROWS: usize = 30;
/// Selectable time spans: query value and label.
const SPANS: [(&str, &str); 4] = [("", "7 days"), ("1h", "an hour"), ("30d", "30 days"), ("90d", "90 days")];

pub(crate) async fn page(SignedIn(visitor): SignedIn, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["builderId", "kind", "tool", "since", "until", "cursor"]);
    let rows = follow::requested(query.as_deref(), ROWS);
    let limit = rows.unwrap_or(ROWS).to_string();
    let fields = [
        ("builderId", request.get("builderId")),
        ("kind", request.get("kind")),
        ("endpointSlug", request.get("tool")),
        ("since", request.get("since")),
        ("until", request.get("until")),
        ("limit", &*limit),
        ("cursor", request.get("cursor")),
    ];
    let path = with_query("/ai/builders/events", fields);
    let found = visitor.get(&path).await?;
    let simulated = visitor.plays().await?;
    if rows.is_some() {
        let list = || follow::rows(event_lines::table_of(listed(&found), request.get("builderId"), simulated));
        return Ok(visitor.part(visitor.made(list).await?));
    }
    let by = followed_by(&request);
    let main = visitor
        .made(|| {
            html! {
                p.lead { @if visitor.kind() == Some(SessionKind::Admin) { "What happened to a builder's tools and money, newest first." } @else { "What happened to your tools and your money, newest first." } }
                (filters(&request))
                (followed(by.as_ref(), events(&visitor, &request, &found, simulated)))
                (same(&visitor, &path))
            }
        })
        .await?;
    Ok(visitor.show(Page { script: Some("rows.js"), style: Some("make.css"), ..Page::new(Area::Events, "Events", main) }).await)
}

/// Returns how the script follows the list, or `None` for a page of past events.
fn followed_by(request: &PageQuery) -> Option<FollowedList> {
    let fields = [("builderId", request.get("builderId")), ("kind", request.get("kind")), ("endpointSlug", request.get("tool"))];
    let is_over = ["until", "cursor"].iter().any(|name| !request.get(name).is_empty());
    let live = || with_query(LIVE, fields);
    (!is_over).then(|| FollowedList { live: live(), page: request.with(PATH, &[]), max: None })
}

/// Returns how the script follows a builder's latest events on another page.
pub(super) fn last(builder: &str, max: usize) -> FollowedList {
    let of = [("builderId", builder)];
    FollowedList { live: with_query(LIVE, of), page: with_query(PATH, of), max: Some(max) }
}

/// Returns the events of an answer.
pub(super) fn listed(found: &Value) -> &[Value] {
    found["events"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn filters(request: &PageQuery) -> Markup {
    let (kind, since) = (request.get("kind"), request.get("since"));
    html! {
        form.filters action=(PATH) {
            @if !request.get("builderId").is_empty() { input type="hidden" name="builderId" value=(text::plain(request.get("builderId"))); }
            div.field {
                label for="kind" { "What" }
                select #kind name="kind" {
                    option value="" { "all that happened" }
                    @for (name, words, _) in KINDS { option value=(name) selected[name == kind] { (words) } }
                }
            }
            div.field {
                label for="tool" { "Tool" }
                input #tool name="tool" value=(text::plain(request.get("tool"))) autocomplete="off" spellcheck="false" placeholder="by its slug";
            }
            div.field {
                label for="since" { "Going back" }
                select #since name="since" {
                    @for (span, name) in SPANS { option value=(span) selected[span == since] { (name) } }
                    @if SPANS.iter().all(|(span, _)| *span != since) { option value=(text::plain(since)) selected { "from " (text::plain(since)) } }
                }
            }
            div.field { label for="until" { "Before" } input #until name="until" type="date" value=(text::plain(request.get("until"))); }
            button { "Show" }
        }
    }
}

fn events(visitor: &Visitor, request: &PageQuery, found: &Value, simulated: bool) -> Markup {
    let events = listed(found);
    let next = found["nextCursor"].as_str().map(|cursor| request.with(PATH, &[("cursor", cursor)]));
    let first = (!request.get("cursor").is_empty()).then(|| request.with(PATH, &[("cursor", "")]));
    if events.is_empty() && next.is_none() {
        let is_narrow = ["kind", "tool", "since", "until", "cursor"].iter().any(|name| !request.get(name).is_empty());
        let all = request.with(PATH, &[("kind", ""), ("tool", ""), ("since", ""), ("until", ""), ("cursor", "")]);
        let stream = with_query("/ai/builders/events", [("builderId", request.get("builderId"))]);
        let follow = format!("{} \\\n  -N -H 'accept: text/event-stream'", line(visitor, &stream));
        return match is_narrow {
            true => {
                let week = line(visitor, &with_query("/ai/builders/events", [("since", "7d"), ("builderId", request.get("builderId"))]));
                empty("Nothing that fits has happened.", Some((&all, "Clear the filter")), &week)
            }
            false => {
                let tools = with_query("/dashboard/home", [("builderId", request.get("builderId"))]);
                empty("Nothing has happened within 7 days.", Some((&tools, "Tools")), &follow)
            }
        };
    }
    html! {
        h2.aside { "What happened" }
        (event_lines::table_of(events, request.get("builderId"), simulated))
        (onward(events.len(), first.as_deref(), next.as_deref()))
    }
}
