//! `/dashboard`: search and filters for the offered tools. The address contains each query.

use maud::{Markup, html};
use tollhouse_api::{Catalog, Endpoint, Manifest};
use tollhouse_tool::{PricingMode, Status};

use crate::{
    Area, Page, PageQuery, PageResult, RawQuery, SnippetParts, Visitor, empty, form, money, page_links, pager, parts::calls, sample, state,
    text, with_query, word,
};

const ROWS: &str = "50";
/// Maximum tools with similar names.
const NEAR: &str = "5";
/// Maximum characters of a description, and maximum tags, in a row.
const DESCRIPTION: usize = 160;
const TAGS: usize = 5;

/// Query fields: filters, order and cursor.
const FIELDS: [&str; 5] = ["q", "tag", "price", "sort", "cursor"];
/// The fields that leave tools out.
const NARROWS: [&str; 3] = ["q", "tag", "price"];

fn is_narrow(query: &PageQuery) -> bool {
    query.has_any(&NARROWS)
}

pub(crate) async fn page(visitor: Visitor, RawQuery(raw): RawQuery) -> PageResult {
    let query = PageQuery::read(raw.as_deref(), &FIELDS);
    let fields = FIELDS.map(|name| (name, query.get(name)));
    let found = visitor.get::<Catalog>(&with_query("/ai/endpoints", fields.into_iter().chain([("limit", ROWS)]))).await?;
    let manifest = visitor.manifest().await?;
    let near = if found.envelope.total == 0 { nearest(&visitor, query.get("q")).await } else { vec![] };
    let main = visitor.render(|| view(&visitor, &query, &found, &near, manifest)).await?;
    Ok(visitor.show(Page { searches: true, ..Page::new(Area::Tools, "Tools", main) }).await)
}

fn view(visitor: &Visitor, query: &PageQuery, found: &Catalog, near: &[Endpoint], manifest: &Manifest) -> Markup {
    html! {
        p.lead {
            "Tools that programs call over HTTP or MCP and pay for by the call. "
            "Unless a tool says otherwise, you pay only for a result that matches its schema. Answers have signed receipts."
        }
        (numbers(manifest))
        div.split {
            section aria-label="Catalog" {
                (filters(query))
                (rows(visitor, query, found, near, manifest))
            }
            (sidebar(visitor.base_url(), found, manifest))
        }
    }
}

fn numbers(manifest: &Manifest) -> Markup {
    let Manifest { endpoints, payment, .. } = manifest;
    html! {
        dl.numbers {
            div { dt { "Tools" } dd { (endpoints.count) } }
            @if let Some(calls) = endpoints.calls24h { div { dt { "Calls in the last 24 hours" } dd { (calls) } } }
            div { dt { "Settled on" } dd { (payment.network_v1) ", " (payment.asset.symbol) } }
        }
    }
}

fn filters(query: &PageQuery) -> Markup {
    let [q, tag, price, sort] = ["q", "tag", "price", "sort"].map(|name| query.get(name));
    let sorts = [("", if q.is_empty() { "by name" } else { "best first" }), ("price", "cheapest first"), ("newest", "newest first")];
    html! {
        form.filters role="search" action="/dashboard" {
            div.field.wide {
                label for="q" { "What it does" }
                input #q name="q" type="search" value=(text::plain(q)) placeholder="for example: shorten a text" data-key="/";
            }
            (form::select("price", "Price", &[("", "any"), ("free", "free"), ("paid", "paid")], price, str::to_owned))
            (form::select("sort", "Order", &sorts, sort, str::to_owned))
            @if !tag.is_empty() { input type="hidden" name="tag" value=(text::plain(tag)); }
            button.primary { "Search" }
        }
        @if is_narrow(query) {
            p.chips {
                @for (name, value) in NARROWS.map(|name| (name, query.get(name))).iter().filter(|(_, value)| !value.is_empty()) {
                    span.chip { (if *name == "q" { "words" } else { *name }) " " (text::first(value, DESCRIPTION)) }
                }
                a href="/dashboard" { "Clear" }
            }
        }
    }
}

fn rows(visitor: &Visitor, query: &PageQuery, found: &Catalog, near: &[Endpoint], manifest: &Manifest) -> Markup {
    let tools = &found.endpoints;
    if tools.is_empty() {
        let base = visitor.base_url();
        return match is_narrow(query) {
            true => html! {
                (empty("No matching tools.", Some(("/dashboard", "Show all tools")), &format!("curl -s {base}/ai/endpoints")))
                (similar(near))
            },
            false => empty("No tools yet.", Some(("/guides/build-a-tool", "Publish a tool")), &publishing(base)),
        };
    }
    html! {
        ul.rows { @for tool in tools { (row(tool, manifest.payment.simulated)) } }
        (pager(tools.len(), found.envelope.total as u64, query, "/dashboard", found.envelope.next_cursor.as_deref()))
    }
}

/// Returns tools with similar names, nearest first.
pub(super) async fn nearest(visitor: &Visitor, name: &str) -> Vec<Endpoint> {
    if name.is_empty() {
        return vec![];
    }
    let near = visitor.get::<Catalog>(&with_query("/ai/endpoints", [("near", name), ("limit", NEAR)])).await;
    near.map(|near| near.endpoints.clone()).unwrap_or_default()
}

/// Shows tools with similar names, if there are any.
pub(super) fn similar(near: &[Endpoint]) -> Markup {
    html! {
        @if !near.is_empty() {
            h2 { "Similar tools" }
            ul.plain {
                @for Endpoint { common: tool, .. } in near {
                    li { a href=(page_links::tool_path(&tool.slug, "")) { (text::words(&tool.title)) } " " code { (tool.slug) } }
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

fn row(tool: &Endpoint, simulated: bool) -> Markup {
    let Endpoint { common, usage, builder, max_price_usd, .. } = tool;
    html! {
        li {
            h2 { a href=(page_links::tool_path(&common.slug, "")) { (text::words(&common.title)) } }
            p.price { (money::price(common.price_usd, *max_price_usd, simulated)) }
            p.what { (text::summary(&common.description, DESCRIPTION)) }
            p.marks {
                code { (common.slug) }
                @if common.status != Status::Active { (state(&word(common.status))) }
                @for tag in common.tags.iter().take(TAGS) { a.tag href=(with_query("/dashboard", [("tag", &**tag)])) { (text::words(tag)) } }
                @if common.tags.len() > TAGS { span.muted { "and " (common.tags.len() - TAGS) " more" } }
            }
            p.note {
                @if let Some(builder) = builder { "by " (text::words(&builder.name)) }
                @if let Some(usage) = usage { @if builder.is_some() { " · " } (calls::call_stats(usage)) }
            }
        }
    }
}

/// Shows how to call the first active tool.
fn sidebar(base: &str, found: &Catalog, manifest: &Manifest) -> Markup {
    let Some(Endpoint { common: tool, max_price_usd, .. }) = found.endpoints.iter().find(|tool| tool.common.status == Status::Active)
    else {
        return html! {};
    };
    let slug = tool.slug.as_str();
    let is_free = tool.pricing_mode == PricingMode::FreePublicUtility;
    let method = SnippetParts {
        base,
        slug,
        input: sample::input(&tool.input_schema.0),
        networks: if is_free { vec![] } else { manifest.payment.accepts.iter().map(|accepted| &*accepted.network).collect() },
        max_price: max_price_usd.unwrap_or(tool.price_usd),
    };
    html! {
        aside aria-labelledby="ways" {
            h2 #ways { "Call a tool" }
            p.muted { "For example " code { (slug) } ":" }
            (method.all())
        }
    }
}
