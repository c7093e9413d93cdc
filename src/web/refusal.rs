//! Pages for refusals, in the words of the API.

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
use tollhouse_front::{ErrorWording, ErrorWriter, code_of};

use super::{
    host_checks::is_ours,
    page::{Area, BackLink, Page},
    parts::{facts, text::plain, time::span},
    services::Services,
    visitor::{ApiRefusal, Visitor},
};

/// Maximum size of an error envelope, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Returns the wording of faults on the addresses of pages and assets.
pub(super) fn wording(services: Services) -> ErrorWording {
    let services = Arc::new(services);
    let describe = move |request: &Request| -> ErrorWriter {
        let (services, tokens) = (Arc::clone(&services), services.cookie.all(request.headers()));
        Box::new(move |response| Box::pin(async move { as_page(&services, &tokens, response).await }))
    };
    ErrorWording { covers: is_ours, writer: Arc::new(describe), others_may_read: false }
}

/// Converts an error envelope to a page. Status and headers stay, except headers that describe the
/// body.
async fn as_page(services: &Arc<Services>, tokens: &[Token], response: Response) -> Response {
    let code = code_of(&response).map(|code| code.row().name);
    let (head, body) = response.into_parts();
    let envelope = to_bytes(body, MAX_BYTES).await.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let error = match envelope.map(|mut envelope| envelope["error"].take()).unwrap_or_default() {
        // In an x402 challenge, `error` is a sentence.
        Value::String(message) => json!({ "message": message, "code": code, "charged": false }),
        error => error,
    };
    let back = head.extensions.get::<BackLink>().map(|BackLink(path)| path.as_str());
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

/// Returns the API's status and error, for a page that shows the typed text again.
///
/// # Errors
///
/// The response itself if it is not an API error but a redirect to sign in.
pub(super) async fn error(refused: ApiRefusal) -> Result<(StatusCode, Value), ApiRefusal> {
    if refused.code().is_none() {
        return Err(refused);
    }
    let response = refused.into_response();
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_BYTES).await.unwrap_or_default();
    let mut envelope: Value = serde_json::from_slice(&body).unwrap_or_default();
    Ok((status, envelope["error"].take()))
}

/// Returns the heading for an error.
pub(super) fn heading(error: &Value) -> String {
    error["message"].as_str().unwrap_or("something went wrong").to_owned()
}

/// Shows the rest of the error, with the waiting time before a retry.
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
