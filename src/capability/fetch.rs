//! `fetch`: any request to an allowed host through the guard. The handler gets the head of the response as soon as it
//! arrives, and reads the body in pieces.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method,
    header::{ACCEPT, HeaderMap, HeaderValue, RANGE},
};
use serde::Serialize;
use tollhouse_protocol::{OpFailure, OpValue, RedirectMode, limits::REQUEST_BODY_BYTES};
use url::Position;

use super::{
    Redactor,
    failure::{self, invalid_argument},
    guard::{Fetch, FetchError, Fetched, OpenResponse, Redirects},
    http::{OutgoingRequest, check_header_count, is_of_host, parse_header_name},
    response::ResponseBody,
};

/// Methods that no request can have (Fetch standard, forbidden method).
const FORBIDDEN_METHODS: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];

/// Maximum length of a method, in bytes.
const METHOD_BYTES: usize = 64;

/// Headers that `fetch` sends although `httpGetJson` does not: they describe a body, a part of one, or the caller.
const SENT_HEADERS: [&str; 4] = ["content-encoding", "content-type", "origin", "range"];

/// How long the answer to a request waits for the rest of a short body, whose bytes mostly follow the head at once. It
/// saves an op.
const BRIEF: Duration = Duration::from_millis(10);

/// Media types whose bodies arrive in events, and are passed on as they come.
const EVENT_STREAM: &str = "text/event-stream";

/// The response to a request.
enum Arrived {
    Whole(Box<Fetched>),
    Head(Box<OpenResponse>),
}

impl OutgoingRequest<'_> {
    pub(super) async fn send(
        &self,
        method: String,
        url: String,
        headers: Vec<(String, String)>,
        body: Bytes,
        redirect: RedirectMode,
        id: u32,
    ) -> Result<OpValue, OpFailure> {
        let method = parse_method(&method)?;
        if body.len() > REQUEST_BODY_BYTES {
            let message = format!("the body of the request has {} bytes, and the maximum is {REQUEST_BODY_BYTES}", body.len());
            return Err(invalid_argument(message));
        }
        let headers = request_headers(&headers)?;
        let request = Fetch {
            method,
            // A part of a compressed body cannot be decoded (Fetch standard, HTTP-network-or-cache fetch), and compressed
            // events can arrive late.
            takes_compressed: !headers.contains_key(RANGE) && !accepts_events(&headers),
            headers,
            body: Some(body),
            redirects: redirects(redirect),
            ..self.get_request(&url, self.call.limits.http_wall_ms)
        };
        let open = self.counters.requests.begin(id)?;
        let arrived = tokio::select! {
            biased;
            () = open.canceled.cancelled() => Err(failure::canceled()),
            arrived = self.in_turn(request.wall, Box::pin(self.arrive(request))) => arrived,
        };
        let mut kept = None;
        let answer = arrived.and_then(|arrived| match arrived {
            Arrived::Whole(fetched) => {
                let body = redacted(self.hidden, &fetched);
                Ok(OpValue::Response { head: self.head(&fetched)?, body, more: false })
            }
            Arrived::Head(response) => {
                let head = self.head(&response.head)?;
                let mut rest = ResponseBody::new(response.body);
                let (body, more) = rest.beginning(self.hidden);
                kept = more.then_some(rest);
                Ok(OpValue::Response { head, body, more })
            }
        });
        match kept {
            Some(rest) => *open.body.lock().await = Some(rest),
            None => self.counters.requests.end(id),
        }
        answer
    }

    /// Sends a request. Returns the whole response if it cannot be read in pieces.
    async fn arrive(&self, request: Fetch<'_>) -> Result<Arrived, FetchError> {
        let mut response = self.guard.begin(request).await?;
        if !response.has_pieces() || self.must_search_whole(&response.head) {
            return Ok(Arrived::Whole(Box::new(response.whole(None).await?)));
        }
        response.prepare_pieces();
        if response.body.is_short() {
            _ = tokio::time::timeout(BRIEF, response.body.arrive()).await;
        }
        Ok(Arrived::Head(Box::new(response)))
    }

    /// Returns whether secrets can only be found in the whole body, because it can be JSON. Events are searched as text.
    fn must_search_whole(&self, head: &Fetched) -> bool {
        let searches_events = self.hidden.finds_numbers() || !head.is_of_type(EVENT_STREAM);
        !self.hidden.is_empty() && !head.declares_other() && searches_events
    }

    /// Reads the next bytes of a response. The time between two pieces is limited, and not that of the whole body.
    pub(super) async fn read(&self, id: u32) -> Result<OpValue, OpFailure> {
        let open = self.counters.requests.get(id).ok_or_else(failure::no_response)?;
        let mut slot = open.body.lock().await;
        let Some(body) = slot.as_mut() else { return Err(failure::no_response()) };
        let wall = Duration::from_millis(self.call.limits.http_wall_ms);
        let read = tokio::select! {
            biased;
            () = open.canceled.cancelled() => return Err(failure::canceled()),
            read = tokio::time::timeout(wall, body.next(self.hidden)) => read.unwrap_or(Err(FetchError::Timeout(wall.as_millis()))),
        };
        if let Ok(Some(bytes)) = read {
            return Ok(OpValue::Bytes(bytes));
        }
        *slot = None;
        self.counters.requests.end(id);
        match read {
            Ok(_) => Ok(OpValue::None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Returns status, URL and headers as JSON. A server that received a secret may send it back in any of them.
    fn head(&self, fetched: &Fetched) -> Result<Bytes, OpFailure> {
        let hidden = self.hidden;
        let reason = fetched.reason.as_deref().or_else(|| fetched.status.canonical_reason().map(str::as_bytes)).unwrap_or_default();
        // A name, and the host of a URL, are in lower case.
        let in_lower = (!hidden.is_empty()).then(|| hidden.ignoring_case());
        let is_hidden = |name: &str| in_lower.is_some_and(|hidden| hidden.redact(name) != name);
        // The standard's `url` of a response has no fragment.
        let url = &fetched.url[..Position::AfterQuery];
        let head = Head {
            status: fetched.status.as_u16(),
            status_text: latin1(hidden, reason),
            url: in_lower.map_or_else(|| url.to_owned(), |hidden| hidden.redact(url).into_owned()),
            redirected: fetched.is_redirected,
            headers: fetched
                .headers
                .iter()
                .filter(|(name, _)| !is_hidden(name.as_str()))
                .map(|(name, value)| (name.as_str(), latin1(hidden, value.as_bytes())))
                .collect(),
        };
        serde_json::to_vec(&head).map(Bytes::from).map_err(|_| failure::not_searchable(fetched.status.as_u16()))
    }
}

/// The head of a response, as a handler gets it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    status: u16,
    status_text: String,
    url: String,
    redirected: bool,
    headers: Vec<(&'a str, String)>,
}

fn parse_method(name: &str) -> Result<Method, OpFailure> {
    if name.len() > METHOD_BYTES {
        return Err(invalid_argument(format!("the method has {} bytes, and the maximum is {METHOD_BYTES}", name.len())));
    }
    let method = Method::from_bytes(name.as_bytes()).map_err(|_| invalid_argument(format!("`{name}` is not a method")))?;
    let forbidden = FORBIDDEN_METHODS.iter().any(|forbidden| forbidden.eq_ignore_ascii_case(method.as_str()));
    if forbidden { Err(invalid_argument(format!("a request cannot have the method {method}"))) } else { Ok(method) }
}

fn redirects(mode: RedirectMode) -> Redirects {
    match mode {
        RedirectMode::Follow => Redirects::Follow,
        RedirectMode::Manual => Redirects::Return,
        RedirectMode::Error => Redirects::Refuse,
    }
}

/// Converts the headers of a request. Those of the host are ignored, as the standard does with forbidden ones, because
/// many packages set some of them.
fn request_headers(request: &[(String, String)]) -> Result<HeaderMap, OpFailure> {
    check_header_count(request)?;
    let mut headers = HeaderMap::new();
    for (name, value) in request {
        let parsed = parse_header_name(name)?;
        if is_of_host(&parsed) && !SENT_HEADERS.contains(&parsed.as_str()) {
            continue;
        }
        // Each character is a byte (Web IDL, ByteString).
        let bytes = value.chars().map(u8::try_from).collect::<Result<Vec<_>, _>>().ok();
        let value = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        let wrong = || invalid_argument(format!("the value of the header `{name}` has characters that a header cannot have"));
        headers.append(parsed, value.ok_or_else(wrong)?);
    }
    Ok(headers)
}

/// Returns whether a request asks for events.
fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|types| types.to_ascii_lowercase().contains(EVENT_STREAM)))
}

/// Converts each byte to a character, after the values of secrets were replaced.
fn latin1(hidden: &Redactor, bytes: &[u8]) -> String {
    let clean = hidden.redact_bytes(bytes);
    clean.as_deref().unwrap_or(bytes).iter().copied().map(char::from).collect()
}

/// Returns the body with the values of secrets replaced. In JSON, a number can be a value too, in any spelling. A body
/// can be JSON without declaring it.
fn redacted(hidden: &Redactor, fetched: &Fetched) -> Bytes {
    let body = &fetched.body;
    let json = if fetched.declares_other() { None } else { hidden.redact_json_text(body).unwrap_or_default() };
    let body = json.unwrap_or_else(|| body.clone());
    hidden.redact_bytes(&body).unwrap_or(body)
}

#[cfg(test)]
mod tests;
