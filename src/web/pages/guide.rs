//! `/guides/{name}`: the host's guides, with its addresses, prices and one of its tools in every
//! example. With the suffix `.md`, or if the request prefers Markdown, the Markdown text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use maud::{PreEscaped, html};
use serde_json::{Value, json};
use tollhouse_api::{Catalog, Endpoint, EndpointResponse, EndpointView};
use tollhouse_front::{ApiError, Code, PathParams, accept::is_named};
use tollhouse_tool::{MicroUsd, PricingMode, Status};

use super::{docs, register::RegistrationTerms};
use crate::{
    ApiRefusal, Area, Body, HeaderMap, HeaderValue, Page, PageResult, Response, SnippetParts, Visitor,
    guides::{self, Guide},
    header,
    sample::{self, quoted},
    segment,
};

/// Placeholder in examples if the host has no tools for sale.
const NO_TOOL: &str = "your-tool";
/// Price of that tool.
const NO_PRICE: MicroUsd = MicroUsd(10_000);

/// Built-in tools for examples, in order of preference.
const SHIPPED: [&str; 2] = ["receipt-echo-paid", "text-summary"];

/// Number of the cheapest tools to consider. Some are paused, or charge by usage.
const LOOKED_AT: usize = 5;

pub(crate) async fn page(visitor: Visitor, PathParams(name): PathParams, request: HeaderMap) -> PageResult {
    let (name, is_twin) = name.strip_suffix(".md").map_or((&*name, false), |name| (name, true));
    let guide = guides::ALL.iter().find(|guide| guide.name == name).ok_or_else(|| ApiRefusal::from(ApiError::from(Code::NotFound)))?;
    let text = filled(&visitor, guide).await?;
    if is_twin || is_named(&request, "text/markdown") {
        return Ok(twin(visitor.base_url(), &text));
    }
    let rendered = visitor.render(|| guides::rendered(&text)).await?;
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
    let twin = Some(format!("/guides/{}.md", guide.name));
    let page = Page { twin, style: Some(docs::STYLE), ..Page::new(Area::Guides, guide.title, main) };
    let mut response = visitor.show(page).await;
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Returns the guide as Markdown. The first line links to the other documents.
fn twin(base: &str, text: &str) -> Response {
    let mut response =
        Response::new(Body::from(format!("> For programs, an index of all documents: [{base}/llms.txt]({base}/llms.txt)\n\n{text}")));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/markdown; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// Returns the guide's text with the facts of this host.
async fn filled(visitor: &Visitor, guide: &Guide) -> Result<String, ApiRefusal> {
    let manifest = visitor.manifest().await?;
    let tool = if guide.text.contains("{{slug}}") { example(visitor).await? } else { None };
    let slug = tool.as_ref().map_or(NO_TOOL, |tool| tool.common.slug.as_str());
    let payment = &manifest.payment;
    let challenge = if tool.is_none() { HeaderMap::new() } else { visitor.head(&format!("/tools/{}", segment(slug))).await };
    let registering = match guide.text.contains("registering is") {
        true => Some(RegistrationTerms::read(visitor).await?),
        false => None,
    };
    let is_free = registering.is_some_and(|terms| terms.is_free());
    let networks: Vec<_> = payment.accepts.iter().map(|accepted| &*accepted.network).collect();
    let schema = tool.as_ref().map_or(&Value::Null, |tool| &tool.common.input_schema.0);
    let input = if tool.as_ref().is_some_and(is_shipped) { sample::input(schema) } else { sample::typed(schema) };
    let max_price = tool.as_ref().map_or(NO_PRICE, |tool| tool.common.price_usd);
    let method = SnippetParts { base: visitor.base_url(), slug, input: input.clone(), networks, max_price };
    let facts = [
        ("base", visitor.base_url().to_owned()),
        ("slug", slug.to_owned()),
        ("invoke", quoted(&sample::json(&json!({ "slug": slug, "input": input })))),
        ("curl", method.curl()),
        ("script", method.script()),
        ("challenge", asked_for(&challenge)),
        ("network", payment.network.clone()),
        ("networkName", payment.network_v1.clone()),
        ("token", payment.asset.symbol.clone()),
    ];
    let holds = |condition: &str| match condition {
        "simulated" => payment.simulated,
        "real" => !payment.simulated,
        "nothing to sell" => tool.is_none(),
        "registering is free" => is_free,
        "registering is paid" => !is_free,
        _ => false,
    };
    Ok(guides::filled(guide.text, &facts, holds))
}

/// Returns the tool for examples: a built-in one, else the cheapest. `None` if nothing is for sale.
async fn example(visitor: &Visitor) -> Result<Option<Endpoint>, ApiRefusal> {
    let fits = |tool: &Endpoint| tool.common.status == Status::Active && tool.common.pricing_mode == PricingMode::FixedPriceSuccessReceipt;
    // The public records are the same for everybody.
    let visitor = visitor.without_session();
    for slug in SHIPPED {
        match visitor.get::<EndpointResponse>(&format!("/ai/endpoints/{slug}")).await {
            Ok(answer) => match &answer.endpoint {
                EndpointView::Public(tool) if fits(tool) && is_shipped(tool) => return Ok(Some((**tool).clone())),
                EndpointView::Public(_) | EndpointView::Own(_) => {}
            },
            Err(refused) if refused.is(Code::UnknownEndpoint) => {}
            Err(refused) => return Err(refused),
        }
    }
    let found = visitor.get::<Catalog>(&format!("/ai/endpoints?price=paid&sort=price&limit={LOOKED_AT}")).await?;
    Ok(found.endpoints.iter().find(|tool| fits(tool)).cloned())
}

/// Returns whether a tool's texts were written by the host's operator. A builder's tool has a scan
/// result in its record.
fn is_shipped(tool: &Endpoint) -> bool {
    SHIPPED.contains(&tool.common.slug.as_str()) && matches!(tool.content_safety, None | Some(None))
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
