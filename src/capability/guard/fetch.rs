//! A request through the guard: redirects, size limits, timeouts.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    ext::ReasonPhrase,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
        CONTENT_LOCATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
    },
};
use tollhouse_base::boxed;
use tollhouse_fair::HOST;
use url::{Host, Url};

use super::{
    Guard, MAX_REDIRECTS, coding,
    error::FetchError,
    limits::HEADER_BYTES,
    meter::{ConnectionMeter, ReadGuard},
    opened::{BROKE, Fetched, OpenResponse, broken},
    recorded::RecordedAnswers,
    resolve::OWNER,
};
use crate::{
    AllowedHosts,
    secret::{Destination, FilledRequest, Placeholders},
};

/// Headers that are sent to another origin after a redirect of [`Redirects::OfSafeMethods`]. All others are dropped.
const TRAVELLING: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, CONTENT_TYPE];

/// Headers about a body, which are dropped with it (Fetch standard, request-body-header name).
const OF_BODY: [HeaderName; 4] = [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE];

/// Headers that [`Redirects::Follow`] does not send to another origin.
const OF_ORIGIN: [HeaderName; 2] = [AUTHORIZATION, COOKIE];

/// How to handle a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// GET and HEAD follow it, and other methods return it.
    #[default]
    OfSafeMethods,
    /// All methods follow it. Method, body and headers change as the Fetch standard says (HTTP-redirect fetch).
    Follow,
    /// Return it.
    Return,
    /// Fail.
    Refuse,
}

/// An additional check of URLs that the guard allows.
pub trait Hops: Send + Sync {
    /// Returns why `url` must not be requested, or `None` if it may.
    fn refusal(&self, url: &Url) -> Option<&'static str>;
}

#[derive(Clone)]
pub struct Fetch<'a> {
    /// The owner whose share of connections it uses.
    pub owner: &'a str,
    /// The method. Default: GET.
    pub method: Method,
    /// How to handle a redirect. Default: follow it after GET and HEAD.
    pub redirects: Redirects,
    /// The URL. It is checked first.
    pub url: &'a str,
    /// Headers, sent unchanged. `redirects` decides which of them go to another origin than the URL's.
    pub headers: HeaderMap,
    /// A header that contains a secret. It is sent only over https or to a loopback address that the operator exempted,
    /// and never to another origin than the URL's.
    pub credential: Option<(HeaderName, HeaderValue)>,
    /// Placeholders of secrets, whose values are put in before each hop. Default: none.
    pub placeholders: Option<&'a Placeholders<'a>>,
    pub body: Option<Bytes>,
    /// Whether the server may compress the body of its response. Default: no, but it is decoded anyway.
    pub takes_compressed: bool,
    /// Hosts that the URL and every redirect must match. `None` allows any public host.
    pub hosts: Option<&'a AllowedHosts>,
    /// An additional check of the URL and every redirect. Default: none.
    pub hops: Option<&'a dyn Hops>,
    /// Timeout for everything, including redirects and body.
    pub wall: Duration,
    /// Maximum size of the body, in bytes.
    pub body_bytes: usize,
    /// Returns whether the body so far is enough, because a stream may stay open after the wanted data. Called after
    /// each chunk.
    pub enough: Option<fn(&[u8]) -> bool>,
    /// Recorded responses to use instead of real servers. Default: none.
    pub recorded: Option<Arc<RecordedAnswers>>,
}

impl<'a> Fetch<'a> {
    /// Creates a GET request for the host itself, to any public host, with limits on time and body size.
    pub fn get(url: &'a str, wall: Duration, body_bytes: usize) -> Self {
        Self {
            owner: HOST,
            method: Method::GET,
            redirects: Redirects::default(),
            url,
            headers: HeaderMap::new(),
            credential: None,
            placeholders: None,
            body: None,
            takes_compressed: false,
            hosts: None,
            hops: None,
            wall,
            body_bytes,
            enough: None,
            recorded: None,
        }
    }
}

impl Fetch<'_> {
    fn follows(&self) -> bool {
        match self.redirects {
            Redirects::OfSafeMethods => self.method == Method::GET || self.method == Method::HEAD,
            Redirects::Follow => true,
            Redirects::Return | Redirects::Refuse => false,
        }
    }

    /// Returns whether a tool chose a body. A server that does not read it can take it for the beginning of the next
    /// request on its connection, which could be another tool's, so that connection must have no next request.
    fn has_body_of_a_tool(&self) -> bool {
        self.hosts.is_some() && self.body.as_ref().is_some_and(|body| !body.is_empty())
    }

    /// Returns whether servers expect a body and the request has none. Some then require a length (RFC 9110, section 8.6),
    /// which the client sends only with a body.
    fn lacks_expected_body(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH) && self.body.as_ref().is_none_or(Bytes::is_empty)
    }

    /// Changes the request for the target of a redirect.
    fn redirect(&mut self, status: StatusCode, leaves_origin: bool) {
        if leaves_origin {
            self.credential = None;
            if let Some(placeholders) = self.placeholders {
                placeholders.remove_headers(&mut self.headers);
            }
        }
        if self.redirects != Redirects::Follow {
            if leaves_origin {
                self.headers = TRAVELLING.iter().filter_map(|name| Some((name.clone(), self.headers.get(name)?.clone()))).collect();
            }
            return;
        }
        let becomes_get = match status.as_u16() {
            301 | 302 => self.method == Method::POST,
            303 => self.method != Method::GET && self.method != Method::HEAD,
            _ => false,
        };
        if becomes_get {
            (self.method, self.body) = (Method::GET, None);
        }
        for name in OF_BODY.iter().filter(|_| becomes_get).chain(OF_ORIGIN.iter().filter(|_| leaves_origin)) {
            self.headers.remove(name);
        }
    }
}

impl Guard {
    /// Performs a request.
    ///
    /// # Errors
    ///
    /// [`FetchError`]. A response with an error status is not an error.
    #[boxed]
    pub async fn fetch<'a>(&'a self, request: Fetch<'a>) -> Result<Fetched, FetchError> {
        let (wall, enough) = (request.wall, request.enough);
        let fetched = async { self.begin(request).await?.whole(enough).await };
        tokio::time::timeout(wall, fetched).await.unwrap_or(Err(FetchError::Timeout(wall.as_millis())))
    }

    /// Performs a request up to the head of its response, which keeps its place among the open requests until it is
    /// dropped. The caller limits the time.
    ///
    /// # Errors
    ///
    /// [`FetchError`].
    pub(crate) async fn begin<'a>(&'a self, request: Fetch<'a>) -> Result<OpenResponse, FetchError> {
        let open = self.0.open.turn(request.owner.into()).await;
        Ok(OWNER.scope(request.owner.into(), self.follow(request)).await?.keeping(open))
    }

    async fn follow(&self, mut request: Fetch<'_>) -> Result<OpenResponse, FetchError> {
        let mut url = self.check(request.url, request.hosts)?;
        if let Some(reason) = request.hops.and_then(|hops| hops.refusal(&url)) {
            return Err(FetchError::Forbidden(reason.to_owned()));
        }
        for hop in 0..=MAX_REDIRECTS {
            let filled = self.fill(&url, &request)?;
            let (response, reading) = match &request.recorded {
                None => self.send(&url, filled, &request).await.map(|(response, reading)| (response.map(Either::Left), Some(reading)))?,
                Some(recorded) => {
                    let named = request.placeholders.map(|placeholders| placeholders.named(&url));
                    let recorded = recorded.take(&request.method, named.as_ref().unwrap_or(&url));
                    (recorded.ok_or_else(not_recorded)?.map(Either::Right), None)
                }
            };
            let status = response.status();
            if is_redirect(status) && request.redirects == Redirects::Refuse {
                return Err(FetchError::Redirected);
            }
            let follows = is_redirect(status) && request.follows();
            let Some(location) = response.headers().get(LOCATION).filter(|_| follows) else {
                return OpenResponse::new(url, hop > 0, response, reading, request.body_bytes);
            };
            let next = self.redirected(&url, location, request.hosts)?;
            if let Some(reason) = request.hops.and_then(|hops| hops.refusal(&next)) {
                return Err(FetchError::BadRedirect(format!("it leads to {reason}")));
            }
            let leaves_origin = next.origin() != url.origin();
            if leaves_origin && let Some(secret) = request.placeholders.and_then(|placeholders| placeholders.value_for_others(&next)) {
                return Err(FetchError::BadRedirect(format!("it would send the secret `{secret}` to another host")));
            }
            request.redirect(status, leaves_origin);
            url = next;
        }
        Err(FetchError::TooManyRedirects)
    }

    pub(super) fn redirected(&self, from: &Url, location: &HeaderValue, hosts: Option<&AllowedHosts>) -> Result<Url, FetchError> {
        let refused = |reason: String| FetchError::BadRedirect(reason);
        // As UTF-8, like browsers. The URL parser percent-encodes it.
        let location = std::str::from_utf8(location.as_bytes()).map_err(|_| refused("its target is not a URL".into()))?;
        let target = from.join(location).map_err(|error| refused(format!("its target is not a URL: {error}")))?;
        if from.scheme() == "https" && target.scheme() != "https" {
            return Err(refused("it leads from https to http".into()));
        }
        match self.check(target.as_str(), hosts) {
            Err(FetchError::Forbidden(reason)) => Err(refused(reason)),
            Err(FetchError::InvalidUrl(reason)) => Err(refused(format!("its target {reason}"))),
            checked => checked,
        }
    }

    /// Returns whether the connection of this request may be reused.
    pub(super) fn keeps(&self, owner: &str, url: &Url) -> bool {
        self.is_exempt(url) || self.0.cache.keeps(owner, url)
    }

    /// Returns the parts of a request with the values of secrets, if they may be sent to `url`.
    fn fill(&self, url: &Url, request: &Fetch<'_>) -> Result<FilledRequest, FetchError> {
        let Some(placeholders) = request.placeholders else {
            return Ok(FilledRequest { url: url.to_string(), headers: request.headers.clone(), body: request.body.clone() });
        };
        let is_development = self.is_local_development(url);
        let is_private = self.is_private(url) || is_development;
        Ok(placeholders.fill(&Destination { url, is_private, is_development }, &request.headers, request.body.as_ref())?)
    }

    /// Returns whether nobody can read a request to `url` on its way.
    fn is_private(&self, url: &Url) -> bool {
        url.scheme() == "https" || (is_loopback(url) && self.is_exempt(url))
    }

    /// Returns whether `url` leads to an upstream of `tollhouse dev` on this machine.
    fn is_local_development(&self, url: &Url) -> bool {
        self.is_development(url) && (is_loopback(url) || url.host_str() == Some("localhost"))
    }

    async fn send(&self, url: &Url, filled: FilledRequest, request: &Fetch<'_>) -> Result<(Response<Incoming>, ReadGuard), FetchError> {
        self.refuse_own(url, request.hosts).await?;
        let FilledRequest { url: to, mut headers, body } = filled;
        let to: Uri = to.parse().map_err(|error| FetchError::InvalidUrl(format!("is invalid: {error}")))?;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("Tollhouse/", env!("CARGO_PKG_VERSION"))));
        if let Some((name, value)) = &request.credential {
            if !self.is_private(url) && !self.is_local_development(url) {
                return Err(FetchError::InsecureCredential);
            }
            headers.append(name, value.clone());
        }
        if request.has_body_of_a_tool() || !self.keeps(request.owner, url) {
            headers.append(CONNECTION, HeaderValue::from_static("close"));
        }
        headers.append(ACCEPT_ENCODING, HeaderValue::from_static(if request.takes_compressed { coding::ACCEPTED } else { "identity" }));
        if request.lacks_expected_body() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut sending = Request::new(Full::new(body.unwrap_or_default()));
        (*sending.method_mut(), *sending.uri_mut(), *sending.headers_mut()) = (request.method.clone(), to, headers);
        let answered = self.client_for(url, request.hosts).request(sending).await;
        let response = answered.map_err(|error| broken(&error, if error.is_connect() { "could not connect" } else { BROKE }))?;
        let meter = response.extensions().get::<ConnectionMeter>().expect("every connection is metered");
        let reading = meter.reading(request.body_bytes);
        let reason = response.extensions().get::<ReasonPhrase>().map_or(0, |reason| reason.as_bytes().len());
        let bytes = reason + response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
        if bytes > HEADER_BYTES {
            return Err(FetchError::Unreachable(format!("the answer has headers of {bytes} bytes, and the maximum is {HEADER_BYTES}")));
        }
        Ok((response, reading))
    }
}

/// Returns whether the URL itself names a loopback address, so that nobody can intercept the request.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn not_recorded() -> FetchError {
    FetchError::Unreachable("there is no recorded answer for this URL".to_owned())
}
