//! `ctx.httpGetJson`: fetches a JSON document from an allowed host through the guard. Its limits and errors are those of
//! `fetch` too.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tollhouse_protocol::{HeaderFromEnv, OpFailure, OpValue};

use super::{
    AllowedHosts, CallGrants, Guard, Redactor,
    failure::{self, invalid_argument},
    guard::{Fetch, FetchError, Fetched, RecordedAnswers},
    response::OpenRequests,
    secret::Placeholders,
};

/// Maximum number of requests of one call that wait for a response at once. Further requests wait within their own
/// timeout.
const OPEN: usize = 6;
/// Maximum number and total size in bytes of the headers that a handler may set on a request.
const HEADERS: usize = 32;
const HEADER_BYTES: usize = 8 << 10;
/// Maximum length of a response header that is passed to the handler, in bytes.
const RESPONSE_HEADER_BYTES: usize = 2 << 10;

/// Request headers that a handler must not set: the host sets them, or they would change the nature of the request.
const REFUSED_HEADERS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "origin",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];
const REFUSED_PREFIXES: &[&str] = &["proxy-", "sec-", "x-forwarded-", ":"];

/// Response headers that a handler can see.
const SHOWN_HEADERS: &[&str] = &[
    "age",
    "cache-control",
    "content-language",
    "content-type",
    "date",
    "deprecation",
    "etag",
    "expires",
    "last-modified",
    "link",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "ratelimit-reset",
    "retry-after",
    "sunset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-request-id",
    "x-total-count",
];

/// The resources that one call has used.
pub(super) struct HttpCounters {
    used: AtomicU64,
    open: Semaphore,
    /// The requests of `fetch` that have not ended.
    pub(super) requests: OpenRequests,
}

impl Default for HttpCounters {
    fn default() -> Self {
        Self { used: AtomicU64::new(0), open: Semaphore::new(OPEN), requests: OpenRequests::default() }
    }
}

/// A call's access to the network, created for one op from the current grant.
pub(super) struct OutgoingRequest<'a> {
    pub(super) guard: &'a Guard,
    pub(super) hosts: AllowedHosts,
    /// Hosts that wait for an admin.
    pub(super) requested_hosts: AllowedHosts,
    pub(super) call: &'a CallGrants,
    pub(super) counters: &'a HttpCounters,
    /// Hides secrets that the handler must not see.
    pub(super) hidden: &'a Redactor,
    /// The placeholders that the handler got.
    pub(super) placeholders: Option<Placeholders<'a>>,
    /// Recorded responses to use instead of real servers.
    pub(super) recorded: Option<Arc<RecordedAnswers>>,
}

impl OutgoingRequest<'_> {
    pub(super) async fn get(
        &self,
        url: String,
        headers: Vec<(String, String)>,
        timeout_ms: Option<u64>,
        auth: Option<HeaderFromEnv>,
    ) -> Result<OpValue, OpFailure> {
        let limits = &self.call.limits;
        let mut headers = request_headers(&headers)?;
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        let credential = match auth {
            Some(auth) => self.authenticate(&auth, &mut headers)?,
            None => None,
        };
        let wall_ms = timeout_ms.unwrap_or(limits.http_wall_ms).min(limits.http_wall_ms);
        let fetched = self.exchange(Fetch { headers, credential, ..self.get_request(&url, wall_ms) }).await?;
        let json = answer(&fetched, self.hidden)?;
        // A server that received a secret may send it back, escaped in any way, so each string must be checked.
        match self.hidden.redact_json_text(&json) {
            Ok(redacted) => Ok(OpValue::Json(redacted.unwrap_or(json))),
            Err(_) => Err(failure::not_searchable(fetched.status.as_u16())),
        }
    }

    /// Returns a GET request of the call, without headers.
    pub(super) fn get_request<'u>(&'u self, url: &'u str, wall_ms: u64) -> Fetch<'u> {
        let body_bytes = usize::try_from(self.call.limits.http_body_bytes).unwrap_or(usize::MAX);
        Fetch {
            owner: self.call.owner.share(),
            hosts: Some(&self.hosts),
            placeholders: self.placeholders.as_ref(),
            recorded: self.recorded.clone(),
            ..Fetch::get(url, Duration::from_millis(wall_ms), body_bytes)
        }
    }

    /// Counts a request, waits for its turn, and sends it.
    async fn exchange(&self, request: Fetch<'_>) -> Result<Fetched, OpFailure> {
        self.in_turn(request.wall, self.guard.fetch(request)).await
    }

    /// Counts a request, waits for its turn, and performs it within its time.
    pub(super) async fn in_turn<T>(&self, wall: Duration, send: impl Future<Output = Result<T, FetchError>>) -> Result<T, OpFailure> {
        let max = self.call.limits.http_requests;
        if self.counters.used.fetch_add(1, Ordering::Relaxed) >= max {
            return Err(failure::quota_exceeded(format!("the call has reached its limit on requests to other servers, {max}")));
        }
        let sent = async {
            let _turn = self.counters.open.acquire().await.map_err(|_| FetchError::Unreachable("the call has ended".into()))?;
            send.await
        };
        let sent = tokio::time::timeout(wall, sent).await.unwrap_or(Err(FetchError::Timeout(wall.as_millis())));
        sent.map_err(|error| self.failed(error))
    }

    /// Converts an error. Its message can contain data from a server that received a secret, for example the host that a
    /// redirect leads to, in lower case.
    pub(super) fn failed(&self, error: FetchError) -> OpFailure {
        let (code, hidden) = (error.code(), self.hidden.ignoring_case());
        let error = match error {
            // The names were cut, possibly within a secret.
            FetchError::Encoded(names) => FetchError::Encoded(hidden.redact_cut(&names).into_owned()),
            other => other,
        };
        let message = match &error {
            FetchError::HostNotAllowed(host) if self.requested_hosts.allows_at_any_port(host) => {
                format!("the host `{host}` in `allowedHosts` waits for an admin")
            }
            other => other.to_string(),
        };
        OpFailure::new(code, hidden.redact(&message))
    }

    /// Returns the header with a granted secret. If the secret has hosts, adds its placeholder to `headers` instead, in
    /// whose place the guard puts the value.
    fn authenticate(&self, auth: &HeaderFromEnv, headers: &mut HeaderMap) -> Result<Option<(HeaderName, HeaderValue)>, OpFailure> {
        let name = header_name(&auth.header)?;
        let Some(secret) = self.call.secrets.iter().find(|secret| secret.name == auth.env) else {
            return Err(failure::no_secret(&auth.env));
        };
        let text = secret.placeholder.as_ref().map_or(secret.value.as_str(), |placeholder| placeholder.text.as_str());
        let mut value =
            HeaderValue::from_str(text).map_err(|_| invalid_argument(format!("the secret `{}` cannot be sent in a header", auth.env)))?;
        value.set_sensitive(true);
        if secret.placeholder.is_some() {
            headers.append(name, value);
            return Ok(None);
        }
        Ok(Some((name, value)))
    }
}

/// Refuses more headers than a request can have.
pub(super) fn check_header_count(request: &[(String, String)]) -> Result<(), OpFailure> {
    let bytes: usize = request.iter().map(|(name, value)| name.len() + value.len()).sum();
    if request.len() > HEADERS || bytes > HEADER_BYTES {
        return Err(invalid_argument(format!(
            "the request has {} headers with {bytes} bytes, and the maximum is {HEADERS} headers and {HEADER_BYTES} bytes",
            request.len()
        )));
    }
    Ok(())
}

fn request_headers(request: &[(String, String)]) -> Result<HeaderMap, OpFailure> {
    check_header_count(request)?;
    let mut headers = HeaderMap::new();
    for (name, value) in request {
        let value = HeaderValue::from_str(value)
            .map_err(|_| invalid_argument(format!("the value of the header `{name}` has characters that a header cannot have")))?;
        headers.append(header_name(name)?, value);
    }
    Ok(headers)
}

fn header_name(name: &str) -> Result<HeaderName, OpFailure> {
    let parsed = parse_header_name(name)?;
    if is_of_host(&parsed) { Err(invalid_argument(format!("only the host can set the header `{parsed}`"))) } else { Ok(parsed) }
}

pub(super) fn parse_header_name(name: &str) -> Result<HeaderName, OpFailure> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid_argument(format!("`{name}` is not a header name")))
}

/// Returns whether a handler must not set the header on a request of `httpGetJson`.
pub(super) fn is_of_host(name: &HeaderName) -> bool {
    REFUSED_HEADERS.contains(&name.as_str()) || REFUSED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
}

#[derive(Serialize)]
struct Answer<'a> {
    status: u16,
    headers: std::collections::BTreeMap<&'a str, String>,
    json: Option<&'a RawValue>,
}

/// Converts a response to JSON for the handler. It is not redacted, but errors are.
fn answer(fetched: &Fetched, hidden: &Redactor) -> Result<Bytes, OpFailure> {
    let not_json = |reason: &str| failure::not_json(fetched.status.as_u16(), reason);
    let json = if fetched.body.is_empty() {
        None
    } else {
        if fetched.declares_other() {
            // Redacted before it is shortened and converted to lower case.
            let declared = fetched.content_type().map(|declared| hidden.ignoring_case().redact(&declared).into_owned());
            let kind = declared.and_then(|declared| media_type(&declared)).unwrap_or_default();
            return Err(not_json(&format!("is `{kind}`, not JSON")));
        }
        let text = std::str::from_utf8(&fetched.body).map_err(|_| not_json("is not UTF-8"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Some(serde_json::from_str::<&RawValue>(text).map_err(|_| not_json("is not JSON"))?)
    };
    let mut headers = std::collections::BTreeMap::new();
    for (name, value) in &fetched.headers {
        if let Some(value) =
            value.to_str().ok().filter(|value| SHOWN_HEADERS.contains(&name.as_str()) && value.len() <= RESPONSE_HEADER_BYTES)
        {
            headers
                .entry(name.as_str())
                .and_modify(|all: &mut String| *all = format!("{all}, {value}"))
                .or_insert_with(|| value.to_owned());
        }
    }
    let answer = Answer { status: fetched.status.as_u16(), headers, json };
    serde_json::to_vec(&answer).map(Bytes::from).map_err(|_| not_json("is not JSON"))
}

impl Fetched {
    /// Returns whether the response declares that it is JSON.
    pub fn is_json(&self) -> bool {
        self.kind().is_some_and(|kind| is_json(&kind))
    }

    /// Returns whether the response declares that it is something other than JSON. If not, its bytes decide, because
    /// many servers label JSON as plain text, a script or unspecified bytes.
    pub(super) fn declares_other(&self) -> bool {
        self.kind().is_some_and(|kind| !is_json(&kind) && !kind.starts_with("text/") && !VAGUE.contains(&kind.as_str()))
    }

    /// Returns whether the response declares this media type.
    pub(super) fn is_of_type(&self, essence: &str) -> bool {
        self.kind().is_some_and(|kind| kind == essence)
    }

    fn kind(&self) -> Option<String> {
        self.content_type().and_then(|declared| media_type(&declared))
    }

    fn content_type(&self) -> Option<Cow<'_, str>> {
        Some(String::from_utf8_lossy(self.headers.get(CONTENT_TYPE)?.as_bytes()))
    }
}

/// Returns the media type of a `content-type` in lower case without parameters, if there is one.
fn media_type(declared: &str) -> Option<String> {
    let essence: String = declared.split(';').next().unwrap_or_default().trim().chars().take(KIND_CHARS).collect();
    Some(essence.to_ascii_lowercase()).filter(|essence| !essence.is_empty())
}

/// Media types that servers use for JSON without declaring it.
const VAGUE: &[&str] = &[
    "application/javascript",
    "application/octet-stream",
    "application/unknown",
    "application/x-javascript",
    "application/x-json",
    "binary/octet-stream",
];

/// Maximum number of characters of a media type that are examined.
const KIND_CHARS: usize = 100;

fn is_json(kind: &str) -> bool {
    matches!(kind, "application/json" | "text/json") || (kind.starts_with("application/") && kind.ends_with("+json"))
}

#[cfg(test)]
mod tests;
