//! The visitor of a page. Pages fetch their content as the visitor would: with requests to the
//! public API, and the credential of the session.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    body::to_bytes,
    extract::{ConnectInfo, FromRequestParts},
    http::request::Parts,
};
use bytes::Bytes;
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;
use tollhouse_account::session::{OpenSession, SessionKind, Token};
use tollhouse_api::Manifest;
use tollhouse_base::{boxed, clock::Timestamp, cpu_share::CpuTurn, id::RequestId, offload::run_blocking};
use tollhouse_front::{ApiError, Code, CredentialCheck, FromPage, RequestSession, Sender, code_of, header_names, peer};
use tower::ServiceExt as _;

use crate::{
    Answer, Area, BackLink, Body, HeaderMap, HeaderValue, IntoResponse, Method, Page, Redirect, Request, Response, Services, form_table,
    header,
    page_frame::{self, PageContext},
};

/// Maximum size of an answer for a page, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Characters that need no encoding in a path.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) struct Visitor {
    pub(super) services: Arc<Services>,
    /// The address whose share of processor time is used.
    peer: Option<ConnectInfo<SocketAddr>>,
    /// Where wrong credentials are counted.
    sender: Option<Sender>,
    request: Option<RequestId>,
    session: Option<OpenSession>,
    /// Path and query of the requested page. Empty if a form was submitted.
    requested: String,
    /// The host's manifest, once fetched.
    manifest: OnceCell<Answer<Manifest>>,
}

/// A signed-in visitor. Others are redirected to sign in.
pub(super) struct SignedIn(pub(super) Visitor);

pub(super) struct ApiRefusal(Box<Response>);

/// Returns a function that writes the markup, for [`Visitor::render`].
macro_rules! lazy_html {
    ($($markup:tt)*) => {
        || maud::html! { $($markup)* }
    };
}

pub(super) use lazy_html;

/// A page, or the API's refusal.
pub(super) type PageResult = Result<Response, ApiRefusal>;

impl FromRequestParts<Arc<Services>> for Visitor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, services: &Arc<Services>) -> Result<Self, ApiError> {
        Self::of_request(parts, services).await
    }
}

impl FromRequestParts<Arc<Services>> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, services: &Arc<Services>) -> Result<Self, Response> {
        let visitor = Visitor::of_request(parts, services).await.map_err(IntoResponse::into_response)?;
        if visitor.session.is_some() { Ok(Self(visitor)) } else { Err(sign_in(&visitor.requested)) }
    }
}

/// Redirects to sign in, and from there back to the requested page.
fn sign_in(request: &str) -> Response {
    Redirect::to(&with_query("/dashboard/sign-in", [("to", request)])).into_response()
}

/// Most of these functions are boxed, because every page has them.
impl Visitor {
    #[boxed]
    async fn of_request(parts: &mut Parts, services: &Arc<Services>) -> Result<Self, ApiError> {
        let session = services.sessions.open_any(&services.cookie.all::<Token>(&parts.headers)).await?;
        let (address, request) = (parts.extensions.get().copied(), parts.extensions.get().cloned());
        let sender = services.shared.limits.sender(peer(&parts.extensions), &parts.headers);
        // The target of a form is not a page to come back to.
        let page = matches!(parts.method, Method::GET | Method::HEAD).then(|| parts.uri.path_and_query()).flatten();
        let query = page.map(|query| query.as_str().to_owned()).unwrap_or_default();
        Ok(Self { peer: address, sender, request, session, requested: query, ..Self::anonymous(services) })
    }

    /// Returns the visitor of a page that is the same for everybody.
    pub(super) fn anonymous(services: &Arc<Services>) -> Self {
        let services = Arc::clone(services);
        Self { services, peer: None, sender: None, request: None, session: None, requested: String::new(), manifest: OnceCell::new() }
    }

    /// Returns the visitor of an error page, with these session tokens. No limits of the address
    /// apply.
    pub(super) async fn refused_by(services: &Arc<Services>, tokens: &[Token]) -> Self {
        let session = services.sessions.open_any(tokens).await.ok().flatten();
        Self { session, ..Self::anonymous(services) }
    }

    /// Returns the kind of credential that the visitor signed in with.
    pub(super) fn kind(&self) -> Option<SessionKind> {
        self.session.as_ref().map(|session| session.kind)
    }

    pub(super) fn session(&self) -> Option<&OpenSession> {
        self.session.as_ref()
    }

    /// Refuses an address that has shown wrong credentials too often.
    ///
    /// # Errors
    ///
    /// 429 in that case.
    pub(super) fn may_show_credential(&self) -> Result<(), ApiError> {
        self.services.shared.limits.may_show_credential(self.sender)
    }

    /// Begins the check of a credential that the visitor has entered.
    ///
    /// # Errors
    ///
    /// 429 if their address has shown wrong credentials too often.
    pub(super) async fn begin_check(&self) -> Result<CredentialCheck, ApiError> {
        self.services.shared.limits.begin_check(self.sender).await
    }

    pub(super) fn with_credential(&self, kind: SessionKind, credential: &str) -> Self {
        let credential = credential.to_owned().into();
        self.with_session(OpenSession { kind, credential, owner: String::new(), name: String::new(), form_token: String::new() })
    }

    pub(super) fn with_session(&self, session: OpenSession) -> Self {
        Self { session: Some(session), ..self.without_session() }
    }

    /// Returns the time of the host's clock.
    pub(super) fn now(&self) -> Timestamp {
        self.services.clock.now()
    }

    pub(super) fn without_session(&self) -> Self {
        Self { peer: self.peer, request: self.request.clone(), ..Self::anonymous(&self.services) }
    }

    /// Returns the public URL of the host, without a trailing slash.
    pub(super) fn base_url(&self) -> &str {
        &self.services.base_url
    }

    /// Runs `work` within the visitor's share of processor time.
    ///
    /// # Errors
    ///
    /// The share is used up.
    pub(super) async fn render<T>(&self, work: impl FnOnce() -> T) -> Result<T, ApiRefusal> {
        let turn = self.turn().await?;
        Ok(run_for(turn.as_ref(), work))
    }

    /// Waits for a turn of processor time. `None` for a page that is the same for everybody.
    #[boxed]
    async fn turn(&self) -> Result<Option<CpuTurn>, ApiRefusal> {
        let Some(ConnectInfo(peer)) = self.peer else { return Ok(None) };
        Ok(Some(self.services.shared.limits.turn(peer.ip().to_canonical()).await?))
    }

    /// Makes a GET request.
    ///
    /// # Errors
    ///
    /// A refusal of the API.
    pub(super) async fn get<T: DeserializeOwned + Send + 'static>(&self, path: &str) -> Result<Answer<T>, ApiRefusal> {
        self.read(self.request(Method::GET, path, None).await).await
    }

    /// Makes a POST request for an operation that changes nothing, for example a quote.
    ///
    /// # Errors
    ///
    /// A refusal of the API.
    pub(super) async fn post<T: DeserializeOwned + Send + 'static>(&self, path: &str, body: &Value) -> Result<Answer<T>, ApiRefusal> {
        self.read(self.request(Method::POST, path, Some(body)).await).await
    }

    /// Reads the JSON of a response.
    ///
    /// # Errors
    ///
    /// A refusal of the API.
    pub(super) async fn read<T: DeserializeOwned + Send + 'static>(&self, response: Response) -> Result<Answer<T>, ApiRefusal> {
        self.read_by(response, |body| serde_json::from_slice(body)).await
    }

    /// Reads the JSON of a response with `parse`.
    ///
    /// # Errors
    ///
    /// A refusal of the API.
    pub(super) async fn read_by<T: Send + 'static>(
        &self,
        response: Response,
        parse: impl FnOnce(&[u8]) -> serde_json::Result<T> + Send,
    ) -> Result<Answer<T>, ApiRefusal> {
        let (mut parse, mut value) = (Some(parse), None);
        let parse = &mut |body: &[u8]| -> serde_json::Result<()> {
            value = parse.take().map(|parse| parse(body)).transpose()?;
            Ok(())
        };
        let bytes = self.parse_body(response, parse).await?;
        Ok(Answer::new(value.expect("the body was parsed"), bytes))
    }

    /// Runs `parse` on the body of a response. Returns its size.
    #[boxed]
    async fn parse_body(
        &self,
        response: Response,
        parse: &mut (dyn FnMut(&[u8]) -> serde_json::Result<()> + Send),
    ) -> Result<usize, ApiRefusal> {
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let internal = || ApiRefusal::from(ApiError::from(Code::Internal));
        let body = to_bytes(response.into_body(), MAX_BYTES).await.map_err(|_| internal())?;
        let turn = self.turn().await?;
        let parsed = run_blocking(body.len(), || run_for(turn.as_ref(), || parse(&body))).await;
        parsed.map(|()| body.len()).map_err(|error| {
            tracing::error!(%error, "an API answer for a page does not match its type");
            internal()
        })
    }

    /// Returns the host's manifest, which is fetched only once for a page.
    ///
    /// # Errors
    ///
    /// A refusal of the API.
    pub(super) async fn manifest(&self) -> Result<&Manifest, ApiRefusal> {
        self.fetch_manifest().await?;
        Ok(self.manifest.get().expect("the manifest is fetched"))
    }

    #[boxed]
    async fn fetch_manifest(&self) -> Result<(), ApiRefusal> {
        self.manifest.get_or_try_init(|| self.get("/ai/manifest")).await?;
        Ok(())
    }

    /// Returns whether money is simulated.
    ///
    /// # Errors
    ///
    /// The same as [`Visitor::manifest`].
    pub(super) async fn is_simulated(&self) -> Result<bool, ApiRefusal> {
        Ok(self.manifest().await?.payment.simulated)
    }

    /// Returns the text of a document with its ETag.
    ///
    /// # Errors
    ///
    /// A refusal of the API.
    pub(super) async fn document(&self, path: &str) -> Result<(HeaderValue, Bytes), ApiRefusal> {
        let response = self.request(Method::GET, path, None).await;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let tag = response.headers().get(header::ETAG).cloned();
        let body = to_bytes(response.into_body(), MAX_BYTES).await.ok();
        tag.zip(body).ok_or_else(|| ApiError::from(Code::Internal).into())
    }

    /// Returns the unmodified response to a GET request, with support for `If-None-Match`.
    pub(super) async fn pass(&self, path: &str, request: &HeaderMap) -> Response {
        let known = request.get(header::IF_NONE_MATCH).cloned();
        self.send(Method::GET, path, known.map(|known| (header::IF_NONE_MATCH, known)).into_iter().collect(), Body::empty()).await
    }

    /// Returns the headers of the response to a HEAD request, whatever its status.
    pub(super) async fn head(&self, path: &str) -> HeaderMap {
        self.request(Method::HEAD, path, None).await.headers().clone()
    }

    /// Makes a request with an optional JSON body, and returns the response whatever its status.
    pub(super) async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        self.send(method, path, HeaderMap::new(), body.map_or_else(Body::empty, |body| Body::from(body.to_string()))).await
    }

    /// Makes an ordinary API request with the visitor's credential. The body is JSON unless the
    /// headers say otherwise.
    #[boxed]
    pub(super) async fn send(&self, method: Method, path: &str, mut headers: HeaderMap, body: Body) -> Response {
        let Ok(uri) = path.parse() else { return ApiError::from(Code::NotFound).into_response() };
        headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        if let Some(session) = &self.session {
            let Ok(mut credential) = HeaderValue::from_str(&session.credential) else {
                return ApiError::from(Code::Unauthorized).into_response();
            };
            credential.set_sensitive(true);
            let name = match session.kind {
                SessionKind::Admin => &header_names::ADMIN_TOKEN,
                SessionKind::Builder => &header_names::BUILDER_KEY,
                SessionKind::Holder => &header_names::DEVELOPER_CREDIT,
            };
            headers.insert(name, credential);
        }
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        request.extensions_mut().insert(FromPage);
        // A session without a name is not stored, because its credential was just entered.
        if let Some(session) = self.session.as_ref().filter(|session| !session.name.is_empty()) {
            let sessions = Arc::clone(&self.services.sessions);
            request.extensions_mut().insert(RequestSession::new(sessions, session.owner.clone(), session.name.clone()));
        }
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        if let Some(id) = &self.request {
            request.extensions_mut().insert(id.clone());
        }
        self.services.api.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
    }

    /// Converts a response to a refusal. If the credential of the session is no longer valid, the
    /// session ends, and the visitor is redirected to sign in and come back.
    #[boxed]
    pub(super) async fn refused(&self, response: Response) -> ApiRefusal {
        let refused = ApiRefusal::by(response);
        let ends = refused.is(Code::Unauthorized) && self.end_session().await;
        if ends && !self.requested.is_empty() { ApiRefusal(Box::new(sign_in(&self.requested))) } else { refused }
    }

    /// Ends the session if its credential is no longer valid. Returns whether it did.
    pub(super) async fn end_session(&self) -> bool {
        let Some(session) = self.session.as_ref().filter(|session| !session.name.is_empty()) else { return false };
        // Missing rights are refused with the same code.
        if code_of(&self.request(Method::GET, own(session.kind), None).await) != Some(Code::Unauthorized) {
            return false;
        }
        self.services.shared.limits.count_wrong(self.sender);
        if let Err(error) = self.services.sessions.end(&session.owner, &session.name).await {
            tracing::warn!(%error, "could not end a session whose credential is no longer valid");
        }
        true
    }

    pub(super) fn fragment(&self, part: Markup) -> Response {
        let document = self.services.root.document(part.into_string());
        Page::new(Area::Elsewhere, "", html! {}).response(document, self.session.is_some())
    }

    #[boxed]
    pub(super) async fn show(&self, page: Page) -> Response {
        let manifest = self.manifest().await.ok();
        let context = PageContext {
            simulated: manifest.is_some_and(|manifest| manifest.payment.simulated),
            version: manifest.map_or("", |manifest| &manifest.service.version),
            session: self.session.as_ref(),
            done: self.session.as_ref().and_then(|session| form_table::notice(session, &self.requested)),
        };
        let document = self.services.root.document(page_frame::document(&page, &context).into_string());
        page.response(document, self.session.is_some())
    }
}

fn run_for<T>(turn: Option<&CpuTurn>, work: impl FnOnce() -> T) -> T {
    match turn {
        Some(turn) => turn.work(work),
        None => work(),
    }
}

/// Returns an API path that accepts every valid credential of this kind.
pub(super) fn own(kind: SessionKind) -> &'static str {
    match kind {
        SessionKind::Admin => "/ai/admin/policy",
        SessionKind::Builder => "/ai/builders/me",
        SessionKind::Holder => "/ai/credits?limit=1",
    }
}

pub(super) fn segment<T: AsRef<str> + ?Sized>(name: &T) -> impl std::fmt::Display {
    utf8_percent_encode(name.as_ref(), UNRESERVED)
}

/// Returns a path with a query, without empty fields.
pub(super) fn with_query<'a>(path: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields.into_iter().filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

impl ApiRefusal {
    fn by(response: Response) -> Self {
        match code_of(&response) {
            Some(_) => Self(Box::new(response)),
            None => {
                tracing::error!(status = %response.status(), "a page requested an unknown API operation");
                ApiError::from(Code::Internal).into()
            }
        }
    }

    /// Adds the page to go back to.
    pub(super) fn with(mut self, back: BackLink) -> Self {
        self.0.extensions_mut().insert(back);
        self
    }

    pub(super) fn code(&self) -> Option<Code> {
        code_of(&self.0)
    }

    /// Returns whether this is the error code.
    pub(super) fn is(&self, code: Code) -> bool {
        self.code() == Some(code)
    }
}

impl From<ApiError> for ApiRefusal {
    fn from(error: ApiError) -> Self {
        Self(Box::new(error.into_response()))
    }
}

impl IntoResponse for ApiRefusal {
    /// The API's own answer. [`super::refusal`] converts it for people.
    fn into_response(self) -> Response {
        *self.0
    }
}
