//! `fetch`: any request to an allowed host through the guard.

use bytes::Bytes;
use reqwest::{
    Method,
    header::{HeaderMap, HeaderValue, RANGE},
};
use serde::Serialize;
use tollhouse_protocol::{OpFailure, OpValue, RedirectMode, limits::REQUEST_BODY_BYTES};
use url::Position;

use super::{
    Redactor,
    failure::{self, invalid_argument},
    guard::{Fetch, Fetched, Redirects},
    http::{OutgoingRequest, check_header_count, is_of_host, parse_header_name},
};

/// Methods that no request can have (Fetch standard, forbidden method).
const FORBIDDEN_METHODS: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];

/// Maximum length of a method, in bytes.
const METHOD_BYTES: usize = 64;

/// Headers that `fetch` sends although `httpGetJson` does not: they describe a body, a part of one, or the caller.
const SENT_HEADERS: [&str; 4] = ["content-encoding", "content-type", "origin", "range"];

impl OutgoingRequest<'_> {
    pub(super) async fn send(
        &self,
        method: String,
        url: String,
        headers: Vec<(String, String)>,
        body: Bytes,
        redirect: RedirectMode,
    ) -> Result<OpValue, OpFailure> {
        let method = parse_method(&method)?;
        if body.len() > REQUEST_BODY_BYTES {
            let message = format!("the body of the request has {} bytes, and the maximum is {REQUEST_BODY_BYTES}", body.len());
            return Err(invalid_argument(message));
        }
        let headers = request_headers(&headers)?;
        let request = Fetch {
            method,
            // A part of a compressed body cannot be decoded (Fetch standard, HTTP-network-or-cache fetch).
            takes_compressed: !headers.contains_key(RANGE),
            headers,
            body: Some(body),
            redirects: redirects(redirect),
            ..self.get_request(&url, self.call.limits.http_wall_ms)
        };
        let fetched = self.exchange(request).await?;
        let head = self.head(&fetched)?;
        Ok(OpValue::Response { head, body: redacted(self.hidden, &fetched) })
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
