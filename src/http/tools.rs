//! `/tools/{slug}`: inspects or calls a tool.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, request::Parts, uri::PathAndQuery},
    response::IntoResponse as _,
};
use serde_json::json;
use tollhouse_api::{EndpointResponse, True};
use tollhouse_call::{Call, CallError, Input, MAX_QUERY_FIELDS, ReplayRequest, RequestHead, check_query};
use tollhouse_front::{
    ApiError, Code, PathParams, SpoolRequest,
    body::{self, BodyKind},
    bought, network, offered, quote, reserved_key, sse,
};
use tollhouse_money::{EntryMethod, OfferedPayment};
use tollhouse_protocol::limits::Limits;
use tollhouse_tool::{CatalogForm, Endpoint, has_reserved_key};

use crate::{Answer, Http, ResponseKind, Route, Services, answer_stream, codes, html_402, open, reply, stream};

/// Headers for payments and quotes.
pub(super) const OF_PAYERS: &[&str] = &["PAYMENT-SIGNATURE", "X-PAYMENT", "X-Developer-Credit", "X-Quote-Id"];

/// Error codes about payments.
pub(super) const OF_PAYMENTS: &[Code] = codes![
    InvalidPaymentIdentifier PaymentRequired WrongCredit BudgetExceeded CreditTooLow CreditFrozen CreditRevoked
    PaymentReused PaymentInProgress QuoteExpired QuoteInvalid FacilitatorUnavailable GasSpent SettlementUnknown
    AnswerLost AnswerExpired AnswerOwed NoMoreRuns KeyRequired PaidRunFailed NotReady CallLost
];

/// Further error codes of calls.
pub(super) const OF_CALLS: &[Code] = codes![
    InvalidJson Unauthorized BuilderSuspended UnknownEndpoint BodyTooSlow Cancelled EndpointPaused BodyTooLarge
    UnsupportedMediaType InvalidInput HandlerFailed InvalidOutput WallTimeExceeded CpuTimeExceeded MemoryExceeded
    OutputTooLarge OpLimitExceeded SchemaTooCostly SandboxCrashed SourceUnavailable SecretsUnavailable
];

pub(super) fn routes() -> Vec<Route> {
    let calls = |route: Route| {
        route.responds(ResponseKind::Tool).reads_headers(OF_PAYERS).streams().for_agents().fails(OF_PAYMENTS).fails(OF_CALLS)
    };
    let input = "calls a tool with the query as its input; with only `?inspect`, returns the tool's record";
    vec![
        calls(open::get("/tools/{slug}", "inspectTool", input, call)).query(&["inspect"]),
        calls(open::post("/tools/{slug}", "callTool", "calls a tool of the catalog with its input; 402 if the tool is paid", call))
            .takes("ToolInput"),
        open::head("/tools/{slug}", "challengeTool", "the payment challenge of a call, in the headers; never runs the tool", head)
            .responds(ResponseKind::Tool)
            .fails(OF_PAYMENTS)
            .fails(OF_CALLS),
    ]
}

/// Calls a tool. The input is the body of a POST or the query of a GET.
async fn call(
    State(http): State<Http>,
    PathParams(slug): PathParams,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Answer {
    if !html_402::is_browser_navigation(request.headers()) {
        return called(http, slug, peer, request).await;
    }
    let (catalog, base_url) = (Arc::clone(&http.catalog), http.base_url.clone());
    let live = catalog.find_listed(&slug).await?;
    let answer = called(http, slug, peer, request).await;
    answer.or_else(|refused| Ok(html_402::page(refused, live.as_ref().map(|live| &live.endpoint), &base_url)))
}

async fn called(http: Http, slug: String, peer: SocketAddr, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let query = query_fields(&parts.uri);
    if parts.method == Method::GET && is_inspection(&query) {
        return inspect(&http, &slug).await;
    }
    check_keys(&query)?;
    let limits = &http.shared.limits;
    let offered = limits.observed(limits.sender(peer.ip(), &parts.headers), offered(&parts.headers));
    let (live, by) = match http.shared.callers.called(&http.calls, &parts.headers, &parts.extensions, &slug).await {
        Ok(called) => called,
        Err(refused) => {
            let Some(input) = paid_input(&http, peer.ip(), &offered, &parts, body).await else { return Err(refused) };
            let requested =
                ReplayRequest { slug: &slug, method: method(&parts), query: parts.uri.query(), input, offered, from: network(peer.ip()) };
            let performing = bought(&http.calls, refused, requested).await?;
            return Ok(if sse::requested(&parts.headers) {
                stream::bought(http, performing)
            } else {
                reply::without_body(&performing.await?)
            });
        }
    };
    let quote = quote(&parts.headers);
    let option = EntryMethod::of_method(method(&parts));
    let types = &live.endpoint.request_types;
    // Before the challenge, so that nobody signs a payment for a body that the tool does not take.
    let is_checked = parts.method != Method::GET && !types.is_empty() && !offered.repeatable();
    let kind = if is_checked { body::kind(&parts.headers, types).map(drop) } else { Ok(()) };
    let checked = kind.and_then(|()| Ok(http.calls.check_offered(&live, (by, option), &offered, quote.as_deref())?));
    if let Err(refused) = checked {
        if !types.is_empty() {
            // It can be long.
            body::discard_unread(&parts.headers, body).await;
        }
        return Err(refused);
    }
    check_query(&query)?;
    let input = match parts.method {
        Method::GET => Input::Query(query.clone()),
        _ => called_input(&http, peer.ip(), &live.endpoint, &offered, &parts.headers, body).await?,
    };
    let method = method(&parts);
    let head = request_head(&http, &live.endpoint, (method, &parts.uri), query, &parts.headers);
    let call = Call { live, by, entry_method: option, input, offered, quote, head, from: network(peer.ip()), progress: None, stream: None };
    let streamed = sse::requested(&parts.headers);
    // A call may wait for long.
    drop(parts);
    if streamed {
        return Ok(stream::events(http, call));
    }
    answer_stream::perform(&http, call).await
}

fn method(parts: &Parts) -> &'static str {
    if parts.method == Method::GET { "GET" } else { "POST" }
}

/// Answers HEAD with the challenge of a paid tool, whatever payment is offered. It never runs or settles anything.
async fn head(State(http): State<Http>, PathParams(slug): PathParams, request: Request) -> Answer {
    let (Parts { headers, extensions, .. }, _) = request.into_parts();
    let (live, by) = http.shared.callers.called(&http.calls, &headers, &extensions, &slug).await?;
    http.calls.check_offered(&live, (by, EntryMethod::Get), &OfferedPayment::Nothing, quote(&headers).as_deref())?;
    Ok(StatusCode::OK.into_response())
}

async fn inspect(http: &Services, slug: &str) -> Answer {
    let live = http.catalog.find_listed(slug).await?.ok_or_else(|| ApiError::unknown_endpoint(slug))?;
    let record = http.with_extras(&live, live.endpoint.public(&http.base_url, CatalogForm::Newer)).await;
    Ok(axum::Json(EndpointResponse { ok: True, endpoint: record }).into_response())
}

/// Reads the input of a request that may have been paid for when its tool still accepted it.
async fn paid_input(http: &Services, peer: IpAddr, offered: &OfferedPayment, parts: &Parts, body: Body) -> Option<Input> {
    if !offered.repeatable() {
        return None;
    }
    match parts.method {
        Method::GET => Some(Input::Query(vec![])),
        _ => match body::kind(&parts.headers, &any_type()).ok()? {
            BodyKind::Json => body_input(http, peer, &Limits::ceilings(), &parts.headers, body).await.ok(),
            // The answer is found by the identity of the body alone.
            BodyKind::Other(content_type) => {
                let limit = Limits::ceilings().body_bytes;
                let request = SpoolRequest { peer, headers: &parts.headers, content_type, owner: "", kept: 0, limit };
                http.shared.spool.read(&http.shared.intake, request, body).await.ok().map(Input::Raw)
            }
        },
    }
}

/// Returns the types of a tool that takes all.
fn any_type() -> [String; 1] {
    ["*/*".to_owned()]
}

/// Reads the body of a call. It can have been paid for when the tool's limit was higher, so the body of a payment that can
/// be used again is read as far as any limit. The call itself then applies the tool's limit.
async fn called_input(
    http: &Services,
    peer: IpAddr,
    endpoint: &Endpoint,
    offered: &OfferedPayment,
    headers: &HeaderMap,
    body: Body,
) -> Result<Input, ApiError> {
    let limits = &endpoint.limits;
    let (kind, kept) = match body::kind(headers, &endpoint.request_types) {
        Ok(kind) => (kind, limits.body_bytes),
        // The payment can be from a time when the tool took this type.
        Err(refused) if offered.repeatable() => (body::kind(headers, &any_type()).map_err(|_| refused)?, 0),
        Err(refused) => return Err(refused),
    };
    if let BodyKind::Other(content_type) = kind {
        let limit = if offered.repeatable() { kept.max(Limits::ceilings().body_bytes) } else { kept };
        let request = SpoolRequest { peer, headers, content_type, owner: endpoint.owner.share(), kept, limit };
        return http.shared.spool.read(&http.shared.intake, request, body).await.map(Input::Raw).map_err(|refused| match refused.code() {
            Code::BodyTooLarge => CallError::BodyTooLarge { limit: limits.body_bytes }.into(),
            _ => refused,
        });
    }
    if !offered.repeatable() {
        return body_input(http, peer, limits, headers, body).await;
    }
    body_input(http, peer, &Limits::ceilings(), headers, body).await.map_err(|refused| match refused.code() {
        Code::BodyTooLarge => CallError::BodyTooLarge { limit: limits.input_bytes }.into(),
        _ => refused,
    })
}

async fn body_input(http: &Services, peer: IpAddr, limits: &Limits, headers: &HeaderMap, body: Body) -> Result<Input, ApiError> {
    body::check_call(headers)?;
    let limit = usize::try_from(limits.input_bytes).unwrap_or(usize::MAX);
    Ok(Input::Body(body::read(&http.shared.intake, peer, headers, body, limit).await?))
}

/// Returns whether the query is `inspect` alone, without a value. Beside other fields, `inspect` belongs to the input.
fn is_inspection(query: &[(String, String)]) -> bool {
    matches!(query, [(name, value)] if name == "inspect" && value.is_empty())
}

/// Returns the fields of a query, up to one more than the limit.
fn query_fields(uri: &Uri) -> Vec<(String, String)> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().take(MAX_QUERY_FIELDS + 1).collect()
}

/// Rejects a query with a key that the JSON parser reserves for itself, as the name of a field or within the JSON of its value.
fn check_keys(query: &[(String, String)]) -> Result<(), ApiError> {
    let is_reserved = |(name, value): &(String, String)| {
        has_reserved_key(value.as_bytes()) || has_reserved_key(json!({ name: null }).to_string().as_bytes())
    };
    if query.iter().any(is_reserved) { Err(reserved_key("query")) } else { Ok(()) }
}

/// Returns the parts of the request that the handler can see.
pub(super) fn request_head(
    http: &Services,
    endpoint: &Endpoint,
    (method, uri): (&'static str, &Uri),
    query: Vec<(String, String)>,
    headers: &HeaderMap,
) -> RequestHead {
    let (headers, query) = (RequestHead::visible_headers(headers, &endpoint.request_headers), query.into_iter().collect());
    // The URI can contain a host over HTTP/2 and in absolute form, which the caller chooses freely. Use only its path
    // and query.
    let below = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    RequestHead { method, url: format!("{}{below}", http.base_url), path: uri.path().to_owned(), query, headers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inspect_alone_and_without_a_value_requests_the_record() {
        for (query, is_asked) in [
            ("inspect", true),
            ("inspect=", true),
            ("&inspect&", true),
            ("inspect=1", false),
            ("text=hi&inspect=", false),
            ("inspect&inspect", false),
            ("text=inspect", false),
            ("", false),
        ] {
            assert_eq!(is_inspection(&query_fields(&format!("/tools/a?{query}").parse().unwrap())), is_asked, "{query}");
        }
    }

    #[test]
    fn queries_with_a_reserved_key_are_rejected() {
        let code = |query: &str| check_keys(&query_fields(&format!("/tools/a?{query}").parse().unwrap())).err().map(|fault| fault.code());
        for query in ["a=1&$serde_json::private::RawValue=[1]", "a={%22$serde_json::private::Number%22:%221%22}"] {
            assert_eq!(code(query), Some(Code::InvalidJson), "{query}");
        }
        for query in ["", "a=$serde_json::private::RawValue", "a={%22b%22:1}&c="] {
            assert_eq!(code(query), None, "{query}");
        }
    }
}
