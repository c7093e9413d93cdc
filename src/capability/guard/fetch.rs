//! A request through the guard: redirects, size limits, timeouts.

use std::{error::Error, io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::{BodyExt, Either, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName,
        HeaderValue, LOCATION, USER_AGENT,
    },
};
use tollhouse_base::{boxed, offload::run_blocking};
use tollhouse_fair::HOST;
use url::{Host, Url};

use super::{
    Guard, MAX_REDIRECTS,
    coding::Coding,
    error::FetchError,
    limits::HEADER_BYTES,
    meter::{ConnectionMeter, ReadGuard},
    recorded::RecordedAnswers,
    resolve::{DialError, OWNER},
};
use crate::AllowedHosts;

/// Headers that are sent to another origin after a redirect. All others are dropped.
const TRAVELLING: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, CONTENT_TYPE];

/// An additional check of URLs that the guard allows.
pub trait Hops: Send + Sync {
    /// Returns why `url` must not be requested, or `None` if it may.
    fn refusal(&self, url: &Url) -> Option<&'static str>;
}

#[derive(Clone)]
pub struct Fetch<'a> {
    /// The owner whose share of connections it uses.
    pub owner: &'a str,
    /// The method. GET and HEAD follow redirects, others do not.
    pub method: Method,
    /// The URL. It is checked first.
    pub url: &'a str,
    /// Headers, sent unchanged but never to another origin than the URL's.
    pub headers: HeaderMap,
    /// A header that contains a secret. It is sent only over https or to a loopback address that the operator exempted,
    /// and never to another origin than the URL's.
    pub credential: Option<(HeaderName, HeaderValue)>,
    pub body: Option<Bytes>,
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
            url,
            headers: HeaderMap::new(),
            credential: None,
            body: None,
            hosts: None,
            hops: None,
            wall,
            body_bytes,
            enough: None,
            recorded: None,
        }
    }
}

/// A response, whatever its status.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body, up to the limit or to the point where it was enough.
    pub body: Bytes,
}

impl Guard {
    /// Performs a request. GET and HEAD follow redirects, other methods return them.
    ///
    /// # Errors
    ///
    /// [`FetchError`]. A response with an error status is not an error.
    #[boxed]
    pub async fn fetch<'a>(&'a self, request: Fetch<'a>) -> Result<Fetched, FetchError> {
        let wall = request.wall;
        let fetched = async {
            let _open = self.0.open.turn(request.owner.into()).await;
            OWNER.scope(request.owner.into(), self.follow(request)).await
        };
        tokio::time::timeout(wall, fetched).await.unwrap_or(Err(FetchError::Timeout(wall.as_millis())))
    }

    async fn follow(&self, mut request: Fetch<'_>) -> Result<Fetched, FetchError> {
        let mut url = self.check(request.url, request.hosts)?;
        if let Some(reason) = request.hops.and_then(|hops| hops.refusal(&url)) {
            return Err(FetchError::Forbidden(reason.to_owned()));
        }
        let follows = request.method == Method::GET || request.method == Method::HEAD;
        for _ in 0..=MAX_REDIRECTS {
            let (response, _reading) = match &request.recorded {
                None => self.send(&url, &request).await.map(|(response, reading)| (response.map(Either::Left), Some(reading)))?,
                Some(recorded) => (recorded.take(&url).ok_or_else(not_recorded)?.map(Either::Right), None),
            };
            let Some(location) = response.headers().get(LOCATION).filter(|_| follows && is_redirect(response.status())) else {
                return read(url, response, request.body_bytes, request.enough).await;
            };
            let next = self.redirected(&url, location, request.hosts)?;
            if let Some(reason) = request.hops.and_then(|hops| hops.refusal(&next)) {
                return Err(FetchError::BadRedirect(format!("it leads to {reason}")));
            }
            if next.origin() != url.origin() {
                request.credential = None;
                request.headers = TRAVELLING.iter().filter_map(|name| Some((name.clone(), request.headers.get(name)?.clone()))).collect();
            }
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

    async fn send(&self, url: &Url, request: &Fetch<'_>) -> Result<(Response<Incoming>, ReadGuard), FetchError> {
        let to: Uri = url.as_str().parse().map_err(|error| FetchError::InvalidUrl(format!("is invalid: {error}")))?;
        let mut headers = request.headers.clone();
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("Tollhouse/", env!("CARGO_PKG_VERSION"))));
        if let Some((name, value)) = &request.credential {
            if url.scheme() != "https" && !(is_loopback(url) && self.is_exempt(url)) {
                return Err(FetchError::InsecureCredential);
            }
            headers.append(name, value.clone());
        }
        if !self.keeps(request.owner, url) {
            headers.append(CONNECTION, HeaderValue::from_static("close"));
        }
        headers.append(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut sending = Request::new(Full::new(request.body.clone().unwrap_or_default()));
        (*sending.method_mut(), *sending.uri_mut(), *sending.headers_mut()) = (request.method.clone(), to, headers);
        let client = self.0.exempt.as_ref().filter(|_| self.is_exempt(url)).unwrap_or(&self.0.public);
        let answered = client.request(sending).await;
        let response = answered.map_err(|error| broken(&error, if error.is_connect() { "could not connect" } else { BROKE }))?;
        let meter = response.extensions().get::<ConnectionMeter>().expect("every connection is metered");
        let reading = meter.reading(request.body_bytes);
        let bytes: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
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

async fn read(
    url: Url,
    response: Response<Either<Incoming, Full<Bytes>>>,
    limit: usize,
    enough: Option<fn(&[u8]) -> bool>,
) -> Result<Fetched, FetchError> {
    let (head, mut incoming) = response.into_parts();
    let (status, mut headers) = (head.status, head.headers);
    let coding = Coding::of(&headers)?;
    // Only an unencoded body can be examined in part.
    let enough = enough.filter(|_| coding == Coding::Identity);
    if incoming.size_hint().exact().is_some_and(|length| length > limit as u64) {
        return Err(FetchError::TooLarge(limit));
    }
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        // Trailers are ignored.
        let Ok(chunk) = frame.map_err(|error| broken(&*error, BROKE))?.into_data() else { continue };
        if body.len() + chunk.len() > limit {
            return Err(FetchError::TooLarge(limit));
        }
        body.extend_from_slice(&chunk);
        if enough.is_some_and(|enough| enough(&body)) {
            break;
        }
    }
    let mut body = body.freeze();
    if coding != Coding::Identity {
        // Decoding takes as long as the size that the body may expand to.
        body = run_blocking(limit.min(body.len().saturating_mul(INFLATES)), || coding.decode(&body, limit)).await?;
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
    }
    Ok(Fetched { url, status, headers, body })
}

/// Approximate maximum expansion factor of deflate.
const INFLATES: usize = 1_032;

/// The message if nothing else is known.
const BROKE: &str = "the connection was lost";

/// Returns the guard's own refusal if it is in the error chain, otherwise the innermost error.
fn broken(error: &(dyn Error + 'static), what: &str) -> FetchError {
    let mut link = error;
    loop {
        if let Some(refusal @ DialError::NotPublic { .. }) = link.downcast_ref() {
            return FetchError::Forbidden(refusal.to_string());
        }
        if let Some(flooded @ FetchError::Flooded(_)) = link.downcast_ref() {
            return flooded.clone();
        }
        // An I/O error contains its cause but returns the cause's source as its own.
        let held = link.downcast_ref::<io::Error>().and_then(io::Error::get_ref).map(|held| held as &(dyn Error + 'static));
        match held.or_else(|| link.source()) {
            Some(source) => link = source,
            None => return FetchError::Unreachable(format!("{what}: {link}")),
        }
    }
}
