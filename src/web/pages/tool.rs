//! `/dashboard/tools/{slug}`: what a tool does, takes, answers and costs, and how it is called.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{admin::takedown, tools};
use crate::{
    front::{Code, PathParams},
    web::{
        page::{Area, Page},
        parts::{
            calls, code, facts, money, places, sample, schema,
            state::state,
            table::{Column, table},
            tabs::{self, Tab},
            text,
            time::moment,
            ways::Way,
        },
        visitor::{Refused, Visitor, segment, with_query},
    },
};

/// What the handlers of tools may ask the host for, in words.
pub(super) const CAPABILITIES: [(&str, &str); 4] = [
    ("kv", "keeps values between calls"),
    ("files", "keeps files between calls"),
    ("httpGetJson", "reads JSON from hosts that an admin allowed"),
    ("logs", "writes a log for its builder"),
];

pub(in crate::web) async fn page(visitor: Visitor, PathParams(slug): PathParams<String>) -> Result<Response, Refused> {
    let answer = match visitor.get(&record(&slug)).await {
        Ok(answer) => answer,
        Err(refused) if refused.is(Code::UnknownEndpoint) => return unknown(&visitor, &slug).await,
        Err(refused) => return Err(refused),
    };
    let manifest = visitor.manifest().await?;
    // Of a tool that takes no calls there is none.
    let quote = visitor.ask_about("/ai/quote", &json!({ "slug": slug })).await.unwrap_or_default();
    let usage = super::usage::of(&visitor, &slug).await?;
    let page = visitor.made(|| view(&visitor, &slug, [&answer["endpoint"], &quote, manifest], &usage)).await?;
    Ok(visitor.show(page).await)
}

fn view(visitor: &Visitor, slug: &str, [tool, quote, manifest]: [&Value; 3], usage: &Markup) -> Page {
    let record = record(slug);
    let simulated = manifest["payment"]["simulated"] == true;
    let accepts: Vec<_> = quote["accepts"].as_array().into_iter().flatten().collect();
    let networks = accepts.iter().filter_map(|accepted| accepted["network"].as_str()).collect();
    let way = Way { base: visitor.base_url(), slug, input: sample::input(&tool["inputSchema"]), networks };
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
                (terms(tool, simulated))
                @if tool["status"] == "active" { p { a.button.primary href=(places::of_tool(slug, "/try")) { "Try it" } } }
                h2 { "Call it" }
                @if tool["status"] != "active" { p { "It takes no calls now. When it does again:" } }
                (way.all())
                (takedown::section(visitor, slug, tool))
            }
        }
        @if !accepts.is_empty() { section { h2 { "Paid with" } (paid_with(&accepts, manifest)) } }
        (usage)
    };
    let heading = html! {
        h1 { (text::words(title)) }
        p.marks {
            code { (slug) } (state(tool["status"].as_str().unwrap_or_default()))
            // Where there is one column, the terms come after the schemas.
            span.early { (money::price(tool, simulated)) }
        }
        @if tool["status"] == "active" { p.early { a.button href=(places::of_tool(slug, "/try")) { "Try it" } } }
        // Strangers are told no revision.
        @if tool["revision"].is_u64() { (tabs::of_tool(visitor, slug, Tab::Tool)) }
    };
    let style = tool["revision"].is_u64().then_some("make.css");
    Page { heading: Some(heading), style, ..Page::new(Area::Tools, title, main).under("/dashboard", "Tools") }
}

/// Where the public API has it.
fn record(slug: &str) -> String {
    format!("/ai/endpoints/{}", segment(slug))
}

fn terms(tool: &Value, simulated: bool) -> Markup {
    let free = tool["pricingMode"] == "free_public_utility";
    let may: Vec<_> = CAPABILITIES.iter().filter(|(name, _)| tool["capabilities"][name] == true).map(|(_, words)| *words).collect();
    let tags: Vec<_> = tool["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        p.figure { (money::price(tool, simulated)) @if !free { " " span.muted { "a call" } } }
        p.muted {
            @if free { "Costs nothing. Its answers have receipts too." }
            @else { "Charged only for a result that fits what it promises to answer; a call that fails costs nothing." }
        }
        (facts::list(&[
            ("Handler", tool["handlerType"].as_str().map(|kind| html! { code { (kind) } })),
            ("May", (!may.is_empty()).then(|| html! { (may.join("; ")) })),
            ("Builder", builder(tool)),
            ("Called", calls::told(tool).map(|told| html! { (told) })),
            ("Tags", (!tags.is_empty()).then(|| html! {
                span.marks { @for tag in &tags { a.tag href=(with_query("/dashboard", [("tag", *tag)])) { (text::words(tag)) } } }
            })),
            ("Published", tool["createdAt"].is_string().then(|| moment(&tool["createdAt"]))),
            ("Changed", tool["updatedAt"].is_string().then(|| moment(&tool["updatedAt"]))),
        ]))
    }
}

/// Whose it is: the words are theirs, the id is not.
fn builder(tool: &Value) -> Option<Markup> {
    let (name, id) = (tool["builder"]["name"].as_str()?, tool["builder"]["id"].as_str()?);
    Some(html! { (text::words(name)) " " (facts::id(id)) })
}

/// What a payment may be made in, each with exactly what is asked.
pub(super) fn paid_with(accepts: &[&Value], manifest: &Value) -> Markup {
    let known =
        |network: &Value| manifest["payment"]["accepts"].as_array().into_iter().flatten().find(|entry| &entry["network"] == network);
    let columns =
        [Column::Words("Network"), Column::Words("Token"), Column::Words("Scheme"), Column::Number("Amount"), Column::Words("Paid to")];
    let row = |entry: &&Value| {
        let said = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let name = known(&entry["network"]);
        [
            html! { @if let Some(name) = name { (name["networkV1"].as_str().unwrap_or_default()) " " } code { (said("network")) } },
            html! { (name.and_then(|name| name["asset"]["symbol"].as_str()).unwrap_or("token")) },
            html! { (said("scheme")) },
            html! { (said("amount")) },
            facts::id(&said("payTo")),
        ]
    };
    html! {
        (table("Paid with", columns, accepts.iter().map(row)))
        p.note { "Amounts are in the token's smallest units, as a payment has to name them." }
    }
}

/// No tool has the name: those with a name like it, or that fit its words.
pub(super) async fn unknown(visitor: &Visitor, slug: &str) -> Result<Response, Refused> {
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
