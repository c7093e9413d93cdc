//! JSON requests over HTTP to configured servers.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, Url, header::HeaderMap, redirect};
use serde_json::Value;
use tollhouse_base::error_chain::full_message;
use tollhouse_telemetry as telemetry;

use crate::ConfigError;

/// Default maximum size of an answer, in bytes.
pub(crate) const MAX_ANSWER_BYTES: usize = 256 << 10;

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// Sends requests, and reads answers within limits.
#[derive(Debug)]
pub(crate) struct JsonClient(Client);

/// The result of a request.
#[derive(Debug)]
pub(crate) enum HttpAnswer {
    Json(StatusCode, Value),
    /// There was no connection: nothing was sent.
    Unsent(String),
    /// There was no readable answer. The request may have arrived.
    Nothing(String),
    /// The answer exceeds the maximum size.
    TooLarge(String),
}

/// Parses a URL to which a [`JsonClient`] can send requests. Such a URL has a host.
pub(crate) fn web_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

impl JsonClient {
    pub(crate) fn new() -> Result<Self, ConfigError> {
        let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).connect_timeout(CONNECT).build();
        Ok(Self(client.map_err(|error| ConfigError::Client(error.to_string()))?))
    }

    pub(crate) async fn post(&self, url: &str, headers: HeaderMap, body: &Value, timeout: Duration) -> HttpAnswer {
        self.post_for(url, headers, body, timeout, MAX_ANSWER_BYTES).await
    }

    /// Like [`Self::post`], with an answer of up to `max_bytes`.
    pub(crate) async fn post_for(&self, url: &str, headers: HeaderMap, body: &Value, timeout: Duration, max_bytes: usize) -> HttpAnswer {
        answered(traced(self.0.post(url).headers(headers).json(body)), timeout, max_bytes).await
    }

    pub(crate) async fn get(&self, url: &str, headers: HeaderMap, timeout: Duration) -> HttpAnswer {
        answered(traced(self.0.get(url).headers(headers)), timeout, MAX_ANSWER_BYTES).await
    }
}

/// Adds the trace context of the current call to a request.
fn traced(request: RequestBuilder) -> RequestBuilder {
    let Some((parent, state)) = telemetry::onward() else { return request };
    let request = request.header("traceparent", parent);
    match state {
        Some(state) => request.header("tracestate", state),
        None => request,
    }
}

async fn answered(request: RequestBuilder, timeout: Duration, max_bytes: usize) -> HttpAnswer {
    let answer = async {
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Ok(HttpAnswer::Unsent(named(error))),
            Err(error) => return Err(HttpAnswer::Nothing(named(error))),
        };
        let nothing = |error| HttpAnswer::Nothing(named(error));
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(nothing)? {
            if bytes.len() + chunk.len() > max_bytes {
                return Err(HttpAnswer::TooLarge(format!("answer is larger than {max_bytes} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        let status = response.status();
        let body = serde_json::from_slice(&bytes).map_err(|_| HttpAnswer::Nothing(format!("answered {status} without JSON")))?;
        Ok(HttpAnswer::Json(status, body))
    };
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(answer) | Err(answer)) => answer,
        Err(_) => HttpAnswer::Nothing(format!("no answer within {} s", timeout.as_secs())),
    }
}

/// Formats an error with its causes, without the URL, which may contain a node's key.
fn named(error: reqwest::Error) -> String {
    full_message(&error.without_url())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    async fn post(url: &str) -> HttpAnswer {
        JsonClient::new().unwrap().post(url, HeaderMap::new(), &Value::Null, Duration::from_secs(10)).await
    }

    /// Returns the answer parsed from `message`, after which the connection ends.
    async fn answer_to(message: &'static str) -> HttpAnswer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/with-a-key", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            assert_ne!(connection.read(&mut [0; 4_096]).await.unwrap(), 0);
            connection.write_all(message.as_bytes()).await.unwrap();
        });
        post(&url).await
    }

    #[tokio::test]
    async fn only_a_refused_connection_counts_as_unsent() {
        let HttpAnswer::Unsent(reason) = post("http://127.0.0.1:1/with-a-key").await else { panic!("somebody answered") };
        assert!(reason.contains("refused") && !reason.contains("with-a-key"), "its cause, and not its address: {reason}");
        for cut_off in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{"] {
            let answer = answer_to(cut_off).await;
            assert!(matches!(&answer, HttpAnswer::Nothing(reason) if !reason.contains("with-a-key")), "{cut_off}: {answer:?}");
        }
    }
}
