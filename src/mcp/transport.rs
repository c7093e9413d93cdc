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
use futures_util::{StreamExt as _, stream};
use rmcp::{
    model::{ErrorCode, ErrorData, ProtocolVersion},
    transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollhouse_base::{
    boxed,
    id::RequestId,
    offload::{await_with_blocking_start, for_same_client, run_blocking},
};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_front::{ApiError, Code, DocumentMark, HostCheck, QuotaShare, REQUEST, body, header_names, peer};
use tollhouse_tool::not_json;
use tower::Service as _;

use super::{
    accepted_forms::AcceptedForms,
    batch::{self, Member},
    cancel::{CancelableCalls, ClientSession},
    fast_path::{self, REVISION},
    front::McpFront,
    listen,
    message::{CALL, CANCELLED, DISCOVER, INITIALIZE, LIST, LISTEN, Message, Params},
    names::ToolName,
    raw_result::RawRequest,
    refusal::{self, PATH, error_data, error_data_as, id_of, refusal},
    revision::{VERSIONS, is_json, sole},
    server::McpServer,
    server_card,
    services::Services,
    settings::McpOptions,
    tool_filter::ToolFilter,
    tools,
};

/// Maximum request, in bytes. Tools' input limits are lower.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Maximum message that is parsed without reserving memory, in bytes.
const SMALL_BYTES: usize = 64 << 10;

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
pub fn door(settings: &McpOptions) -> HostCheck {
    let origins = settings.origins();
    HostCheck { covers: |path| path == PATH, check: Arc::new(move |request| origins.check(request)) }
}

async fn answer(transport: Arc<Transport>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(accepted) = AcceptedForms::by(&parts.headers) else {
        let message = "`Accept` must list `application/json` or `text/event-stream`";
        return ApiError::new(Code::NotAcceptable, message).into_response();
    };
    let intake = &transport.front.services.shared.intake;
    let body = match body::read(intake, peer(&parts.extensions), &parts.headers, body, MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(unread) => return unread.into_response(),
    };
    let refused = |status, fault: &ApiError| {
        let id = if body.len() > SMALL_BYTES { None } else { Message::parse(&body).ok().and_then(|message| message.id) };
        refusal(status, id, error_data(fault))
    };
    if let Err(unsupported) = body::check_call(&parts.headers) {
        let mut response = refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, &unsupported);
        response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        return response;
    }
    if !is_json(&parts.headers) {
        let fault = ApiError::new(Code::UnsupportedMediaType, "send the body as `application/json`");
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, &fault);
    }
    match ToolFilter::by(parts.uri.query()) {
        Ok(filter) => _ = parts.extensions.insert(filter),
        Err(reason) => return refused(StatusCode::BAD_REQUEST, &ApiError::bad_request(reason)),
    }
    match run_blocking(body.len(), || batch::members(&parts.headers, &body, transport.front.services.settings.given.batch)).await {
        None => transport.message(parts, body, accepted).await,
        Some(Ok(members)) => Box::pin(transport.batch(parts, members, accepted)).await,
        Some(Err(reason)) => ApiError::bad_request(reason).into_response(),
    }
}

impl Transport {
    #[boxed]
    async fn message(&self, mut parts: Parts, body: Bytes, accepted: AcceptedForms) -> Response {
        let front = &self.front;
        let message = match run_blocking(body.len(), || Message::parse(&body)).await {
            Ok(message) => message,
            Err(fault) => return refusal(StatusCode::BAD_REQUEST, None, error_data(&fault)),
        };
        let arguments = message.params.arguments(&body);
        let mut _live = None;
        match &*message.method {
            CALL => {
                // Hold the tool until the response, so that it stays loaded.
                _live = self.load(&message.params).await;
                if let Some(arguments) = arguments.clone()
                    && let Some(answer) = fast_path::call(front, &parts, accepted, &message, arguments).await
                {
                    return answer;
                }
            }
            LIST => {
                if let Some(page) = fast_path::list(front, &parts, accepted, &message).await {
                    return as_document(page);
                }
            }
            LISTEN => {
                if let Some(stream) = listen::answer(front, &parts, accepted, &message) {
                    return stream;
                }
            }
            CANCELLED => self.cancel(&parts.headers, &message),
            _ => {}
        }
        // rmcp reports a header that differs from the message.
        let method = &*message.method;
        let is_named = sole(&parts.headers, "mcp-method").is_none_or(|named| named == method);
        // Requests of 2026-07-28 name their revision in `_meta`.
        let names_revision = message.params.meta.contains_key(REVISION);
        // Methods that only other revisions have, with the status that the revision specifies for an unknown method.
        let unknown = match method {
            INITIALIZE if is_named && names_revision => Some(StatusCode::NOT_FOUND),
            LISTEN if !names_revision && !is_modern(&parts.headers) => Some(StatusCode::OK),
            _ => None,
        };
        if let (Some(status), Some(id)) = (unknown, &message.id) {
            return refusal(status, Some(id.clone()), error_data_as(ErrorCode::METHOD_NOT_FOUND, &refusal::no_method(method)));
        }
        let begins = method == INITIALIZE && is_named && !names_revision;
        if begins {
            // The response to `initialize` negotiates the revision, whatever revision the client used before.
            parts.headers.remove("mcp-protocol-version");
        }
        let arguments = arguments.filter(|_| !message.is_unparsed());
        let raw = RawRequest::new(accepted == AcceptedForms::JsonOnly, arguments, message.params.has_cursor());
        parts.extensions.insert(raw.clone());
        // Box the rare path: the future of a plain call is moved, so it must be small.
        let mut response = Box::pin(async { raw.replace_result(self.through_rmcp(parts, body.clone(), accepted).await).await }).await;
        if begins
            && response.status() == StatusCode::OK
            && let Some(session) = ClientSession::new()
        {
            response.headers_mut().insert(&header_names::MCP_SESSION, session.to_header());
        }
        if begins || matches!(method, LIST | DISCOVER) { as_document(response) } else { response }
    }

    /// Loads the tool that a call names. If the store is unavailable, the call reports it.
    async fn load(&self, params: &Params<'_>) -> Option<Arc<LiveEndpoint>> {
        let name = params.name.as_deref().filter(|name| ToolName::read(name).is_ok() && tools::builtin(name).is_none())?;
        self.front.services.catalog.find(&self.front.services.settings.slug_of(name)).await.ok().flatten()
    }

    /// Cancels the call that a notification of an older revision names. In 2026-07-28, closing the connection cancels.
    fn cancel(&self, headers: &HeaderMap, message: &Message<'_>) {
        if message.method == CANCELLED
            && !is_modern(headers)
            && let (Some(session), Some(id)) = (ClientSession::of(headers), &message.params.request_id)
            && !self.front.cancelable.cancel(session, id.clone())
            && let Some(name) = CancelableCalls::name(session, id)
        {
            self.front.remote_cancels.request_cancel_if_unsure(name);
        }
    }

    /// Cancels the call that a member of a batch names, if it is such a notification.
    fn cancel_silently(&self, headers: &HeaderMap, member: &Member) {
        if let Member::Silent(message) = member
            && let Ok(message) = Message::parse(message)
        {
            self.cancel(headers, &message);
        }
    }

    /// Answers each request of a batch as if it had come alone. Returns 202 if there are none.
    ///
    /// The response is a stream. A call starts only after the client has read the previous answer, so that at most one
    /// answer is in memory. If the connection breaks, the current call continues and the next ones do not start.
    async fn batch(self: Arc<Self>, parts: Parts, members: Vec<Member>, accepted: AcceptedForms) -> Response {
        if let Some(seconds) = self.rate_limited(&parts, members.len()) {
            let message = "each message of a batch counts as a request, and your address has sent too many";
            let fault = ApiError::new(Code::RateLimited, message).hint(format!("Retry in {seconds} s"));
            return fault.retry_after(seconds).into_response();
        }
        if members.iter().all(|member| matches!(member, Member::Silent(_))) {
            for member in &members {
                self.cancel_silently(&parts.headers, member);
            }
            return StatusCode::ACCEPTED.into_response();
        }
        let events = accepted == AcceptedForms::EventsOnly;
        let content = if events { "text/event-stream" } else { "application/json" };
        let (chunks, written) = mpsc::channel(1);
        let id = parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
        let write = async move {
            // Ends early if nobody reads it.
            _ = self.write_batch(parts, members, events, chunks).await;
        };
        tokio::spawn(for_same_client(REQUEST.scope(id, write)));
        let body = stream::unfold(written, |mut written| async { Some((written.recv().await?, written)) });
        let headers = [(header::CONTENT_TYPE, content), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::from_stream(body)).into_response()
    }

    async fn write_batch(
        &self,
        parts: Parts,
        members: Vec<Member>,
        events: bool,
        chunks: mpsc::Sender<Result<Bytes, axum::Error>>,
    ) -> Result<(), mpsc::error::SendError<Result<Bytes, axum::Error>>> {
        let text = |text: &'static str| chunks.send(Ok(Bytes::from_static(text.as_bytes())));
        text(if events { "data: [" } else { "[" }).await?;
        let mut is_first = true;
        for member in members {
            let response = match member {
                Member::Request(request) => tokio::select! {
                    biased;
                    response = self.message(parts.clone(), request, AcceptedForms::JsonOnly) => response,
                    // The call continues, but a request that joined another one stops waiting.
                    () = chunks.closed() => return Ok(()),
                },
                Member::Wrong(reason, id) => refusal(StatusCode::BAD_REQUEST, id, error_data(&ApiError::bad_request(reason))),
                Member::Silent(_) => {
                    self.cancel_silently(&parts.headers, &member);
                    continue;
                }
            };
            if !std::mem::take(&mut is_first) {
                text(",").await?;
            }
            let mut body = response.into_body().into_data_stream();
            while let Some(chunk) = body.next().await {
                let is_broken = chunk.is_err();
                chunks.send(chunk).await?;
                if is_broken {
                    return Ok(());
                }
            }
        }
        text(if events { "]\n\n" } else { "]" }).await
    }

    /// Counts the messages after the first, which was counted as the request, against the address's rate. Returns the
    /// seconds to wait if there is no room.
    fn rate_limited(&self, parts: &Parts, members: usize) -> Option<u64> {
        (1..members).find_map(|_| self.front.services.shared.limits.wait(peer(&parts.extensions)))
    }

    /// Reserves the memory of rmcp's tree for a long message.
    ///
    /// # Errors
    ///
    /// 400 if the message has too many values, 503 if there is no room for them.
    async fn tree(&self, parts: &Parts, body: &Bytes) -> Result<Option<QuotaShare>, ApiError> {
        if body.len() <= SMALL_BYTES {
            return Ok(None);
        }
        let values = run_blocking(body.len(), || values_of(body)).await;
        if values > MAX_VALUES {
            return Err(ApiError::bad_request(format!("the message has about {values} values, and the maximum is {MAX_VALUES}")));
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
        let revision = parts.headers.get("mcp-protocol-version").cloned();
        let request = Request::from_parts(parts, Body::from(body.clone()));
        let mut inner = if accepted == AcceptedForms::EventsOnly { self.events.clone() } else { self.json.clone() };
        let response = match await_with_blocking_start(body.len(), inner.call(request)).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
        if response.status().as_u16() < 400 {
            return response;
        }
        if is_json_rpc(response.headers()) {
            return refusal::completed(response).await;
        }
        let status = response.status();
        let answer = axum::body::to_bytes(response.into_body(), 4096).await.unwrap_or_default();
        in_json_rpc(status, &answer, &body, revision.as_ref())
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

/// Returns whether a request uses revision 2026-07-28.
fn is_modern(headers: &HeaderMap) -> bool {
    sole(headers, "mcp-protocol-version") == Some(ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns whether the content type is one of JSON-RPC responses.
fn is_json_rpc(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    content.starts_with(b"application/json") || content.starts_with(b"text/event-stream")
}

/// Converts rmcp's plain-text error to a JSON-RPC error. rmcp answers 415 if it cannot parse the message, because the
/// content type was checked before, and 400 for an unknown `MCP-Protocol-Version`.
fn in_json_rpc(status: StatusCode, text: &[u8], body: &Bytes, revision: Option<&HeaderValue>) -> Response {
    let text = String::from_utf8_lossy(text).into_owned();
    let message: Result<Value, _> = serde_json::from_slice(body);
    let id = message.as_ref().ok().and_then(id_of);
    let (status, error) = match (status, revision) {
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, _) => (StatusCode::BAD_REQUEST, unreadable(body, message.as_ref())),
        (StatusCode::BAD_REQUEST, Some(revision)) => {
            let supported: Vec<_> = VERSIONS.iter().map(ProtocolVersion::as_str).collect();
            let fault = ApiError::bad_request("unsupported protocol version")
                .with("supported", json!(supported))
                .with("requested", json!(String::from_utf8_lossy(revision.as_bytes())));
            (status, error_data_as(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, &fault))
        }
        (status, _) if status.is_server_error() => {
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
            let fault = ApiError::new(Code::InvalidJson, not_json(body, error));
            return error_data_as(ErrorCode::PARSE_ERROR, &fault);
        }
        Ok(Value::Array(members)) if members.is_empty() => "a batch must have at least one message",
        Ok(Value::Array(_)) => "only revision 2025-03-26 has batches; send one message",
        Ok(message) if message["id"].is_null() && message.get("id").is_some() => "`id` must be a string or an integer, not null",
        Ok(_) => "the body is not a JSON-RPC 2.0 message",
    };
    error_data(&ApiError::bad_request(reason))
}

#[cfg(test)]
mod tests;
