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
    aside::{aside, begun_aside, still_asked},
    id::RequestId,
};
use tollhouse_catalog::Live;
use tollhouse_front::{Code, Document, Door, Fault, REQUEST, Share, body, names, peer};
use tollhouse_tool::not_json;
use tower::Service as _;

use super::{
    accept::{Accepted, JsonOnly, Sent},
    batch::{self, Member},
    beside::Beside,
    cancel::Session,
    card,
    direct::{self, Plain},
    front::Front,
    heed::{Asks, MAX_HEEDED_BYTES, heed},
    listen,
    names::ToolName,
    narrowed::Narrowed,
    pieces,
    refusal::{self, PATH, id_of, refusal, told, told_as},
    revision::VERSIONS,
    server::Server,
    services::Services,
    settings::Mcp,
};

/// Maximum request, in bytes. Tools' input limits are lower.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Maximum values of a message that rmcp parses, and the approximate bytes of each in its tree. The arguments of calls
/// answered without rmcp stay text.
const MAX_VALUES: usize = 200_000;
const VALUE_BYTES: usize = 96;

/// Both response types, as the specification requires in `Accept`.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

type Inner = StreamableHttpService<Server, NeverSessionManager>;

/// The transport of all requests.
struct Transport {
    front: Arc<Front>,
    /// A service for each response format.
    json: Inner,
    events: Inner,
}

/// Returns the routes: [`PATH`] with POST only, and the server card. GET and DELETE return 405, because stateless
/// servers do not have them.
pub fn routes(services: Services) -> Router {
    let card = card::routes(&services.base_url);
    let server = Server::new(services);
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
pub fn door(settings: &Mcp) -> Door {
    let origins = settings.origins();
    Door { covers: |path| path == PATH, check: Arc::new(move |request| origins.check(request)) }
}

async fn answer(transport: Arc<Transport>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(accepted) = Accepted::by(&parts.headers) else {
        let message = "answers are `application/json` or `text/event-stream`";
        return Fault::new(Code::NotAcceptable, message).into_response();
    };
    let intake = &transport.front.services.shared.intake;
    let body = match body::read(intake, peer(&parts.extensions), &parts.headers, body, MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(unread) => return unread.into_response(),
    };
    let refused = |status, fault: &Fault| {
        let message = if body.len() > MAX_HEEDED_BYTES { Value::Null } else { serde_json::from_slice(&body).unwrap_or_default() };
        refusal(status, id_of(&message), told(fault))
    };
    if let Err(unsupported) = body::check_call(&parts.headers) {
        let mut response = refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, &unsupported);
        response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        return response;
    }
    match Narrowed::by(parts.uri.query()) {
        Ok(narrowed) => _ = parts.extensions.insert(narrowed),
        Err(why) => return refused(StatusCode::BAD_REQUEST, &Fault::bad_request(why)),
    }
    match aside(body.len(), || batch::members(&parts.headers, &body, transport.front.services.settings.batch)).await {
        None => transport.message(parts, body, accepted).await,
        Some(Ok(members)) => Box::pin(transport.batch(parts, members, accepted)).await,
        Some(Err(why)) => Fault::bad_request(why).into_response(),
    }
}

impl Transport {
    async fn message(&self, mut parts: Parts, body: Bytes, accepted: Accepted) -> Response {
        if let Some(plain) = aside(body.len(), || Plain::read(&self.front, &parts.headers, accepted, &body)).await {
            return plain.answer(&self.front, &parts).await;
        }
        // Hold the tool until the response, so that it stays loaded.
        let (_live, was_ready) = self.called(&body).await;
        if !was_ready && let Some(plain) = aside(body.len(), || Plain::read(&self.front, &parts.headers, accepted, &body)).await {
            return plain.answer(&self.front, &parts).await;
        }
        if let Some(page) = direct::listed(&self.front, &parts, accepted, &body).await {
            return as_document(page);
        }
        if let Some(stream) = listen::answer(&self.front, &parts, accepted, &body).await {
            return stream;
        }
        if accepted == Accepted::JsonOnly {
            parts.extensions.insert(JsonOnly);
        }
        let heeded = aside(body.len(), || heed(&self.front, &parts.headers, &body)).await;
        if let Asks::ForAbsent { id, method, status } = heeded {
            return refusal(status, Some(id), told_as(ErrorCode::METHOD_NOT_FOUND, &refusal::no_method(method)));
        }
        if heeded == Asks::ToBegin {
            // The response to `initialize` negotiates the revision, whatever revision the client used before.
            parts.headers.remove("mcp-protocol-version");
        }
        let beside = Beside::default();
        parts.extensions.insert(beside.clone());
        // Box the rare path: the future of a plain call is moved, so it must be small.
        let mut response = Box::pin(async { beside.pass(self.through_rmcp(parts, body, accepted).await).await }).await;
        if heeded == Asks::ToBegin
            && response.status() == StatusCode::OK
            && let Some(session) = Session::new()
        {
            response.headers_mut().insert(&names::MCP_SESSION, session.to_header());
        }
        if heeded == Asks::ForOther { response } else { as_document(response) }
    }

    /// Loads the tool that a message calls. Also returns true if it was already loaded or cannot be.
    async fn called(&self, body: &Bytes) -> (Option<Arc<Live>>, bool) {
        let name = aside(body.len(), || direct::called(body)).await;
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
    async fn batch(self: Arc<Self>, parts: Parts, members: Vec<Member>, accepted: Accepted) -> Response {
        if let Some(seconds) = self.too_fast(&parts, members.len()) {
            let message = "each member of a batch is a request, and you make too many";
            let fault = Fault::new(Code::RateLimited, message).hint(format!("try again in {seconds} s"));
            return fault.retry_after(seconds).into_response();
        }
        if members.iter().all(|member| matches!(member, Member::Silent(_))) {
            for member in &members {
                if let Member::Silent(message) = member {
                    heed(&self.front, &parts.headers, message);
                }
            }
            return StatusCode::ACCEPTED.into_response();
        }
        let events = accepted == Accepted::EventsOnly;
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
                Member::Request(request) => self.message(parts.clone(), request, Accepted::JsonOnly).await,
                Member::Wrong(why, id) => refusal(StatusCode::BAD_REQUEST, id, told(&Fault::bad_request(why))),
                Member::Silent(message) => {
                    heed(&self.front, &parts.headers, &message);
                    continue;
                }
            };
            if !std::mem::take(&mut is_first) {
                piece(",").await?;
            }
            let mut body = response.into_body();
            while let Some(some) = pieces::next(&mut body).await {
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
    fn too_fast(&self, parts: &Parts, members: usize) -> Option<u64> {
        (1..members).find_map(|_| self.front.services.shared.limits.wait(peer(&parts.extensions)))
    }

    /// Reserves the memory of rmcp's tree for a long message.
    ///
    /// # Errors
    ///
    /// 400 if the message has too many values, 503 if there is no room for them.
    async fn tree(&self, parts: &Parts, body: &Bytes) -> Result<Option<Share>, Fault> {
        if body.len() <= MAX_HEEDED_BYTES {
            return Ok(None);
        }
        let values = aside(body.len(), || values_of(body)).await;
        if values > MAX_VALUES {
            return Err(Fault::bad_request(format!("a message has about {values} values, and at most {MAX_VALUES}")));
        }
        self.front.services.shared.intake.hold(peer(&parts.extensions), values * VALUE_BYTES).map(Some)
    }

    /// Passes a message to rmcp and returns its response.
    ///
    /// rmcp builds a tree of the whole message, which is many times larger than the text if it has many short values.
    /// Its memory counts as that of bodies.
    async fn through_rmcp(&self, mut parts: Parts, body: Bytes, accepted: Accepted) -> Response {
        let _tree = match self.tree(&parts, &body).await {
            Ok(tree) => tree,
            Err(fault) => return refusal(fault.code().row().status, None, told(&fault)),
        };
        parts.headers.insert(header::ACCEPT, BOTH);
        parts.extensions.insert(Sent(body.clone()));
        let asked = parts.headers.get("mcp-protocol-version").cloned();
        let request = Request::from_parts(parts, Body::from(body.clone()));
        let mut inner = if accepted == Accepted::EventsOnly { self.events.clone() } else { self.json.clone() };
        let response = match begun_aside(body.len(), inner.call(request)).await {
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
        let said = axum::body::to_bytes(response.into_body(), 4096).await.unwrap_or_default();
        in_json_rpc(status, &said, &body, asked.as_ref())
    }
}

/// Estimates the number of values in a JSON text. Each except the first follows a comma, or the start of an array or
/// object.
fn values_of(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() + 1
}

/// Marks a response as one that can be compressed.
fn as_document(mut response: Response) -> Response {
    response.extensions_mut().insert(Document);
    response
}

/// Returns whether the content type is one of JSON-RPC responses.
fn is_ours(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    content.starts_with(b"application/json") || content.starts_with(b"text/event-stream")
}

/// Converts rmcp's plain-text error to a JSON-RPC error.
fn in_json_rpc(status: StatusCode, said: &[u8], body: &Bytes, asked: Option<&HeaderValue>) -> Response {
    let said = String::from_utf8_lossy(said).into_owned();
    let message: Result<Value, _> = serde_json::from_slice(body);
    let id = message.as_ref().ok().and_then(id_of);
    let (status, error) = match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE if !said.starts_with("Unsupported Media Type") => {
            (StatusCode::BAD_REQUEST, unreadable(body, message.as_ref()))
        }
        StatusCode::BAD_REQUEST if said.contains("MCP-Protocol-Version") => {
            let asked = asked.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
            let supported: Vec<_> = VERSIONS.iter().map(ProtocolVersion::as_str).collect();
            let fault =
                Fault::bad_request("unsupported protocol version").with("supported", json!(supported)).with("requested", json!(asked));
            (status, told_as(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, &fault))
        }
        status if status.is_server_error() => {
            tracing::error!(said, "the MCP transport failed");
            (status, told(&Code::Internal.into()))
        }
        _ => (status, told(&Fault::new(refusal::code_by(status), said))),
    };
    refusal(status, id, error)
}

/// Returns why a body is not a JSON-RPC message.
fn unreadable(body: &[u8], message: Result<&Value, &serde_json::Error>) -> ErrorData {
    let why = match message {
        Err(error) => {
            let fault = Fault::new(Code::InvalidJson, format!("body is not JSON: {}", not_json(body, error)));
            return told_as(ErrorCode::PARSE_ERROR, &fault);
        }
        Ok(Value::Array(members)) if members.is_empty() => "a batch has at least one member",
        Ok(Value::Array(_)) => "revision 2025-03-26 alone has batches; send one message",
        Ok(message) if message["id"].is_null() && message.get("id").is_some() => "`id` is a string or an integer, never null",
        Ok(_) => "body is no JSON-RPC 2.0 message",
    };
    told(&Fault::bad_request(why))
}

#[cfg(test)]
mod tests;
