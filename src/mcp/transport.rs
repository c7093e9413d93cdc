//! In front of rmcp's transport: what clients really send gets in, plain calls go past it, and every refusal is JSON-RPC.

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

/// Largest request, in bytes. A tool's own limit on its input is lower.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Most values of a message that rmcp reads, and about what each takes in its tree, in bytes. The arguments of a call that is answered
/// without rmcp stay text.
const MAX_VALUES: usize = 200_000;
const VALUE_BYTES: usize = 96;

/// Both of the types that an answer may have, as the specification wants a client to name them.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

type Inner = StreamableHttpService<Server, NeverSessionManager>;

/// What requests go through.
struct Transport {
    front: Arc<Front>,
    /// One service for each of the two forms of an answer.
    json: Inner,
    events: Inner,
}

/// [`PATH`]: POST only. GET and DELETE, which stateless servers do not have, are 405.
pub fn routes(services: Services) -> Router {
    let card = card::routes(&services.base_url);
    let server = Server::new(services);
    let service = |as_json: bool| {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(as_json)
            .with_max_request_body_bytes(MAX_BODY_BYTES)
            .with_sse_retry(None)
            // Our own check of origins is the door in front of both ways.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let server = server.clone();
        StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config)
    };
    let (json, events) = (service(true), service(false));
    let transport = Arc::new(Transport { front: server.front, json, events });
    Router::new().route(PATH, post(move |request: Request| answer(Arc::clone(&transport), request))).merge(card)
}

/// Who is let in at [`PATH`]: by a name of the host's, and from a page that may use it.
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
        // Held until it is answered, so that it stays ready.
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
            // A revision is agreed on by its answer, whatever the client has spoken before.
            parts.headers.remove("mcp-protocol-version");
        }
        let beside = Beside::default();
        parts.extensions.insert(beside.clone());
        // Boxed as all that is rare: a plain call's future is moved, and must be small.
        let mut response = Box::pin(async { beside.pass(self.through_rmcp(parts, body, accepted).await).await }).await;
        if heeded == Asks::ToBegin
            && response.status() == StatusCode::OK
            && let Some(session) = Session::new()
        {
            response.headers_mut().insert(&names::MCP_SESSION, session.to_header());
        }
        if heeded == Asks::ForOther { response } else { as_document(response) }
    }

    /// The endpoint that a message calls, made ready; and whether it was before, or cannot be.
    async fn called(&self, body: &Bytes) -> (Option<Arc<Live>>, bool) {
        let name = aside(body.len(), || direct::called(body)).await;
        let Some(name) = name.filter(|name| ToolName::read(name).is_ok()) else { return (None, true) };
        let (catalog, slug) = (&self.front.services.catalog, self.front.services.settings.slug_of(&name));
        match catalog.found(&slug) {
            Some(live) => (Some(live), true),
            // Where the store is away, the call says so.
            None => catalog.find(&slug).await.map_or((None, true), |live| (live, false)),
        }
    }

    /// Answers each member that wants an answer, as if it had come alone; 202 if none does.
    ///
    /// The answer is a stream: a member is begun when the client has taken what the one before it was answered, so that no more than
    /// one answer is in memory. When the connection breaks, the call under way goes on, and those behind it are not begun.
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
            // Ends early when nobody reads it any more.
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

    /// Counts the members behind the first, which came in as the request, against the address's rate. Seconds until there
    /// is room, if there is none.
    fn too_fast(&self, parts: &Parts, members: usize) -> Option<u64> {
        (1..members).find_map(|_| self.front.services.shared.limits.wait(peer(&parts.extensions)))
    }

    /// The memory that rmcp's tree of a long message takes.
    ///
    /// # Errors
    ///
    /// 400 for more values than a message may have; 503 where there is no room for them.
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

    /// What rmcp says to a message.
    ///
    /// rmcp makes a tree of the whole message, of many times its length where it has many short values. What that takes counts as bodies
    /// in memory.
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

/// About how many values a JSON text has: each but the first follows a comma, or begins an array or an object.
fn values_of(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() + 1
}

/// An answer that may be compressed.
fn as_document(mut response: Response) -> Response {
    response.extensions_mut().insert(Document);
    response
}

/// True for the content types of JSON-RPC answers.
fn is_ours(headers: &HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    content.starts_with(b"application/json") || content.starts_with(b"text/event-stream")
}

/// A refusal that rmcp put in plain words, as the JSON-RPC error that it is.
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

/// Why a body is no JSON-RPC message.
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
