//! Sends requests to the collector, with a timeout.

use std::{fmt, time::Duration};

use reqwest::{
    Client, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde_json::Value;
use tokio::time::sleep;
use url::Url;

/// Timeout for an answer of the collector.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before a request is retried after a temporary failure.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum length of an answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// The destination of one signal.
#[derive(Clone)]
pub struct Destination {
    /// The complete URL.
    pub url: Url,
    /// Headers sent with each request, such as an API key.
    pub headers: Vec<(String, String)>,
}

/// Omits everything that could be secret.
impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").finish_non_exhaustive()
    }
}

pub(super) struct Collector {
    client: Client,
    traces: Option<Address>,
    metrics: Option<Address>,
}

struct Address {
    url: Url,
    headers: HeaderMap,
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum SendOutcome {
    /// Accepted, except for `refused` items.
    Taken { refused: u64 },
    /// The signal has no destination.
    Nowhere,
    /// Failed, with the reason for the log.
    Failed(String),
}

impl Collector {
    pub(super) fn new(traces: Option<&Destination>, metrics: Option<&Destination>) -> Result<Self, String> {
        let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).timeout(TIMEOUT).build();
        let client = client.map_err(|error| error.to_string())?;
        let header = |(name, value): &(String, String)| {
            // The value could be a key, so it is not repeated.
            let wrong = || format!("the header `{name}` for the collector cannot be sent");
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value))
        };
        let address = |to: &Destination| {
            let headers = to.headers.iter().map(header).collect::<Result<_, String>>()?;
            Ok::<_, String>(Address { url: to.url.clone(), headers })
        };
        Ok(Self { client, traces: traces.map(address).transpose()?, metrics: metrics.map(address).transpose()? })
    }

    pub(super) async fn send(&self, signal: &str, body: &Value) -> SendOutcome {
        let address = if signal == "traces" { &self.traces } else { &self.metrics };
        let Some(address) = address else { return SendOutcome::Nowhere };
        match self.once(address, body).await {
            Err((_, true)) => {
                sleep(AGAIN).await;
                self.once(address, body).await.unwrap_or_else(|(reason, _)| SendOutcome::Failed(reason))
            }
            Err((reason, false)) => SendOutcome::Failed(reason),
            Ok(sent) => sent,
        }
    }

    /// Sends a request once. Fails with the reason and whether it may be temporary.
    async fn once(&self, address: &Address, body: &Value) -> Result<SendOutcome, (String, bool)> {
        let request = self.client.post(address.url.clone()).headers(address.headers.clone()).json(body);
        // Omit the address, which may contain a key.
        let answer = request.send().await.map_err(|error| (error.without_url().to_string(), true))?;
        let status = answer.status();
        if !status.is_success() {
            let passes =
                [StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
            return Err((format!("it answered {status}"), passes.contains(&status)));
        }
        if answer.content_length().is_none_or(|bytes| bytes > MAX_ANSWER_BYTES) {
            return Ok(SendOutcome::Taken { refused: 0 });
        }
        let response = answer.bytes().await.unwrap_or_default();
        let response: Value = serde_json::from_slice(&response).unwrap_or_default();
        Ok(SendOutcome::Taken { refused: refused(&response) })
    }
}

/// Returns the number of items that the collector rejected in an accepted request.
fn refused(message: &Value) -> u64 {
    let partial = &message["partialSuccess"];
    let reported = ["rejectedSpans", "rejectedDataPoints"].into_iter().find_map(|name| partial.get(name));
    reported.and_then(|reported| reported.as_u64().or_else(|| reported.as_str()?.parse().ok())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejected_spans_are_counted() {
        assert_eq!(refused(&json!({ "partialSuccess": { "rejectedSpans": "3" } })), 3);
        assert_eq!(refused(&json!({ "partialSuccess": { "rejectedDataPoints": 4 } })), 4);
        assert_eq!(refused(&json!({})), 0);
    }

    #[test]
    fn error_does_not_repeat_an_invalid_header() {
        let headers = vec![("a-key".to_owned(), "se\ncret".to_owned())];
        let to = Destination { url: Url::parse("http://127.0.0.1:4318").unwrap(), headers };
        let reason = Collector::new(Some(&to), None).err().unwrap();
        assert!(reason.contains("`a-key`") && !reason.contains("cret"), "{reason}");
    }
}
