//! One request through the guard: redirects, sizes, time.

use std::{error::Error, fmt, io, sync::Arc, time::Duration};

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
use tollhouse_base::aside::aside;
use tollhouse_fair::HOST;
use url::{Host, Url};

use super::{
    Guard, MAX_REDIRECTS,
    coding::Coding,
    error::FetchError,
    limits::HEADER_BYTES,
    meter::{Meter, Reading},
    recorded::Recorded,
    resolve::{DialError, OWNER},
};
use crate::AllowedHosts;

/// Headers that go along to another origin; all others stay behind.
const TRAVELLING: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, CONTENT_TYPE];

/// Refuses URLs that the guard lets pass.
pub trait Hops: fmt::Debug + Send + Sync {
    /// Why `url` is not asked for; `None` where it is.
    fn refusal(&self, url: &Url) -> Option<&'static str>;
}

/// What to ask for.
#[derive(Debug, Clone)]
pub struct Fetch<'a> {
    /// Whose share of connections it takes.
    pub owner: &'a str,
    /// GET and HEAD follow redirects, others do not.
    pub method: Method,
    /// Where to; it is checked first.
    pub url: &'a str,
    /// Sent as they are, but never to another origin than the URL's.
    pub headers: HeaderMap,
    /// A header with a secret in it: sent over https only, or to a loopback address that the operator exempted, and never to
    /// another origin than the URL's.
    pub credential: Option<(HeaderName, HeaderValue)>,
    /// Sent along.
    pub body: Option<Bytes>,
    /// Hosts that the URL and every redirect must be among; `None` is any public host.
    pub hosts: Option<&'a AllowedHosts>,
    /// Looks at the URL and at every redirect, beside the guard. Default: nobody does.
    pub hops: Option<&'a dyn Hops>,
    /// For all of it, redirects and body included.
    pub wall: Duration,
    /// Most bytes of the body.
    pub body_bytes: usize,
    /// Says of the body so far that it is enough: a stream may stay open behind what was asked for. Asked after each chunk.
    pub enough: Option<fn(&[u8]) -> bool>,
    /// Answers instead of the servers. Default: those answer.
    pub recorded: Option<Arc<Recorded>>,
}

impl<'a> Fetch<'a> {
    /// A GET of `url` from any public host, within `wall` and `body_bytes`, for the host itself.
    #[must_use]
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

/// What came back, whatever its status.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Where it came from, after redirects.
    pub url: Url,
    /// Of the last hop.
    pub status: StatusCode,
    /// Of the last hop.
    pub headers: HeaderMap,
    /// Up to the limit; cut where it was enough.
    pub body: Bytes,
}

impl Guard {
    /// Does one request. GET and HEAD follow redirects, other methods return them.
    ///
    /// # Errors
    ///
    /// [`FetchError`]; an answer with an error status is not one.
    pub async fn fetch(&self, request: Fetch<'_>) -> Result<Fetched, FetchError> {
        let wall = request.wall;
        let fetched = async {
            let _open = self.0.open.turn(request.owner.into()).await;
            OWNER.scope(request.owner.into(), self.follow(request)).await
        };
        tokio::time::timeout(wall, fetched).await.unwrap_or(Err(FetchError::Timeout(wall.as_millis())))
    }

    async fn follow(&self, mut request: Fetch<'_>) -> Result<Fetched, FetchError> {
        let mut url = self.check(request.url, request.hosts)?;
        if let Some(why) = request.hops.and_then(|hops| hops.refusal(&url)) {
            return Err(FetchError::Forbidden(why.to_owned()));
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
            if let Some(why) = request.hops.and_then(|hops| hops.refusal(&next)) {
                return Err(FetchError::BadRedirect(format!("to {why}")));
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
        let refused = |why: String| FetchError::BadRedirect(why);
        // In UTF-8, as browsers read it: the URL has it percent-encoded.
        let location = std::str::from_utf8(location.as_bytes()).map_err(|_| refused("its target is not a URL".into()))?;
        let target = from.join(location).map_err(|error| refused(format!("its target is not a URL: {error}")))?;
        if from.scheme() == "https" && target.scheme() != "https" {
            return Err(refused("from https to http".into()));
        }
        match self.check(target.as_str(), hosts) {
            Err(FetchError::Forbidden(why)) => Err(refused(why)),
            Err(FetchError::InvalidUrl(why)) => Err(refused(format!("its target {why}"))),
            checked => checked,
        }
    }

    /// Whether the connection of this request may serve a next one.
    pub(super) fn keeps(&self, owner: &str, url: &Url) -> bool {
        self.is_exempt(url) || self.0.kept.keeps(owner, url)
    }

    async fn send(&self, url: &Url, request: &Fetch<'_>) -> Result<(Response<Incoming>, Reading), FetchError> {
        let to: Uri = url.as_str().parse().map_err(|error| FetchError::InvalidUrl(format!("does not read: {error}")))?;
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
        let answered = self.client_for(url).request(sending).await;
        let response = answered.map_err(|error| broken(&error, if error.is_connect() { "could not connect" } else { BROKE }))?;
        let meter = response.extensions().get::<Meter>().expect("every connection is metered");
        let reading = meter.reading(request.body_bytes);
        let bytes: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > HEADER_BYTES {
            return Err(FetchError::Unreachable(format!("the answer has headers of {bytes} bytes, limit {HEADER_BYTES}")));
        }
        Ok((response, reading))
    }
}

/// Whether the URL names a loopback address itself: then nobody is between.
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
    FetchError::Unreachable("no answer is recorded for this URL".to_owned())
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
    // What it is enough of is seen in plain bytes alone.
    let enough = enough.filter(|_| coding == Coding::Identity);
    if incoming.size_hint().exact().is_some_and(|length| length > limit as u64) {
        return Err(FetchError::TooLarge(limit));
    }
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        // Trailers are not looked at.
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
        // It takes as long as what it may become.
        body = aside(limit.min(body.len().saturating_mul(INFLATES)), || coding.decode(&body, limit)).await?;
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
    }
    Ok(Fetched { url, status, headers, body })
}

/// How many times longer deflate's texts become, at most and about.
const INFLATES: usize = 1_032;

/// What came to an end, where nothing else is known.
const BROKE: &str = "the connection broke";

/// The guard's own refusal if it is in the chain, else the last link, which says what went wrong.
fn broken(error: &(dyn Error + 'static), what: &str) -> FetchError {
    let mut link = error;
    loop {
        if let Some(refusal @ DialError::NotPublic { .. }) = link.downcast_ref() {
            return FetchError::Forbidden(refusal.to_string());
        }
        if let Some(flooded @ FetchError::Flooded(_)) = link.downcast_ref() {
            return flooded.clone();
        }
        // An error of the connection holds what it was made of, and names what that came from.
        let held = link.downcast_ref::<io::Error>().and_then(io::Error::get_ref).map(|held| held as &(dyn Error + 'static));
        match held.or_else(|| link.source()) {
            Some(source) => link = source,
            None => return FetchError::Unreachable(format!("{what}: {link}")),
        }
    }
}
