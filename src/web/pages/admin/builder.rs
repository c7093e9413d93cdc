//! `/dashboard/admin/builders/{id}`: a builder, their tools and earnings, and decisions about them.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;
use tollhouse_front::PathParams;

use super::{
    builders,
    shared::{Admin, DecisionTarget, ROWS, counted, entries, mark, reason, text_of, tiers},
};
use crate::{
    page::{Area, Page},
    parts::{
        cli_hint::line,
        empty::empty,
        facts, form, money,
        page_links::tool,
        pager::onward,
        state::state,
        table::{Column, table},
        text,
        time::moment,
        time_range::MONTH,
    },
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

pub(crate) async fn page(
    Admin(visitor): Admin,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &["cursor"]);
    let found = visitor.get(&with_query("/ai/builders/me", [("builderId", &*id)])).await?;
    let fields = [("builderId", &*id), ("limit", ROWS), ("cursor", request.get("cursor"))];
    let tools = visitor.get(&with_query("/ai/builders/endpoints", fields)).await?;
    let revenue = visitor.get(&with_query("/ai/builders/revenue", [("builderId", &*id), ("since", MONTH)])).await?;
    let builder = &found["builder"];
    let simulated = visitor.plays().await?;
    let path = format!("{}/{}", builders::PATH, segment(&id));
    let main = visitor
        .made(|| {
            html! {
                div.split {
                    div {
                        (about(builder, &revenue["totals"], simulated))
                        section aria-labelledby="tools" { h2 #tools { "Tools" } (offered(&visitor, &id, &tools, &path, &request)) }
                    }
                    aside aria-labelledby="decide" { h2 #decide { "Decide" } (decisions(&visitor, &id, builder, &path)) }
                }
            }
        })
        .await?;
    let page =
        Page { style: Some("make.css"), ..Page::new(Area::Builders, text_of(builder, "name"), main) }.under(builders::PATH, "Builders");
    Ok(visitor.show(page).await)
}

fn about(builder: &Value, totals: &Value, simulated: bool) -> Markup {
    let suspended = &builder["suspended"];
    facts::list(&[
        ("Id", Some(facts::id(text_of(builder, "builderId")))),
        ("Contact", builder["contact"].as_str().map(text::words)),
        ("Registered", Some(moment(&builder["createdAt"]))),
        ("Key made", Some(moment(&builder["keyCreatedAt"]))),
        ("Tier", Some(html! { (text_of(builder, "tier")) })),
        (
            "Suspended",
            suspended.is_object().then(|| {
                html! {
                    (state("suspended")) " since " (moment(&suspended["since"]))
                    @if let Some(reason) = suspended["reason"].as_str() { ": " (text::words(reason)) }
                }
            }),
        ),
        (
            "Last 30 days",
            Some(html! {
                (counted(totals["calls"].as_u64().unwrap_or_default(), "call", "calls")) ", "
                (counted(totals["failedCalls"].as_u64().unwrap_or_default(), "failure", "failures")) ", "
                (money::usd(&totals["netUsd"])) " net of " (money::usd(&totals["grossUsd"])) (mark(simulated))
            }),
        ),
    ])
}

fn offered(visitor: &Visitor, id: &str, found: &Value, path: &str, request: &PageQuery) -> Markup {
    let endpoints = entries(found, "endpoints");
    let row = |endpoint: &Value| {
        let slug = text_of(endpoint, "slug");
        [
            tool(slug),
            text::words(text_of(endpoint, "title")),
            state(&text_of(endpoint, "state").replace('_', " ")),
            moment(&endpoint["updatedAt"]),
            html! { a href={ "/dashboard/admin/reviews/" (segment(slug)) } { "Review" span.aside { " " (slug) } } },
        ]
    };
    html! {
        @if endpoints.is_empty() { (empty("They have published nothing yet.", None, &line(visitor, &with_query("/ai/builders/endpoints", [("builderId", id)])))) }
        @else {
            (table("Tools", ["Tool", "Title", "State", "Changed", "Review"].map(Column::Words), endpoints.iter().map(row)))
            (onward(endpoints.len(), request.first(path).as_deref(), request.next(path, found).as_deref()))
        }
    }
}

fn decisions(visitor: &Visitor, id: &str, builder: &Value, back: &str) -> Markup {
    let decided = DecisionTarget { visitor, operation: "judgeBuilder", id, back };
    let judged = |decision: &str, fields: Markup| decided.form(decision, fields);
    html! {
        @if builder["suspended"].is_null() {
            (judged("suspend", html! {
                h3 { "Suspend" }
                p.note { "Their key changes nothing, and their tools take no calls, until they are restored." }
                (reason("why-suspend", "the builder"))
                button.danger { "Suspend" }
            }))
        } @else {
            (judged("restore", html! {
                h3 { "Restore" }
                p.note { "Their tools come back in the states that they were in." }
                button.primary { "Restore" }
            }))
        }
        (judged("tier", html! {
            h3 { "Tier" }
            (form::field("tier", "Least strict tier of their tools", None, tiers("tier", "text:/tier", text_of(builder, "tier"), None)))
            button { "Set the tier" }
        }))
        (form::of(visitor, "rotateBuilderKey", &[], back, html! {
            h3 { "New key" }
            p.note { "For who lost theirs. The old one is worth nothing from then on, and the new one is shown once: to you, who hand it on." }
            input type="hidden" name="query:builderId" value=(id);
            button { "Make a new key" }
        }))
    }
}
