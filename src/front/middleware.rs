//! Middleware for all front ends: request ids, limits per address, and headers of every response.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::HttpBody as _,
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header,
        uri::{Authority, PathAndQuery},
    },
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use futures_util::future::BoxFuture;
use percent_encoding::percent_decode_str;
use tollhouse_base::id::RequestId;
use tollhouse_telemetry::{
    answering,
    counters::{REFUSALS, RESPONSES},
};
use tower::{Service, ServiceBuilder};
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

use super::{
    address::peer,
    api_error::{ApiError, REQUEST, code_of},
    auth_failures,
    compress::{self, DocumentMark},
    error_codes::Code,
    front_services::FrontServices,
    header_names,
    payment::{check_credit, check_payment, offered},
};

/// How long browsers can cache a preflight response.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// Maximum bytes of the requested header names that the answer to a preflight repeats. Longer lists are not repeated.
const MIRRORED_BYTES: usize = 1 << 10;

/// Paths whose errors do not use the envelope, with their error format. It also applies to errors of the middleware
/// before the front end.
#[derive(Clone)]
pub struct ErrorWording {
    /// Returns whether a path is one of these.
    pub covers: fn(&str) -> bool,
    /// Converts an error in the envelope to the format of these paths.
    pub writer: ErrorWriterFactory,
    /// Whether browsers let pages of other origins read the responses.
    pub others_may_read: bool,
}

/// Prepares the error format for a request, keeping the parts of the request that it needs.
pub type ErrorWriterFactory = Arc<dyn Fn(&Request) -> ErrorWriter + Send + Sync>;

/// Converts an error response to another format.
pub type ErrorWriter = Box<dyn FnOnce(Response) -> BoxFuture<'static, Response> + Send>;

/// Paths with an access check, which also covers paths without a route.
#[derive(Clone)]
pub struct HostCheck {
    /// Returns whether a path is one of these.
    pub covers: fn(&str) -> bool,
    /// Rejects requests that are not allowed.
    pub check: RequestCheck,
}

/// Checks a request before it is routed.
pub type RequestCheck = Arc<dyn Fn(&Request) -> Result<(), ApiError> + Send + Sync>;

/// The routes of all front ends, with their access checks and error formats.
pub struct Fronts {
    /// The routes of all front ends, merged.
    pub routes: Router,
    /// The access checks. The first that covers a path applies.
    pub doors: Arc<[HostCheck]>,
    /// The error formats. The first that covers a path applies.
    pub wordings: Arc<[ErrorWording]>,
}

/// Returns the routes of all front ends inside the middleware.
#[allow(unreachable_pub, reason = "tests of other crates use it")]
pub fn framed_routes(
    shared: Arc<FrontServices>,
    Fronts { routes, doors, wordings }: Fronts,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send + 'static> + Clone + Send + 'static {
    // The middleware wraps the router, which is cheap to clone. A layer on the routes would clone all layers below it
    // for each request.
    let frame_services = Arc::clone(&shared);
    ServiceBuilder::new()
        .layer(middleware::from_fn(move |request, next| frame(Arc::clone(&frame_services), Arc::clone(&wordings), request, next)))
        .layer(cors())
        .layer(middleware::from_fn_with_state((shared, doors), limit))
        .service(worded(routes))
}

/// Adds error responses for unknown paths and methods.
pub fn worded(routes: Router) -> Router {
    routes.fallback(not_found).method_not_allowed_fallback(method_not_allowed)
}

/// Answers preflights before any access check, and lets browsers read the headers that a payment needs.
fn cors() -> CorsLayer {
    let exposed = [
        &header_names::PAYMENT_REQUIRED,
        &header_names::PAYMENT_RESPONSE,
        &header_names::X_PAYMENT_RESPONSE,
        &header_names::RECEIPT_ID,
        &header_names::PAYMENT_ID,
        &header_names::QUOTE_ID,
        &header_names::REQUEST_ID,
        &header_names::MCP_SESSION,
        &header_names::RATE_LIMIT,
        &header_names::RATE_LIMIT_POLICY,
        &header::ETAG,
        &header::RETRY_AFTER,
    ];
    // Allow any header that a page requests: `*` does not cover `Authorization`, and a list cannot contain
    // `Mcp-Param-…`. A browser adds no credentials to such requests, so a page can send only what it knows.
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::PUT, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        // Only the browser caches a preflight response, and other responses do not vary by it.
        .vary([])
        .expose_headers(exposed.map(HeaderName::clone))
        .max_age(PREFLIGHT_AGE)
}

/// Enforces the limits of a client address on a preflight, which [`cors`] answers, and bounds its answer.
fn limit_preflight(shared: &FrontServices, peer: IpAddr, headers: &mut HeaderMap) -> Result<(), ApiError> {
    count_request(shared, peer)?;
    bound_mirrored_names(headers);
    Ok(())
}

/// Counts a request of an address. Fails if the address sends too many, or leaves too many answers unread.
fn count_request(shared: &FrontServices, peer: IpAddr) -> Result<(), ApiError> {
    shared.limits.count(peer)?;
    shared.intake.check_unread_answers(peer)
}

/// Removes a list of header names that is too long to repeat. Copies a short one, because the original keeps the whole
/// head of the request in memory.
fn bound_mirrored_names(headers: &mut HeaderMap) {
    let names = headers.remove(header::ACCESS_CONTROL_REQUEST_HEADERS).filter(|names| names.len() <= MIRRORED_BYTES);
    if let Some(Ok(copy)) = names.map(|names| HeaderValue::from_bytes(names.as_bytes())) {
        headers.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, copy);
    }
}

/// Enforces rate limits, limits on unread answers and on wrong credentials, and access checks. Also rejects a request
/// without exactly one host, with an encoded body, with two developer credits, or with a reserved key in its payment.
async fn limit(
    State((shared, doors)): State<(Arc<FrontServices>, Arc<[HostCheck]>)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let admitted = count_request(&shared, peer.ip()).map_err(|refused| refused.before_lookup(&offered(request.headers())));
    let checked = admitted.and_then(|()| check_host(&request)).and_then(|()| check_transfer_coding(request.headers()));
    if let Err(refused) = checked.and_then(|()| put_host(&mut request)) {
        return refused.into_response();
    }
    let door = doors.iter().find(|door| (door.covers)(request.uri().path()));
    if let Some(Err(denied)) = door.map(|door| (door.check)(&request)) {
        return denied.into_response();
    }
    if let Some(refused) = check_query(request.uri()) {
        return refused;
    }
    if let Err(refused) = check_credit(request.headers()).and_then(|()| check_payment(request.headers())) {
        return refused.into_response();
    }
    auth_failures::limit(shared.limits.failures(), peer.ip(), request, next).await
}

/// Rejects a request with no host or with two (RFC 9112, section 3.2; RFC 9113, section 8.3.1).
fn check_host(request: &Request) -> Result<(), ApiError> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(ApiError::bad_request("the request has two `Host` headers").hint("Send one"));
    }
    match host {
        Some(host) if is_host(host) => Ok(()),
        Some(_) => Err(ApiError::bad_request("the `Host` header must be a host name or address with an optional port")),
        // HTTP/2 has the host in `:authority`. HTTP/1.0 does not require one.
        None if request.uri().authority().is_some() || request.version() < Version::HTTP_11 => Ok(()),
        None => Err(ApiError::bad_request("the request does not name its host").hint("Send a `Host` header")),
    }
}

/// Rejects a body with a transfer coding other than `chunked`, or with that one twice. hyper decodes only the last coding,
/// so the rest would be read as if it were not encoded (RFC 9112, section 6.1).
fn check_transfer_coding(headers: &HeaderMap) -> Result<(), ApiError> {
    let values = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let codings = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut codings = codings.filter(|coding| !coding.is_empty());
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => {
            let fault = ApiError::bad_request("the body has a transfer coding that this host does not decode");
            Err(fault.hint("Send the body with `Content-Length`, or with `Transfer-Encoding: chunked` alone"))
        }
    }
}

/// Sets the `Host` header to the host of the request target, which takes precedence (RFC 9112, section 3.2.2; RFC 9113,
/// section 8.3.1).
fn put_host(request: &mut Request) -> Result<(), ApiError> {
    let Some(authority) = request.uri().authority() else { return Ok(()) };
    let host = HeaderValue::from_str(authority.as_str()).ok().filter(is_host);
    let host = host.ok_or_else(|| ApiError::bad_request("the request's target must have a host name or address with an optional port"))?;
    request.headers_mut().insert(header::HOST, host);
    Ok(())
}

fn is_host(value: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(value.as_bytes()) else { return false };
    let Some(rest) = authority.as_str().strip_prefix(authority.host()) else { return false };
    let port = rest.strip_prefix(':');
    !authority.host().is_empty() && port.map_or(rest.is_empty(), |port| port.is_empty() || port.parse::<u16>().is_ok())
}

/// Returns an error if the percent-encoded query is not UTF-8. It would be read as something that was not sent.
fn check_query(uri: &Uri) -> Option<Response> {
    let reads = percent_decode_str(uri.query()?).decode_utf8().is_ok();
    (!reads).then(|| ApiError::bad_request("the percent-encoded bytes of the query are not UTF-8").into_response())
}

/// Gives every request an id, and every response its standard headers.
async fn frame(shared: Arc<FrontServices>, wordings: Arc<[ErrorWording]>, mut request: Request, next: Next) -> Response {
    if let Some(uri) = without_last_slash(request.uri()) {
        *request.uri_mut() = uri;
    }
    let id = RequestId::generate();
    request.extensions_mut().insert(id.clone());
    let wording = wordings.iter().find(|wording| (wording.covers)(request.uri().path()));
    let query = compress::encoding_request(&request);
    let (peer, replaceable) = (peer(request.extensions()), Replaceable::of(&request));
    let writer = wording.map(|wording| (wording.writer)(&request));
    let is_preflight = *request.method() == Method::OPTIONS;
    let answer = async {
        let limited = if is_preflight { limit_preflight(&shared, peer, request.headers_mut()) } else { Ok(()) };
        match limited {
            Ok(()) => next.run(request).await,
            Err(refused) => refused.into_response(),
        }
    };
    let (response, trace) = answering(REQUEST.scope(id.clone(), answer)).await;
    let mut response = match replaceable.refused(&shared, peer, &response) {
        Some(refused) => REQUEST.sync_scope(id.clone(), || refused.into_response()),
        None => response,
    };
    let code = code_of(&response);
    if let Some(report) = writer.filter(|_| code.is_some()) {
        response = REQUEST.scope(id.clone(), report(response)).await;
    }
    if wording.is_some_and(|wording| !wording.others_may_read) {
        let allowed: Vec<_> = response.headers().keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
        allowed.iter().for_each(|name| _ = response.headers_mut().remove(name));
    }
    count(&response, code);
    if let Some(value) = trace.and_then(|trace| HeaderValue::try_from(trace).ok()) {
        response.headers_mut().insert(&header_names::TRACE_RESPONSE, value);
    }
    framed(&id, compress::compressed(response, query).await)
}

/// Returns the address of an operation without trailing slashes, or `None` if it has none. Both spellings work, because
/// clients are configured with either and a redirect would lose the body.
fn without_last_slash(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let is_operation = ["/ai/", "/tools/", "/x402/", "/openapi.json/", "/.well-known/"].iter().any(|start| path.starts_with(start));
    let plain = path.trim_end_matches('/');
    if !is_operation || plain.len() == path.len() {
        return None;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{plain}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}

/// Which answers of a request can be replaced by an error if the memory for answers is full. Paid answers never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replaceable {
    /// All answers except those of paid calls.
    Unpaid,
    /// Lists and documents. The headers of other answers there do not show whether they were paid for.
    Documents,
    Nothing,
}

impl Replaceable {
    fn of(request: &Request) -> Self {
        let (path, reads) = (request.uri().path(), matches!(*request.method(), Method::GET | Method::HEAD));
        if path.starts_with("/ai/payments/") {
            // A caller fetches a paid answer again here.
            Self::Nothing
        } else if reads || path.starts_with("/tools/") || path == "/ai/invoke" {
            Self::Unpaid
        } else {
            Self::Documents
        }
    }

    /// Returns the error to send instead of the answer, if there is no memory for it.
    fn refused(self, shared: &FrontServices, peer: IpAddr, response: &Response) -> Option<ApiError> {
        let is_replaceable = match self {
            Self::Unpaid => !response.headers().contains_key(&header_names::PAYMENT_ID),
            Self::Documents => response.extensions().get::<DocumentMark>().is_some(),
            Self::Nothing => false,
        };
        let bytes = response.body().size_hint().exact().filter(|_| is_replaceable)?;
        shared.intake.check_room(peer, bytes).err()
    }
}

/// Counts the response and its error code, whatever its format.
fn count(response: &Response, code: Option<Code>) {
    let class = ["1xx", "2xx", "3xx", "4xx", "5xx"].get(usize::from(response.status().as_u16() / 100).saturating_sub(1));
    class.into_iter().for_each(|class| RESPONSES.count([class]));
    if let Some(code) = code {
        REFUSALS.count(code.row().name);
    }
}

/// Adds the headers that every response has.
pub(super) fn framed(id: &RequestId, mut response: Response) -> Response {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        headers.insert(&header_names::REQUEST_ID, value);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Answers an unknown path.
async fn not_found(uri: Uri) -> ApiError {
    ApiError::new(Code::NotFound, format!("nothing is at `{}`", uri.path()))
}

/// Answers an unsupported method on a known path. The router adds `Allow`.
async fn method_not_allowed(method: Method) -> ApiError {
    ApiError::new(Code::MethodNotAllowed, format!("`{method}` is not allowed for this path; `Allow` lists the allowed methods"))
}

#[cfg(test)]
mod tests;
