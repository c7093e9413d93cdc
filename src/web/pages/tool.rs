//! `/dashboard/tools/{slug}`: a tool's description, schemas, price, and ways to call it.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use serde_json::{Value, json};
use tollhouse_account::session::SessionKind;
use tollhouse_base::offload::DropOffThread;
use tollhouse_front::{Code, PathParams};
use tollhouse_protocol::limits::TABLE;
use tollhouse_tool::Capability;

use super::{admin::takedown, tools, versions};
use crate::{
    page::{Area, Page},
    parts::{
        call_snippets::SnippetParts,
        calls, code, facts, money, page_links, sample, schema,
        state::state,
        table::{Column, table},
        tabs::{self, Tab},
        text,
        time::moment,
    },
    visitor::{ApiRefusal, Visitor, segment, with_query},
};

pub(crate) async fn page(visitor: Visitor, PathParams(slug): PathParams<String>) -> Result<Response, ApiRefusal> {
    let answer = match visitor.get(&record(&slug)).await {
        Ok(answer) => answer,
        Err(refused) if refused.is(Code::UnknownEndpoint) => return unknown(&visitor, &slug).await,
        Err(refused) => return Err(refused),
    };
    let manifest = visitor.manifest().await?;
    // A tool that takes no calls has no quote.
    let quote = visitor.fetch_about("/ai/quote", &json!({ "slug": slug })).await.unwrap_or_default();
    let usage = super::usage::of(&visitor, &slug).await?;
    // Call statistics are only in the public record, not in the owner's.
    let rendered = match visitor.kind() {
        Some(SessionKind::Admin | SessionKind::Builder) => visitor.unsigned().get(&record(&slug)).await.unwrap_or_default(),
        Some(SessionKind::Holder) | None => DropOffThread::default(),
    };
    let rendered: &Value = if rendered["endpoint"].is_null() { &answer } else { &rendered };
    let page = visitor.made(|| view(&visitor, &slug, [&answer["endpoint"], &rendered["endpoint"], &quote, manifest], &usage)).await?;
    Ok(visitor.show(page).await)
}

fn view(visitor: &Visitor, slug: &str, [tool, rendered, quote, manifest]: [&Value; 4], usage: &Markup) -> Page {
    let record = record(slug);
    let simulated = manifest["payment"]["simulated"] == true;
    let accepts: Vec<_> = quote["accepts"].as_array().into_iter().flatten().collect();
    let networks = accepts.iter().filter_map(|accepted| accepted["network"].as_str()).collect();
    let method = SnippetParts { base: visitor.base_url(), slug, input: sample::input(&tool["inputSchema"]), networks };
    let title = tool["title"].as_str().unwrap_or_default();
    let main = html! {
        div.split {
            div {
                (text::paragraphs(tool["description"].as_str().unwrap_or_default()))
                section { h2 { "It takes" } (schema::table("Input", "required", &tool["inputSchema"], &record)) }
                section { h2 { "It answers" } (schema::table("Output", "always", &tool["outputSchema"], &record)) }
            }
            aside aria-labelledby="terms" {
                h2 #terms.aside { "Terms" }
                (terms(visitor, [tool, rendered], &accepts, &manifest["payment"]))
                @if tool["status"] == "active" { p { a.button.primary href=(page_links::of_tool(slug, "/try")) { "Try it" } } }
                h2 { "Call it" }
                @if tool["status"] != "active" { p { "It takes no calls now. When it does again:" } }
                (method.all())
                (takedown::section(visitor, slug, tool))
            }
        }
        @if !accepts.is_empty() { section { h2 { "Paid with" } (paid_with(&accepts, &quote["priceUsd"], &manifest["payment"])) } }
        (usage)
    };
    let heading = html! {
        h1 { (text::words(title)) }
        p.marks {
            code { (slug) } (state(tool["status"].as_str().unwrap_or_default()))
            // In a single column, the terms come after the schemas.
            span.early { (money::price(tool, simulated)) }
        }
        @if tool["status"] == "active" { p.early { a.button href=(page_links::of_tool(slug, "/try")) { "Try it" } } }
        // Only the owner's record has a revision.
        @if tool["revision"].is_u64() { (tabs::of_tool(visitor, slug, Tab::Tool)) }
    };
    let style = tool["revision"].is_u64().then_some("make.css");
    Page { heading: Some(heading), style, ..Page::new(Area::Tools, title, main).under("/dashboard", "Tools") }
}

/// Returns the API path of the tool.
fn record(slug: &str) -> String {
    format!("/ai/endpoints/{}", segment(slug))
}

fn terms(visitor: &Visitor, [tool, rendered]: [&Value; 2], accepts: &[&Value], payment: &Value) -> Markup {
    let simulated = payment["simulated"] == true;
    let free = tool["pricingMode"] == "free_public_utility";
    let may: Vec<_> =
        Capability::ALL.iter().map(|one| one.row()).filter(|one| tool["capabilities"][one.name] == true).map(|one| one.does).collect();
    let tags: Vec<_> = tool["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut paid_in: Vec<_> = accepts.iter().map(|entry| money::called(payment, &entry["network"], &entry["asset"]).join(", ")).collect();
    paid_in.dedup();
    html! {
        p.figure { (money::price(tool, simulated)) @if !free { " " span.muted { "a call" } } }
        p.muted {
            @if free { "Costs nothing. Its answers have receipts too." }
            @else if tool["settle"] == "before" {
                "Charged before it runs. If the run fails, repeat the call with the same payment: the tool runs again, and nothing more is charged."
            }
            @else { "Charged only for a result that fits what it promises to answer; a call that fails costs nothing." }
        }
        (facts::list(&[
            ("Paid in", (!paid_in.is_empty()).then(|| text::words(&paid_in.join("; ")))),
            ("Handler", tool["handlerType"].as_str().map(|kind| html! { (handler(kind)) })),
            ("Version", tool["version"].as_str().map(|version| facts::id_in_brief(version, &versions::name(version)))),
            // The public record has no limits and capabilities.
            ("Limits", tool["limits"].is_object().then(|| html! { (limits(&tool["limits"])) })),
            ("May", (!may.is_empty()).then(|| html! { (may.join("; ")) })),
            ("Builder", builder(visitor, rendered, tool["owner"].as_str().unwrap_or_default())),
            ("Called", calls::call_stats(rendered).map(|rendered| html! { (rendered) })),
            ("Tags", (!tags.is_empty()).then(|| html! {
                span.marks { @for tag in &tags { a.tag href=(with_query("/dashboard", [("tag", *tag)])) { (text::words(tag)) } } }
            })),
            ("Published", tool["createdAt"].is_string().then(|| moment(&tool["createdAt"]))),
            ("Changed", tool["updatedAt"].is_string().then(|| moment(&tool["updatedAt"]))),
        ]))
    }
}

/// Describes a kind of handler.
fn handler(kind: &str) -> &str {
    match kind {
        "js_request_response" => "JavaScript",
        "static_json" => "a fixed answer",
        "receipt_echo" | "x402_readiness_check" => "the host's own",
        other => other,
    }
}

/// Describes the most important limits. `changed` has those that differ from the defaults.
fn limits(changed: &Value) -> String {
    let of = |name: &str| changed[name].as_u64().or(TABLE.iter().find(|row| row.name == name).map(|row| row.default)).unwrap_or_default();
    let kib = |name: &str| format!("{} KiB", of(name).div_ceil(1 << 10));
    let seconds = of("wallMs") as f64 / 1e3;
    format!("{seconds} s, {} MiB of memory, {} in, {} out", of("heapBytes").div_ceil(1 << 20), kib("inputBytes"), kib("outputBytes"))
}

/// Shows the builder. The name is the builder's text, the id is not. Admins get a link even if the
/// public record names nobody.
fn builder(visitor: &Visitor, tool: &Value, owner: &str) -> Option<Markup> {
    let is_admin = visitor.kind() == Some(SessionKind::Admin);
    let (Some(name), Some(id)) = (tool["builder"]["name"].as_str(), tool["builder"]["id"].as_str()) else {
        return (is_admin && owner.starts_with("bld_"))
            .then(|| html! { a href={ "/dashboard/admin/builders/" (segment(owner)) } { code { (owner) } } });
    };
    Some(html! {
        @if is_admin { a href={ "/dashboard/admin/builders/" (segment(id)) } { (text::words(name)) } }
        @else { (text::words(name)) }
        " " (facts::id(id))
    })
}

/// Shows the accepted ways to pay, with the exact amounts.
pub(super) fn paid_with(accepts: &[&Value], price: &Value, payment: &Value) -> Markup {
    let simulated = payment["simulated"] == true;
    let columns =
        [Column::Words("Network"), Column::Words("Token"), Column::Words("Scheme"), Column::Number("Amount"), Column::Words("Paid to")];
    let row = |entry: &&Value| {
        let id = entry["network"].as_str().unwrap_or_default();
        let [network, token] = money::called(payment, &entry["network"], &entry["asset"]);
        [
            html! { @if network != id { (text::words(network)) " " } code { (id) } },
            text::words(token),
            html! { (entry["scheme"].as_str().unwrap_or_default()) },
            html! {
                @if entry["scheme"] == "upto" { "up to " }
                (money::usd(price)) (money::mark(simulated))
                span.note { " " (entry["amount"].as_str().unwrap_or_default()) " units" }
            },
            facts::id(entry["payTo"].as_str().unwrap_or_default()),
        ]
    };
    html! {
        (table("Paid with", columns, accepts.iter().map(row)))
        p.note { "Units are the token's smallest, as a payment has to name them." }
    }
}

/// Shows tools with a similar name or matching words, because no tool has this name.
pub(super) async fn unknown(visitor: &Visitor, slug: &str) -> Result<Response, ApiRefusal> {
    let mut near = tools::nearest(visitor, slug).await;
    if near.is_empty() {
        let words: String = slug.replace('-', " ").chars().take(100).collect();
        let fitting = visitor.get(&with_query("/ai/endpoints", [("q", &*words), ("limit", "5")])).await.unwrap_or_default();
        near = fitting["endpoints"].as_array().cloned().unwrap_or_default();
    }
    let main = html! {
        p.lead { "Nothing that may be seen here is called " code { (text::first(slug, 100)) } "." }
        (tools::named(&near))
        p { a.button href="/dashboard" { "All tools" } }
        (code::block("Command", "sh", &format!("curl -s {}/ai/endpoints", visitor.base_url())))
    };
    let page = Page::new(Area::Tools, "No tool has this name", main).under("/dashboard", "Tools");
    Ok(visitor.show(Page { status: StatusCode::NOT_FOUND, unlisted: true, ..page }).await)
}
