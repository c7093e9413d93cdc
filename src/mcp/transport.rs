//! The layer in front of rmcp's transport: it accepts what clients really send, takes plain calls past rmcp, and makes
//! every error JSON-RPC.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::stream;
use rmcp::{
    model::{ErrorCode, ErrorData, ProtocolVersion},
    transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollhouse_base::{
    id::RequestId,
    offload::{run_blocking, spawn_blocking_task, still_asked},
};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_front::{ApiError, Code, DocumentMark, HostCheck, QuotaShare, REQUEST, body, header_names, peer};
use tollhouse_tool::not_json;
use tower::Service as _;

use super::{
    accepted_forms::{AcceptedForms, JsonOnly, RawMessage},
    batch::{self, Member},
    cancel::ClientSession,
    chunked_body,
    fast_path::{self, PlainCall},
    front::McpFront,
    listen,
    names::ToolName,
    preparse::{MAX_PREPARSED_BYTES, MessageKind, preparse},
    raw_result::RawResultSlot,
    refusal::{self, PATH, error_data, error_data_as, id_of, refusal},
    revision::VERSIONS,
    server::McpServer,
    server_card,
    services::Services,
    settings::McpOptions,
    tool_filter::ToolFilter,
};

/// Maximum request, in bytes. Tools' input limits are lower.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Maximum values of a message that rmcp parses, and the approximate bytes of each in its tree. The arguments of calls
/// answered without rmcp stay text.
const MAX_VALUES: usize = 200_000;
const VALUE_BYTES: usize = 96;

/// Both response types, as the specification requires in `Accept`.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

type RmcpService = StreamableHttpService<McpServer, NeverSessionManager>;

/// The transport of all requests.
struct Transport {
    front: Arc<McpFront>,
    /// A service for each response format.
    json: RmcpService,
    events: RmcpService,
}

/// Returns the routes: [`PATH`] with POST only, and the server card. GET and DELETE return 405, because stateless
/// servers do not have them.
pub fn routes(services: Services) -> Router {
    let card = server_card::routes(&services.base_url);
    let server = McpServer::new(services);
    let service = |as_json: bool| {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(as_json)
            .with_max_request_body_bytes(MAX_BODY_BYTES)
            .with_sse_retry(None)
            // Our own check of origins covers both paths.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let server = server.clone();
        StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config)
    };
    let (json, events) = (service(true), service(false));
    let transport = Arc::new(Transport { front: server.front, json, events });
    Router::new().route(PATH, post(move |request: Request| answer(Arc::clone(&transport), request))).merge(card)
}

/// Returns the access check at [`PATH`], by host name and origin.
#[must_use]
pub fn door(settings: &McpOptions) -> HostCheck {
    let origins = settings.origins();
    HostCheck { covers: |path| path == PATH, check: Arc::new(move |request| origins.check(request)) }
}

async fn answer(transport: Arc<Transport>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(accepted) = AcceptedForms::by(&parts.headers) else {
        let message = "answers are `application/json` or `text/event-stream`";
        return ApiError::new(Code::NotAcceptable, message).into_response();
    };
    let intake = &transport.front.services.shared.intake;
    let body = match body::read(intake, peer(&parts.extensions), &parts.headers, body, MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(unread) => return unread.into_response(),
    };
    let refused = |status, fault: &ApiError| {
        let message = if body.len() > MAX_PREPARSED_BYTES { Value::Null } else { serde_json::from_slice(&body).unwrap_or_default() };
        refusal(status, id_of(&message), error_data(fault))
    };
    if let Err(unsupported) = body::check_call(&parts.headers) {
        let mut response = refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, &unsupported);
        response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        return response;
    }
    match ToolFilter::by(parts.uri.query()) {
        Ok(narrowed) => _ = parts.extensions.insert(narrowed),
        Err(reason) => return refused(StatusCode::BAD_REQUEST, &ApiError::bad_request(reason)),
    }
    match run_blocking(body.len(), || batch::members(&parts.headers, &body, transport.front.services.settings.batch)).await {
        None => transport.message(parts, body, accepted).await,
        Some(Ok(members)) => Box::pin(transport.batch(parts, members, accepted)).await,
        Some(Err(reason)) => ApiError::bad_request(reason).into_response(),
    }
}

impl Transport {
    async fn message(&self, mut parts: Parts, body: Bytes, accepted: AcceptedForms) -> Response {
        if let Some(plain) = run_blocking(body.len(), || PlainCall::read(&self.front, &parts.headers, accepted, &body)).await {
            return plain.answer(&self.front, &parts).await;
        }
        // Hold the tool until the response, so that it stays loaded.
        let (_live, was_ready) = self.called(&body).await;
        if !was_ready && let Some(plain) = run_blocking(body.len(), || PlainCall::read(&self.front, &parts.headers, accepted, &body)).await
        {
            return plain.answer(&self.front, &parts).await;
        }
        if let Some(page) = fast_path::listed(&self.front, &parts, accepted, &body).await {
            return as_document(page);
        }
        if let Some(stream) = listen::answer(&self.front, &parts, accepted, &body).await {
            return stream;
        }
        if accepted == AcceptedForms::JsonOnly {
            parts.extensions.insert(JsonOnly);
        }
        let heeded = run_blocking(body.len(), || preparse(&self.front, &parts.headers, &body)).await;
        if let MessageKind::ForAbsent { id, method, status } = heeded {
            return refusal(status, Some(id), error_data_as(ErrorCode::METHOD_NOT_FOUND, &refusal::no_method(method)));
        }
        if heeded == MessageKind::ToBegin {
            // The response to `initialize` negotiates the revision, whatever revision the client used before.
            parts.headers.remove("mcp-protocol-version");
        }
        let alongside = RawResultSlot::default();
        parts.extensions.insert(alongside.clone());
        // Box the rare path: the future of a plain call is moved, so it must be small.
        let mut response = Box::pin(async { alongside.pass(self.through_rmcp(parts, body, accepted).await).await }).await;
        if heeded == MessageKind::ToBegin
            && response.status() == StatusCode::OK
            && let Some(session) = ClientSession::new()
        {
            response.headers_mut().insert(&header_names::MCP_SESSION, session.to_header());
        }
        if heeded == MessageKind::ForOther { response } else { as_document(response) }
    }

    /// Loads the tool that a message calls. Also returns true if it was already loaded or cannot be.
    async fn called(&self, body: &Bytes) -> (Option<Arc<LiveEndpoint>>, bool) {
        let name = run_blocking(body.len(), || fast_path::called(body)).await;
        let Some(name) = name.filter(|name| ToolName::read(name).is_ok()) else { return (None, true) };
        let (catalog, slug) = (&self.front.services.catalog, self.front.services.settings.slug_of(&name));
        match catalog.found(&slug) {
            Some(live) => (Some(live), true),
            // If the store is unavailable, the call reports it.
            None => catalog.find(&slug).await.map_or((None, true), |live| (live, false)),
        }
    }

    /// Answers each request of a batch as if it had come alone. Returns 202 if there are none.
    ///
    /// The response is a stream. A call starts only after the client has read the previous answer, so that at most one
    /// answer is in memory. If the connection breaks, the current call continues and the next ones do not start.
    async fn batch(self: Arc<Self>, parts: Parts, members: Vec<Member>, accepted: AcceptedForms) -> Response {
        if let Some(seconds) = self.rate_limited(&parts, members.len()) {
            let message = "each member of a batch is a request, and you make too many";
            let fault = ApiError::new(Code::RateLimited, message).hint(format!("try again in {seconds} s"));
            return fault.retry_after(seconds).into_response();
        }
        if members.iter().all(|member| matches!(member, Member::Silent(_))) {
            for member in &members {
                if let Member::Silent(message) = member {
                    preparse(&self.front, &parts.headers, message);
                }
            }
            return StatusCode::ACCEPTED.into_response();
        }
        let events = accepted == AcceptedForms::EventsOnly;
        let content = if events { "text/event-stream" } else { "application/json" };
        let (pieces, written) = mpsc::channel(1);
        let id = parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
        let write = async move {
            // Ends early if nobody reads it.
            _ = self.write_batch(parts, members, events, pieces).await;
        };
        tokio::spawn(still_asked(REQUEST.scope(id, write)));
        let body = stream::unfold(written, |mut written| async { Some((written.recv().await?, written)) });
        let headers = [(header::CONTENT_TYPE, content), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::from_stream(body)).into_response()
    }

    async fn write_batch(
        &self,
        parts: Parts,
        members: Vec<Member>,
        events: bool,
        pieces: mpsc::Sender<Result<Bytes, axum::Error>>,
    ) -> Result<(), mpsc::error::SendError<Result<Bytes, axum::Error>>> {
        let piece = |text: &'static str| pieces.send(Ok(Bytes::from_static(text.as_bytes())));
        piece(if events { "data: [" } else { "[" }).await?;
        let mut is_first = true;
        for member in members {
            let response = match member {
                Member::Request(request) => self.message(parts.clone(), request, AcceptedForms::JsonOnly).await,
                Member::Wrong(reason, id) => refusal(StatusCode::BAD_REQUEST, id, error_data(&ApiError::bad_request(reason))),
                Member::Silent(message) => {
                    preparse(&self.front, &parts.headers, &message);
                    continue;
                }
            };
            if !std::mem::take(&mut is_first) {
                piece(",").await?;
            }
            let mut body = response.into_body();
            while let Some(some) = chunked_body::next(&mut body).await {
                let broken = some.is_err();
                pieces.send(some).await?;
                if broken {
                    return Ok(());
                }
            }
        }
        piece(if events { "]\n\n" } else { "]" }).await
    }

    /// Counts the messages after the first, which was counted as the request, against the address's rate. Returns the
    /// seconds until there is room, if there is none.
    fn rate_limited(&self, parts: &Parts, members: usize) -> Option<u64> {
        (1..members).find_map(|_| self.front.services.shared.limits.wait(peer(&parts.extensions)))
    }

    /// Reserves the memory of rmcp's tree for a long message.
    ///
    /// # Errors
    ///
    /// 400 if the message has too many values, 503 if there is no room for them.
    async fn tree(&self, parts: &Parts, body: &Bytes) -> Result<Option<QuotaShare>, ApiError> {
        if body.len() <= MAX_PREPARSED_BYTES {
            return Ok(None);
        }
        let values = run_blocking(body.len(), || values_of(body)).await;
        if values > MAX_VALUES {
            return Err(ApiError::bad_request(format!("a message has about {values} values, and at most {MAX_VALUES}")));
        }
        self.front.services.shared.intake.hold(peer(&parts.extensions), values * VALUE_BYTES).map(Some)
    }

    /// Passes a message to rmcp and returns its response.
    ///
    /// rmcp builds a tree of the whole message, which is many times larger than the text if it has many short values.
    /// Its memory counts as that of bodies.
    async fn through_rmcp(&self, mut parts: Parts, body: Bytes, accepted: AcceptedForms) -> Response {
        let _tree = match self.tree(&parts, &body).await {
            Ok(tree) => tree,
            Err(fault) => return refusal(fault.code().row().status, None, error_data(&fault)),
        };
        parts.headers.insert(header::ACCEPT, BOTH);
        parts.extensions.insert(RawMessage(body.clone()));
        let query = parts.headers.get("mcp-protocol-version").cloned();
        let request = Request::from_parts(parts, Body::from(body.clone()));
        let mut inner = if accepted == AcceptedForms::EventsOnly { self.events.clone() } else { self.json.clone() };
        let response = match spawn_blocking_task(body.len(), inner.call(request)).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
        if response.status().as_u16() < 400 {
            return response;
        }
        if is_ours(response.headers()) {
            return refusal::completed(response).await;
        }
        let status = response.status();
        let answer = axum::body::to_bytes(response.into_body(), 4096).await.unwrap_or_default();
        in_json_rpc(status, &answer, &body, query.as_ref())
    }
}

/// Estimates the number of values in a JSON text. Each except the first follows a comma, or the start of an array or
/// object.
fn values_of(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() + 1
}

/// Marks a response as one that can be compressed.
fn as_document(mut response: Response) -> Response {
    response.extensions_mut().insert(DocumentMark);
    response
}

/// Returns whether the content type is one of JSON-RPC responses.
fn is_ours(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    content.starts_with(b"application/json") || content.starts_with(b"text/event-stream")
}

/// Converts rmcp's plain-text error to a JSON-RPC error.
fn in_json_rpc(status: StatusCode, text: &[u8], body: &Bytes, request: Option<&HeaderValue>) -> Response {
    let text = String::from_utf8_lossy(text).into_owned();
    let message: Result<Value, _> = serde_json::from_slice(body);
    let id = message.as_ref().ok().and_then(id_of);
    let (status, error) = match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE if !text.starts_with("Unsupported Media Type") => {
            (StatusCode::BAD_REQUEST, unreadable(body, message.as_ref()))
        }
        StatusCode::BAD_REQUEST if text.contains("MCP-Protocol-Version") => {
            let request = request.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
            let supported: Vec<_> = VERSIONS.iter().map(ProtocolVersion::as_str).collect();
            let fault =
                ApiError::bad_request("unsupported protocol version").with("supported", json!(supported)).with("requested", json!(request));
            (status, error_data_as(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, &fault))
        }
        status if status.is_server_error() => {
            tracing::error!(text, "the MCP transport failed");
            (status, error_data(&Code::Internal.into()))
        }
        _ => (status, error_data(&ApiError::new(refusal::code_by(status), text))),
    };
    refusal(status, id, error)
}

/// Returns why a body is not a JSON-RPC message.
fn unreadable(body: &[u8], message: Result<&Value, &serde_json::Error>) -> ErrorData {
    let reason = match message {
        Err(error) => {
            let fault = ApiError::new(Code::InvalidJson, format!("body is not JSON: {}", not_json(body, error)));
            return error_data_as(ErrorCode::PARSE_ERROR, &fault);
        }
        Ok(Value::Array(members)) if members.is_empty() => "a batch has at least one member",
        Ok(Value::Array(_)) => "revision 2025-03-26 alone has batches; send one message",
        Ok(message) if message["id"].is_null() && message.get("id").is_some() => "`id` is a string or an integer, never null",
        Ok(_) => "body is no JSON-RPC 2.0 message",
    };
    error_data(&ApiError::bad_request(reason))
}

#[cfg(test)]
mod tests;
