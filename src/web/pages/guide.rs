//! `/guides/{name}`: the host's guides, with its addresses, prices and one of its tools in every
//! example. With the suffix `.md`, or if the request prefers Markdown, the Markdown text.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use maud::{PreEscaped, html};
use serde_json::{Value, json};
use tollhouse_front::{ApiError, Code, PathParams};

use super::register::RegistrationTerms;
use crate::{
    guides::{self, Guide, wants_markdown},
    page::{Area, Page},
    parts::{
        call_snippets::SnippetParts,
        sample::{self, quoted},
    },
    visitor::{ApiRefusal, Visitor, segment},
};

/// Placeholder in examples if the host has no tools for sale.
const NO_TOOL: &str = "your-tool";

/// Built-in tools for examples, in order of preference.
const SHIPPED: [&str; 2] = ["receipt-echo-paid", "text-summary"];

/// Number of the cheapest tools to consider. Some are paused, or charge by usage.
const LOOKED_AT: usize = 5;

pub(crate) async fn page(visitor: Visitor, PathParams(name): PathParams<String>, request: HeaderMap) -> Result<Response, ApiRefusal> {
    let (name, is_twin) = name.strip_suffix(".md").map_or((&*name, false), |name| (name, true));
    let guide = guides::ALL.iter().find(|guide| guide.name == name).ok_or_else(|| ApiRefusal::from(ApiError::from(Code::NotFound)))?;
    let text = filled(&visitor, guide).await?;
    if is_twin || wants_markdown(&request) {
        return Ok(twin(visitor.base_url(), &text));
    }
    let rendered = visitor.made(|| guides::rendered(&text)).await?;
    let others = guides::ALL.iter().filter(|other| other.name != guide.name);
    let main = html! {
        div.guide {
            nav.contents aria-label="Contents" {
                h2 { "Contents" }
                ol { @for (id, heading) in &rendered.headings { li { a href={ "#" (id) } { (heading) } } } }
                h2 { "Other guides" }
                ul { @for other in others { li { a href={ "/guides/" (other.name) } { (other.title) } } } }
            }
            div.prose { (PreEscaped(rendered.html)) }
        }
    };
    let page = Page { twin: Some(format!("/guides/{}.md", guide.name)), ..Page::new(Area::Guides, guide.title, main) };
    let mut response = visitor.show(page).await;
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Returns the guide as Markdown. The first line links to the other documents.
fn twin(base: &str, text: &str) -> Response {
    let mut response =
        Response::new(Body::from(format!("> What else there is to read, for programs: [{base}/llms.txt]({base}/llms.txt)\n\n{text}")));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/markdown; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// Returns the guide's text with the facts of this host.
async fn filled(visitor: &Visitor, guide: &Guide) -> Result<String, ApiRefusal> {
    let manifest = visitor.manifest().await?;
    let tool = if guide.text.contains("{{slug}}") { example(visitor).await? } else { Value::Null };
    let slug = tool["slug"].as_str().unwrap_or(NO_TOOL);
    let payment = &manifest["payment"];
    let challenge = if tool.is_null() { HeaderMap::new() } else { visitor.head(&format!("/tools/{}", segment(slug))).await };
    let registering = match guide.text.contains("registering is") {
        true => Some(RegistrationTerms::read(visitor).await?),
        false => None,
    };
    let is_free = registering.is_some_and(|terms| terms.is_free());
    let accepts = payment["accepts"].as_array().into_iter().flatten();
    let networks: Vec<_> = accepts.filter_map(|accepted| accepted["network"].as_str()).collect();
    let input = if is_shipped(&tool) { sample::input(&tool["inputSchema"]) } else { sample::typed(&tool["inputSchema"]) };
    let method = SnippetParts { base: visitor.base_url(), slug, input: input.clone(), networks };
    let describe = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let facts = [
        ("base", visitor.base_url().to_owned()),
        ("slug", slug.to_owned()),
        ("invoke", quoted(&sample::json(&json!({ "slug": slug, "input": input })))),
        ("curl", method.curl()),
        ("script", method.script()),
        ("challenge", asked_for(&challenge)),
        ("network", describe(&payment["network"])),
        ("networkName", describe(&payment["networkV1"])),
        ("token", describe(&payment["asset"]["symbol"])),
    ];
    let holds = |condition: &str| match condition {
        "simulated" => payment["simulated"] == true,
        "real" => payment["simulated"] != true,
        "nothing to sell" => tool.is_null(),
        "registering is free" => is_free,
        "registering is paid" => !is_free,
        _ => false,
    };
    Ok(guides::filled(guide.text, &facts, holds))
}

/// Returns the tool for examples: a built-in one, else the cheapest. Null if nothing is for sale.
async fn example(visitor: &Visitor) -> Result<Value, ApiRefusal> {
    let fits = |tool: &Value| tool["status"] == "active" && tool["pricingMode"] == "fixed_price_success_receipt";
    for slug in SHIPPED {
        let tool = match visitor.get(&format!("/ai/endpoints/{slug}")).await {
            Ok(answer) => answer["endpoint"].clone(),
            Err(refused) if refused.is(Code::UnknownEndpoint) => continue,
            Err(refused) => return Err(refused),
        };
        if fits(&tool) && is_shipped(&tool) {
            return Ok(tool);
        }
    }
    let found = visitor.get(&format!("/ai/endpoints?price=paid&sort=price&limit={LOOKED_AT}")).await?;
    let mut tools = found["endpoints"].as_array().into_iter().flatten();
    Ok(tools.find(|tool| fits(tool)).cloned().unwrap_or_default())
}

/// Returns whether a tool's texts were written by the host's operator. A builder's tool has a scan
/// result in its record.
fn is_shipped(tool: &Value) -> bool {
    SHIPPED.iter().any(|slug| tool["slug"] == *slug) && tool["contentSafety"].is_null()
}

/// Returns the challenge of the tool without extensions and the builder's texts.
fn asked_for(head: &HeaderMap) -> String {
    let text = head.get("payment-required").and_then(|value| STANDARD.decode(value).ok()).unwrap_or_default();
    let mut challenge: Value = serde_json::from_slice(&text).unwrap_or_else(|_| json!({ "x402Version": 2, "accepts": [] }));
    if let Some(members) = challenge.as_object_mut() {
        members.remove("extensions");
        if let Some(resource) = members.get_mut("resource").and_then(Value::as_object_mut) {
            resource.retain(|name, _| matches!(name.as_str(), "url" | "mimeType"));
        }
    }
    sample::visible(&serde_json::to_string_pretty(&challenge).unwrap_or_default())
}
