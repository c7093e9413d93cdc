//! `/guides/{name}`: our own guides, with this host's addresses, prices and a tool of its catalogue in every example. With `.md`
//! at its end, or for who asks for Markdown, as it was written.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use maud::{PreEscaped, html};
use serde_json::{Value, json};

use crate::{
    front::{Code, Fault, PathParams},
    web::{
        guides::{self, Guide, wants_markdown},
        page::{Area, Page},
        parts::{
            sample::{self, quoted},
            ways::Way,
        },
        visitor::{Refused, Visitor, segment},
    },
};

/// What stands in the examples of a host that sells nothing.
const NO_TOOL: &str = "your-tool";

pub(in crate::web) async fn page(visitor: Visitor, PathParams(name): PathParams<String>, asked: HeaderMap) -> Result<Response, Refused> {
    let (name, is_twin) = name.strip_suffix(".md").map_or((&*name, false), |name| (name, true));
    let guide = guides::ALL.iter().find(|guide| guide.name == name).ok_or_else(|| Refused::from(Fault::from(Code::NotFound)))?;
    let text = filled(&visitor, guide).await?;
    if is_twin || wants_markdown(&asked) {
        return Ok(twin(visitor.base_url(), &text));
    }
    let rendered = guides::rendered(&text);
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

/// As Markdown, whose first line says where all else is.
fn twin(base: &str, text: &str) -> Response {
    let mut response =
        Response::new(Body::from(format!("> What else there is to read, for programs: [{base}/llms.txt]({base}/llms.txt)\n\n{text}")));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/markdown; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// The guide's text, on this host as it is now.
async fn filled(visitor: &Visitor, guide: &Guide) -> Result<String, Refused> {
    let manifest = visitor.get("/ai/manifest").await?;
    let found = visitor.get("/ai/endpoints?price=paid&sort=price&limit=20").await?;
    let fits = |tool: &&Value| tool["status"] == "active" && tool["pricingMode"] == "fixed_price_success_receipt";
    let tool = found["endpoints"].as_array().into_iter().flatten().find(fits).cloned().unwrap_or_default();
    let slug = tool["slug"].as_str().unwrap_or(NO_TOOL);
    let payment = &manifest["payment"];
    let challenge = visitor.head(&format!("/tools/{}", segment(slug))).await;
    let accepts = payment["accepts"].as_array().into_iter().flatten();
    let networks: Vec<_> = accepts.filter_map(|accepted| accepted["network"].as_str()).collect();
    let input = sample::input(&tool["inputSchema"]);
    let way = Way { base: visitor.base_url(), slug, input: input.clone(), networks };
    let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let facts = [
        ("base", visitor.base_url().to_owned()),
        ("slug", slug.to_owned()),
        ("invoke", quoted(&sample::json(&json!({ "slug": slug, "input": input })))),
        ("curl", way.curl()),
        ("script", way.script()),
        ("challenge", asked_for(&challenge)),
        ("network", said(&payment["network"])),
        ("networkName", said(&payment["networkV1"])),
        ("token", said(&payment["asset"]["symbol"])),
    ];
    let holds = |condition: &str| match condition {
        "simulated" => payment["simulated"] == true,
        "real" => payment["simulated"] != true,
        "nothing to sell" => tool.is_null(),
        _ => false,
    };
    Ok(guides::filled(guide.text, &facts, holds))
}

/// The challenge of the tool, without its extensions.
fn asked_for(head: &HeaderMap) -> String {
    let text = head.get("payment-required").and_then(|value| STANDARD.decode(value).ok()).unwrap_or_default();
    let mut challenge: Value = serde_json::from_slice(&text).unwrap_or_else(|_| json!({ "x402Version": 2, "accepts": [] }));
    if let Some(members) = challenge.as_object_mut() {
        members.remove("extensions");
    }
    sample::visible(&serde_json::to_string_pretty(&challenge).unwrap_or_default())
}
