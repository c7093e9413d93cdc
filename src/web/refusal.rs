//! Pages for refusals, in the words of the API.

use std::sync::Arc;

use axum::body::to_bytes;
use maud::{Markup, html};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tollhouse_account::session::Token;
use tollhouse_api::{Charged, ErrorDetails, FaultParty};
use tollhouse_front::{ErrorWording, ErrorWriter, accept::is_named, code_of};

use crate::{
    ApiRefusal, Area, BackLink, IntoResponse as _, Page, Request, Response, Services, StatusCode, Visitor, facts, header,
    host_checks::is_ours, pages::docs::SEARCH, parts::time::span, plain,
};

/// Maximum size of an error envelope, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Returns the wording of faults on the addresses of pages and assets.
pub(super) fn wording(services: Services) -> ErrorWording {
    let services = Arc::new(services);
    let describe = move |request: &Request| -> ErrorWriter {
        if request.uri().path() == SEARCH && is_named(request.headers(), "application/json") {
            return Box::new(|response| Box::pin(async move { response }));
        }
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
    let mut error = read(&to_bytes(body, MAX_BYTES).await.unwrap_or_default());
    if error.message.is_empty() {
        error.message = if error.code.is_empty() { "Something went wrong".to_owned() } else { error.code };
    }
    error.code = code.unwrap_or_default().to_owned();
    let back = head.extensions.get::<BackLink>().map(|BackLink(path)| path.as_str());
    let wait = head.headers.get(header::RETRY_AFTER).and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let page = Page { status: head.status, unlisted: true, ..Page::new(Area::Elsewhere, error.message.clone(), view(&error, wait, back)) };
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
pub(super) async fn error(refused: ApiRefusal) -> Result<(StatusCode, ErrorDetails), ApiRefusal> {
    if refused.code().is_none() {
        return Err(refused);
    }
    let response = refused.into_response();
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_BYTES).await.unwrap_or_default();
    Ok((status, read(&body)))
}

/// Reads the error of a response. For an x402 challenge, the code is its reason, and the message can be empty.
pub(super) fn read(body: &[u8]) -> ErrorDetails {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let reason = body["error"].as_str();
    ErrorDetails::deserialize(&body["error"]).unwrap_or_else(|_| ErrorDetails {
        code: reason.unwrap_or_default().to_owned(),
        fault: FaultParty::Host,
        message: body["message"].as_str().unwrap_or_default().to_owned(),
        request_id: None,
        charged: Some(Charged::No),
        retry_after_seconds: None,
        hint: None,
        pointer: None,
        problems: None,
        payment_id: None,
        more: Map::new(),
    })
}

/// Shows the rest of the error, with the waiting time before a retry.
fn view(error: &ErrorDetails, wait: Option<u64>, back: Option<&str>) -> Markup {
    let charged = error.charged.map(|charged| match charged {
        Charged::No => "nothing was charged",
        Charged::Yes => "charged once before, and not charged again",
        Charged::Unknown => "not known yet: it was charged at most once",
    });
    html! {
        @if let Some(hint) = &error.hint { p.lead { (plain(hint)) } }
        (facts::list(&[
            ("Try again", wait.map(|seconds| html! { "in " (span(seconds)) })),
            ("Field", error.pointer.as_deref().map(facts::id)),
            ("Code", (!error.code.is_empty()).then(|| facts::id(&error.code))),
            ("Request id", error.request_id.as_deref().map(facts::id)),
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
