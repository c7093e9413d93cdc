//! Who looks at a page, and how a page asks for what it shows: as they would themselves, by requests to the public API.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    extract::{ConnectInfo, FromRequestParts, Request},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts},
    response::{IntoResponse, Response},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tower::ServiceExt as _;

use super::{
    page::Page,
    services::Services,
    shell::{self, Around},
};
use crate::{
    base::{
        aside::{Bulk, aside},
        id::RequestId,
        share::Turn,
    },
    front::{Code, Fault, code_of},
};

/// Most bytes of an answer that a page is made of.
const MOST_BYTES: usize = 8 << 20;

/// What stands for itself in a path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Who looks at a page.
pub(super) struct Visitor {
    pub(super) services: Arc<Services>,
    /// Whose share of the processor it is.
    peer: Option<ConnectInfo<SocketAddr>>,
    request: Option<RequestId>,
}

/// What the API answered in place of what was asked for.
pub(super) struct Refused(Box<Response>);

impl FromRequestParts<Arc<Services>> for Visitor {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, services: &Arc<Services>) -> Result<Self, Fault> {
        let (peer, request) = (parts.extensions.get().copied(), parts.extensions.get().cloned());
        Ok(Self { services: Arc::clone(services), peer, request })
    }
}

impl Visitor {
    /// Of a page that is made for nobody in particular.
    pub(super) fn nobody(services: &Arc<Services>) -> Self {
        Self { services: Arc::clone(services), peer: None, request: None }
    }

    /// Public URL of the host, without a slash at its end.
    pub(super) fn base_url(&self) -> &str {
        &self.services.base_url
    }

    /// Makes something of what was read, in a turn of the visitor's: whatever it costs is of its share of the processor.
    ///
    /// # Errors
    ///
    /// Where it has had more than its share.
    pub(super) async fn made<T>(&self, work: impl FnOnce() -> T) -> Result<T, Refused> {
        let turn = self.turn().await?;
        Ok(work_in(turn.as_ref(), work))
    }

    /// A turn of the visitor's; none of a page that is made for nobody.
    async fn turn(&self) -> Result<Option<Turn>, Refused> {
        let Some(ConnectInfo(peer)) = self.peer else { return Ok(None) };
        Ok(Some(self.services.shared.limits.turn(peer.ip().to_canonical()).await?))
    }

    /// The answer to a GET.
    ///
    /// # Errors
    ///
    /// What the API refuses.
    pub(super) async fn get(&self, path: &str) -> Result<Bulk, Refused> {
        self.read(self.ask(Method::GET, path, Body::empty()).await).await
    }

    /// The answer to a POST of an operation that changes nothing, such as a quote.
    ///
    /// # Errors
    ///
    /// What the API refuses.
    pub(super) async fn ask_about(&self, path: &str, body: &Value) -> Result<Bulk, Refused> {
        self.read(self.ask(Method::POST, path, Body::from(body.to_string())).await).await
    }

    /// The JSON of an answer.
    async fn read(&self, response: Response) -> Result<Bulk, Refused> {
        if !response.status().is_success() {
            return Err(Refused::by(response));
        }
        let internal = || Refused::from(Fault::from(Code::Internal));
        let body = to_bytes(response.into_body(), MOST_BYTES).await.map_err(|_| internal())?;
        let turn = self.turn().await?;
        let value = aside(body.len(), || work_in(turn.as_ref(), || serde_json::from_slice(&body))).await;
        value.map(Bulk::new).map_err(|error| {
            tracing::error!(%error, "the API answered a page with what is no JSON");
            internal()
        })
    }

    /// The text that a GET is answered with, of a document.
    ///
    /// # Errors
    ///
    /// What the API refuses.
    pub(super) async fn text(&self, path: &str) -> Result<String, Refused> {
        let response = self.ask(Method::GET, path, Body::empty()).await;
        if !response.status().is_success() {
            return Err(Refused::by(response));
        }
        let body = to_bytes(response.into_body(), MOST_BYTES).await.ok().and_then(|body| String::from_utf8(body.into()).ok());
        body.ok_or_else(|| Fault::from(Code::Internal).into())
    }

    /// The answer to a GET as it is, to who may have it already.
    pub(super) async fn pass(&self, path: &str, asked: &HeaderMap) -> Response {
        let known = asked.get(header::IF_NONE_MATCH).cloned();
        self.ask_with(Method::GET, path, Body::empty(), known.map(|known| (header::IF_NONE_MATCH, known))).await
    }

    /// The headers of the answer to a HEAD, whatever its status.
    pub(super) async fn head(&self, path: &str) -> HeaderMap {
        self.ask(Method::HEAD, path, Body::empty()).await.headers().clone()
    }

    async fn ask(&self, method: Method, path: &str, body: Body) -> Response {
        self.ask_with(method, path, body, None).await
    }

    /// One ordinary request, with nothing in it that the visitor did not say.
    async fn ask_with(&self, method: Method, path: &str, body: Body, more: Option<(HeaderName, HeaderValue)>) -> Response {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        let Ok(uri) = path.parse() else { return Fault::from(Code::NotFound).into_response() };
        *request.uri_mut() = uri;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().extend(more);
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        if let Some(id) = &self.request {
            request.extensions_mut().insert(id.clone());
        }
        self.services.api.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
    }

    /// A page as this visitor sees it.
    pub(super) async fn show(&self, page: Page) -> Response {
        let manifest = self.get("/ai/manifest").await.unwrap_or_default();
        let around = Around { simulated: manifest["payment"]["simulated"] == true, version: &manifest["service"]["version"] };
        let document = shell::document(&page, &around);
        page.answered(document)
    }
}

fn work_in<T>(turn: Option<&Turn>, work: impl FnOnce() -> T) -> T {
    match turn {
        Some(turn) => turn.work(work),
        None => work(),
    }
}

/// A piece of a path that names something.
pub(super) fn segment(name: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(name, UNRESERVED)
}

/// A path with a query, of which what is empty is left out.
pub(super) fn with_query<'a>(path: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields.into_iter().filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

impl Refused {
    fn by(response: Response) -> Self {
        match code_of(&response) {
            Some(_) => Self(Box::new(response)),
            None => {
                tracing::error!(status = %response.status(), "a page asked for what is no operation of the API");
                Fault::from(Code::Internal).into()
            }
        }
    }

    /// Whether this is why.
    pub(super) fn is(&self, code: Code) -> bool {
        code_of(&self.0) == Some(code)
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self(Box::new(fault.into_response()))
    }
}

impl IntoResponse for Refused {
    /// The API's own answer: how it is told here is said in one place, [`super::refusal`].
    fn into_response(self) -> Response {
        *self.0
    }
}
