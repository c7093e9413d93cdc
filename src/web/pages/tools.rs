//! `/dashboard`: search and filters for the offered tools. The address contains each query.

use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    page::{Area, Page},
    parts::{call_snippets::SnippetParts, calls, empty::empty, money, pager::pager, sample, state::state, text},
    query::PageQuery,
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

/// Rows of a page.
const ROWS: &str = "50";
/// Maximum tools with similar names.
const NEAR: &str = "5";
/// Maximum characters of a description, and maximum tags, in a row.
const DESCRIPTION: usize = 160;
const TAGS: usize = 5;

/// Query fields: filters, order and cursor.
const ASKED: [&str; 5] = ["q", "tag", "price", "sort", "cursor"];
/// The fields that leave tools out.
const NARROWS: [&str; 3] = ["q", "tag", "price"];

/// Returns the address of the filtered list from a cursor on.
fn from(request: &PageQuery, cursor: &str) -> String {
    request.with("/dashboard", &[("cursor", cursor)])
}

fn is_narrow(request: &PageQuery) -> bool {
    NARROWS.iter().any(|name| !request.get(name).is_empty())
}

pub(crate) async fn page(visitor: Visitor, RawQuery(query): RawQuery) -> Result<Response, ApiRefusal> {
    let request = PageQuery::read(query.as_deref(), &ASKED);
    let fields = ASKED.map(|name| (name, request.get(name)));
    let found = visitor.get(&with_query("/ai/endpoints", fields.into_iter().chain([("limit", ROWS)]))).await?;
    let manifest = visitor.manifest().await?;
    let near = if found["total"] == 0 { nearest(&visitor, request.get("q")).await } else { vec![] };
    let main = visitor.made(|| view(&visitor, &request, &found, &near, manifest)).await?;
    Ok(visitor.show(Page { searches: true, ..Page::new(Area::Tools, "Tools", main) }).await)
}

fn view(visitor: &Visitor, request: &PageQuery, found: &Value, near: &[Value], manifest: &Value) -> Markup {
    html! {
        p.lead {
            "Tools that programs call over HTTP or MCP, and pay for by the call. "
            "Only a result that fits what its tool promises is charged, and every answer has a signed receipt."
        }
        (numbers(manifest))
        div.split {
            section aria-label="Catalogue" {
                (filters(request))
                (rows(visitor, request, found, near, manifest))
            }
            (sidebar(visitor.base_url(), found, manifest))
        }
    }
}

fn numbers(manifest: &Value) -> Markup {
    let (count, calls) = (&manifest["endpoints"]["count"], &manifest["endpoints"]["calls24h"]);
    let (network, token) = (&manifest["payment"]["networkV1"], &manifest["payment"]["asset"]["symbol"]);
    html! {
        dl.numbers {
            div { dt { "Tools" } dd { (count) } }
            @if calls.is_u64() { div { dt { "Calls in 24 hours" } dd { (calls) } } }
            div { dt { "Settled on" } dd { (network.as_str().unwrap_or_default()) ", " (token.as_str().unwrap_or_default()) } }
        }
    }
}

fn filters(request: &PageQuery) -> Markup {
    let [q, tag, price, sort] = ["q", "tag", "price", "sort"].map(|name| request.get(name));
    let option = |value: &'static str, name: &'static str, now: &str| html! { option value=(value) selected[value == now] { (name) } };
    html! {
        form.filters role="search" action="/dashboard" {
            div.field.wide {
                label for="q" { "What it does" }
                input #q name="q" type="search" value=(text::plain(q)) placeholder="such as: shorten a text" data-key="/";
            }
            div.field {
                label for="price" { "Price" }
                select #price name="price" {
                    (option("", "any", price)) (option("free", "free", price)) (option("paid", "paid", price))
                }
            }
            div.field {
                label for="sort" { "Order" }
                select #sort name="sort" {
                    (option("", if q.is_empty() { "by name" } else { "best first" }, sort))
                    (option("price", "cheapest first", sort)) (option("newest", "newest first", sort))
                }
            }
            @if !tag.is_empty() { input type="hidden" name="tag" value=(text::plain(tag)); }
            button.primary { "Search" }
        }
        @if is_narrow(request) {
            p.chips {
                @for (name, value) in NARROWS.map(|name| (name, request.get(name))).iter().filter(|(_, value)| !value.is_empty()) {
                    span.chip { (if *name == "q" { "words" } else { *name }) " " (text::first(value, DESCRIPTION)) }
                }
                a href="/dashboard" { "Clear" }
            }
        }
    }
}

fn rows(visitor: &Visitor, request: &PageQuery, found: &Value, near: &[Value], manifest: &Value) -> Markup {
    let tools = found["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let simulated = manifest["payment"]["simulated"] == true;
    if tools.is_empty() {
        let base = visitor.base_url();
        return match is_narrow(request) {
            true => html! {
                (empty("No tool fits.", Some(("/dashboard", "Show all tools")), &format!("curl -s {base}/ai/endpoints")))
                (named(near))
            },
            false => empty("No tool is offered yet.", Some(("/guides/build-a-tool", "How to publish one")), &publishing(base)),
        };
    }
    let next = found["nextCursor"].as_str().map(|cursor| from(request, cursor));
    let first = (!request.get("cursor").is_empty()).then(|| from(request, ""));
    html! {
        ul.rows { @for tool in tools { (row(tool, simulated)) } }
        (pager(tools.len(), found["total"].as_u64().unwrap_or_default(), first.as_deref(), next.as_deref()))
    }
}

/// Returns tools with similar names, nearest first.
pub(super) async fn nearest(visitor: &Visitor, name: &str) -> Vec<Value> {
    if name.is_empty() {
        return vec![];
    }
    let near = visitor.get(&with_query("/ai/endpoints", [("near", name), ("limit", NEAR)])).await.unwrap_or_default();
    near["endpoints"].as_array().cloned().unwrap_or_default()
}

/// Shows tools with similar names, if there are any.
pub(super) fn named(near: &[Value]) -> Markup {
    html! {
        @if !near.is_empty() {
            h2 { "Near it" }
            ul.plain {
                @for tool in near {
                    @let slug = tool["slug"].as_str().unwrap_or_default();
                    li {
                        a href={ "/dashboard/tools/" (segment(slug)) } { (text::words(tool["title"].as_str().unwrap_or_default())) }
                        " " code { (slug) }
                    }
                }
            }
        }
    }
}

/// Returns a command that publishes a first tool as the admin.
fn publishing(base: &str) -> String {
    let tool = r#"{"slug":"hello","title":"Hello","handlerType":"static_json","handler":{"response":{"hello":"world"}}}"#;
    format!(
        "curl -s {base}/ai/endpoints/create \\\n  -H \"x-admin-token: $ADMIN_TOKEN\" \\\n  -H 'content-type: application/json' \\\n  -d '{tool}'"
    )
}

fn row(tool: &Value, simulated: bool) -> Markup {
    let describe = |name: &str| tool[name].as_str().unwrap_or_default();
    let tags: Vec<_> = tool["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        li {
            h2 { a href={ "/dashboard/tools/" (segment(describe("slug"))) } { (text::words(describe("title"))) } }
            p.price { (money::price(tool, simulated)) }
            p.what { (text::summary(describe("description"), DESCRIPTION)) }
            p.marks {
                code { (describe("slug")) }
                @if describe("status") != "active" { (state(describe("status"))) }
                @for tag in tags.iter().take(TAGS) { a.tag href=(with_query("/dashboard", [("tag", *tag)])) { (text::words(tag)) } }
                @if tags.len() > TAGS { span.muted { "and " (tags.len() - TAGS) " more" } }
            }
            p.note {
                @if let Some(name) = tool["builder"]["name"].as_str() { "by " (text::words(name)) }
                @if let Some(rendered) = calls::call_stats(tool) { @if tool["builder"].is_object() { " · " } (rendered) }
            }
        }
    }
}

/// Shows how to call the first active tool.
fn sidebar(base: &str, found: &Value, manifest: &Value) -> Markup {
    let mut tools = found["endpoints"].as_array().into_iter().flatten();
    let Some(tool) = tools.find(|tool| tool["status"] == "active") else { return html! {} };
    let slug = tool["slug"].as_str().unwrap_or_default();
    let is_free = tool["pricingMode"] == "free_public_utility";
    let accepts = manifest["payment"]["accepts"].as_array().into_iter().flatten();
    let method = SnippetParts {
        base,
        slug,
        input: sample::input(&tool["inputSchema"]),
        networks: if is_free { vec![] } else { accepts.filter_map(|accepted| accepted["network"].as_str()).collect() },
    };
    html! {
        aside aria-labelledby="ways" {
            h2 #ways { "Call one" }
            p.muted { "Here " code { (slug) } ", as it is offered now." }
            (method.all())
        }
    }
}
