//! `/dashboard/api/…`: passes requests of page scripts to the public API, with the session's
//! credential, which no script ever sees.

use std::sync::Arc;

use axum::{extract::FromRequestParts as _, http::HeaderName};
use tollhouse_front::{ApiError, Code, ErrorWording, code_of};

use crate::{
    HeaderMap, HeaderValue, IntoResponse as _, Method, Request, Response, Services, State, Visitor, forms::check_form_token, header,
    set_security_headers,
};

/// Header in which a script sends the form token, in place of the form's hidden field.
const FORM_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");

/// Headers of a script's request that are passed on.
const PASSED: [HeaderName; 5] = [header::ACCEPT, header::CONTENT_TYPE, header::IF_MATCH, header::IF_NONE_MATCH, LAST_EVENT_ID];
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Passes a request on, and returns the answer unchanged.
pub(super) async fn pass(State(services): State<Arc<Services>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let visitor = match Visitor::from_request_parts(&mut parts, &services).await {
        Ok(visitor) => visitor,
        Err(fault) => return fault.into_response(),
    };
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let shown = parts.headers.get(&FORM_TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
        if let Some(Err(forged)) = visitor.session().map(|session| check_form_token(session, shown)) {
            return forged.into_response();
        }
    }
    let path = parts.uri.path_and_query().map(|query| query.as_str()).unwrap_or_default();
    let Some(path) = path.strip_prefix("/dashboard/api").filter(|path| is_open(path)) else {
        return ApiError::from(Code::NotFound).into_response();
    };
    let headers: HeaderMap = PASSED.into_iter().filter_map(|name| Some((name.clone(), parts.headers.get(&name)?.clone()))).collect();
    let mut response = visitor.send(parts.method, path, headers, body).await;
    if code_of(&response) == Some(Code::Unauthorized) {
        visitor.end_session().await;
    }
    let headers = response.headers_mut();
    set_security_headers(headers);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns faults to scripts in the API's own form. Other origins cannot read them.
pub(super) fn wording() -> ErrorWording {
    let covers = |path: &str| path.starts_with("/dashboard/api/");
    ErrorWording { covers, writer: Arc::new(|_| Box::new(|response| Box::pin(async move { response }))), others_may_read: false }
}

/// Returns whether scripts may call this path: only management. Pages make paid calls, because they
/// show the price.
fn is_open(path: &str) -> bool {
    path.starts_with("/ai/") && !path.starts_with("/ai/invoke") && !path.starts_with("/ai/mcp") || path == "/health"
}
