//! How a refusal is told to a person: the API's own words, whatever page they are refused.

use std::sync::Arc;

use axum::{
    body::to_bytes,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde_json::{Value, json};
use tollhouse_account::session::Token;
use tollhouse_front::{Teller, Wording, code_of};

use super::{
    doors::is_ours,
    page::{Area, Back, Page},
    parts::{facts, text::plain, time::span},
    services::Services,
    visitor::{Refused, Visitor},
};

/// Most bytes of an envelope.
const MOST_BYTES: usize = 64 << 10;

/// How faults are told at the addresses of pages, and of what they are drawn with.
pub(super) fn wording(services: Services) -> Wording {
    let services = Arc::new(services);
    let told = move |request: &Request| -> Teller {
        let (services, tokens) = (Arc::clone(&services), services.cookie.all(request.headers()));
        Box::new(move |response| Box::pin(async move { told(&services, &tokens, response).await }))
    };
    Wording { covers: is_ours, told: Arc::new(told), others_may_read: false }
}

/// The envelope of an error as a page for who asked. Status and headers stay, but for those of a page.
async fn told(services: &Arc<Services>, tokens: &[Token], response: Response) -> Response {
    let code = code_of(&response).map(|code| code.row().name);
    let (head, body) = response.into_parts();
    let envelope = to_bytes(body, MOST_BYTES).await.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let error = match envelope.map(|mut envelope| envelope["error"].take()).unwrap_or_default() {
        // A challenge of x402 says why in a sentence.
        Value::String(message) => json!({ "message": message, "code": code, "charged": false }),
        error => error,
    };
    let back = head.extensions.get::<Back>().map(|Back(path)| path.as_str());
    let wait = head.headers.get(header::RETRY_AFTER).and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let page = Page { status: head.status, unlisted: true, ..Page::new(Area::Elsewhere, heading(&error), view(&error, wait, back)) };
    let mut response = Visitor::refused_by(services, tokens).await.show(page).await;
    for (name, value) in &head.headers {
        if name != header::CONTENT_LENGTH && !response.headers().contains_key(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// What the API said of it, for a page that shows what was typed again.
///
/// # Errors
///
/// What is no refusal of the API's: the way to where one signs in.
pub(super) async fn error(refused: Refused) -> Result<(StatusCode, Value), Refused> {
    if refused.code().is_none() {
        return Err(refused);
    }
    let response = refused.into_response();
    let status = response.status();
    let body = to_bytes(response.into_body(), MOST_BYTES).await.unwrap_or_default();
    let mut envelope: Value = serde_json::from_slice(&body).unwrap_or_default();
    Ok((status, envelope["error"].take()))
}

/// What is wrong, as a heading says it.
pub(super) fn heading(error: &Value) -> String {
    error["message"].as_str().unwrap_or("something went wrong").to_owned()
}

/// All else that the API says of it, with the seconds after which it may go well.
pub(super) fn view(error: &Value, wait: Option<u64>, back: Option<&str>) -> Markup {
    let text = |name: &str| error[name].as_str();
    let charged = match &error["charged"] {
        Value::Bool(false) => Some("nothing was charged"),
        Value::Bool(true) => Some("it was charged before, and not again"),
        Value::String(_) => Some("not known yet: it was charged at most once"),
        _ => None,
    };
    html! {
        @if let Some(hint) = text("hint") { p.lead { (plain(hint)) } }
        (facts::list(&[
            ("When again", wait.map(|seconds| html! { "in " (span(seconds)) })),
            ("Where", text("pointer").map(facts::id)),
            ("Code", text("code").map(facts::id)),
            ("Request", text("requestId").map(facts::id)),
            ("Charged", charged.map(|words| html! { (words) })),
        ]))
        p {
            @match back {
                Some(back) => a.button href=(back) { "Back" },
                None => a.button href="/dashboard" { "All tools" },
            }
        }
    }
}
