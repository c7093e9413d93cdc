//! One request through the guard: redirects, sizes, time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{
    Method, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
        USER_AGENT,
    },
};
use tollhouse_fair::HOST;
use url::{Host, Url};

use super::{
    Guard, MAX_REDIRECTS,
    error::FetchError,
    limits::HEADER_BYTES,
    resolve::{DialError, OWNER},
};
use crate::capability::AllowedHosts;

/// Headers that go along to another origin; all others stay behind.
const TRAVELLING: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, CONTENT_TYPE];

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
    /// For all of it, redirects and body included.
    pub wall: Duration,
    /// Most bytes of the body.
    pub body_bytes: usize,
    /// Says of the body so far that it is enough: a stream may stay open behind what was asked for. Asked after each chunk.
    pub enough: Option<fn(&[u8]) -> bool>,
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
            wall,
            body_bytes,
            enough: None,
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
        let follows = request.method == Method::GET || request.method == Method::HEAD;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&url, &request).await?;
            let Some(location) = response.headers().get(LOCATION).filter(|_| follows && is_redirect(response.status())) else {
                return read(url, response, request.body_bytes, request.enough).await;
            };
            let next = self.redirected(&url, location, request.hosts)?;
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
        let location = location.to_str().map_err(|_| refused("its target is not a URL".into()))?;
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

    async fn send(&self, url: &Url, request: &Fetch<'_>) -> Result<reqwest::Response, FetchError> {
        let mut sending = self.client_for(url).request(request.method.clone(), url.clone()).headers(request.headers.clone());
        if !request.headers.contains_key(USER_AGENT) {
            sending = sending.header(USER_AGENT, concat!("Tollhouse/", env!("CARGO_PKG_VERSION")));
        }
        if let Some((name, value)) = &request.credential {
            if url.scheme() != "https" && !(is_loopback(url) && self.is_exempt(url)) {
                return Err(FetchError::InsecureCredential);
            }
            sending = sending.header(name, value);
        }
        if !self.is_exempt(url) && !self.0.kept.keeps(request.owner, url) {
            sending = sending.header(CONNECTION, "close");
        }
        if let Some(body) = &request.body {
            sending = sending.body(body.clone());
        }
        let response = sending.header(ACCEPT_ENCODING, "identity").send().await.map_err(|error| dial_error(&error))?;
        let bytes: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > HEADER_BYTES {
            return Err(FetchError::Unreachable(format!("the answer has headers of {bytes} bytes, limit {HEADER_BYTES}")));
        }
        Ok(response)
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

async fn read(url: Url, mut response: reqwest::Response, limit: usize, enough: Option<fn(&[u8]) -> bool>) -> Result<Fetched, FetchError> {
    let (status, headers) = (response.status(), response.headers().clone());
    if let Some(encoding) = headers.get_all(CONTENT_ENCODING).iter().find(|encoding| *encoding != "identity") {
        return Err(FetchError::Encoded(String::from_utf8_lossy(encoding.as_bytes()).chars().take(40).collect()));
    }
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(FetchError::TooLarge(limit));
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| dial_error(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(FetchError::TooLarge(limit));
        }
        body.extend_from_slice(&chunk);
        if enough.is_some_and(|enough| enough(&body)) {
            break;
        }
    }
    Ok(Fetched { url, status, headers, body: body.freeze() })
}

/// The guard's own refusal if it is in the chain, else the last link, which says what went wrong.
fn dial_error(error: &reqwest::Error) -> FetchError {
    let mut link: &(dyn std::error::Error + 'static) = error;
    loop {
        if let Some(refusal @ DialError::NotPublic { .. }) = link.downcast_ref::<DialError>() {
            return FetchError::Forbidden(refusal.to_string());
        }
        match link.source() {
            Some(source) => link = source,
            None => break,
        }
    }
    let what = if error.is_connect() { "could not connect" } else { "the connection broke" };
    FetchError::Unreachable(format!("{what}: {link}"))
}
