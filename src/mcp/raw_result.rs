//! The request data that rmcp does not pass on, and results as raw JSON, because rmcp's types hold parsed values.
//!
//! A `serde_json` value loses digits of numbers beyond 64 bits and duplicate fields, and rmcp has no result type for
//! challenges of x402's extension. So the result is serialized here. rmcp carries an empty result through its revisions
//! and streams, and the serialized one replaces it on the way out.

use std::sync::{Arc, OnceLock};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::StreamExt as _;
use rmcp::model::{JsonRpcResponse, JsonRpcVersion2_0, RequestId};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::arguments::Arguments;

/// Travels with a request through rmcp.
#[derive(Debug, Clone)]
pub(super) struct RawRequest {
    /// Whether the response cannot be a stream, so it contains only the result.
    pub(super) json_only: bool,
    /// The arguments of a call as they were sent, unless the message has duplicate fields.
    pub(super) arguments: Option<Arguments>,
    /// Whether there is a cursor. rmcp ignores one that is not text.
    pub(super) has_cursor: bool,
    result: Arc<OnceLock<Box<RawValue>>>,
}

/// The fields by which a response differs from a notification.
#[derive(Deserialize)]
struct AnsweredMessage {
    id: RequestId,
    #[serde(rename = "result")]
    _result: IgnoredAny,
}

impl RawRequest {
    pub(super) fn new(json_only: bool, arguments: Option<Arguments>, has_cursor: bool) -> Self {
        Self { json_only, arguments, has_cursor, result: Arc::default() }
    }

    /// Sets the result that replaces rmcp's.
    pub(super) fn set_result(&self, result: Box<RawValue>) {
        _ = self.result.set(result);
    }

    /// Replaces the result in rmcp's response, if one was set.
    pub(super) async fn replace_result(self, response: Response) -> Response {
        let content = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if content.starts_with(b"text/event-stream") {
            return response.map(|body| self.replace_in_events(body));
        }
        let Some(result) = self.result.get() else { return response };
        let (mut head, body) = response.into_parts();
        match axum::body::to_bytes(body, usize::MAX).await {
            Ok(message) => {
                head.headers.remove(header::CONTENT_LENGTH);
                Response::from_parts(head, Body::from(with_result(&message, result).map_or(message, Bytes::from)))
            }
            Err(error) => Response::from_parts(head, Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>(error)]))),
        }
    }

    fn replace_in_events(self, body: Body) -> Body {
        let mut events = EventSplitter::default();
        Body::from_stream(body.into_data_stream().map(move |chunk| {
            let chunk = chunk?;
            Ok::<_, axum::Error>(events.pass(&chunk, self.result.get().map(Box::as_ref)))
        }))
    }
}

/// Replaces the result of a response. Returns `None` for any other message.
fn with_result(message: &[u8], result: &RawValue) -> Option<Vec<u8>> {
    let AnsweredMessage { id, .. } = serde_json::from_slice(message).ok()?;
    serde_json::to_vec(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result }).ok()
}

/// Splits a stream into whole events.
#[derive(Default)]
struct EventSplitter {
    started: Vec<u8>,
}

impl EventSplitter {
    /// Returns the events that `chunk` completes. A result is always set before the event that it replaces.
    fn pass(&mut self, chunk: &[u8], result: Option<&RawValue>) -> Bytes {
        self.started.extend_from_slice(chunk);
        let mut whole = vec![];
        while let Some(end) = self.started.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.started.drain(..end + 2).collect();
            // rmcp writes each message on one line.
            let message = event.trim_ascii().strip_prefix(b"data:").zip(result).and_then(|(message, result)| with_result(message, result));
            match message {
                Some(message) => {
                    whole.extend_from_slice(b"data: ");
                    whole.extend(message);
                    whole.extend_from_slice(b"\n\n");
                }
                None => whole.extend(event),
            }
        }
        Bytes::from(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_split_at_their_end_and_only_the_result_is_replaced() {
        let text = ":\n\ndata: {\"method\":\"m\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":[1]}}\n\n";
        let result = RawValue::from_string("{\"n\":1e400,\"n\":12345678901234567890.10}".to_owned()).unwrap();
        for size in 1..text.len() {
            let mut events = EventSplitter::default();
            let passed: Vec<u8> = text.as_bytes().chunks(size).flat_map(|chunk| events.pass(chunk, Some(&result))).collect();
            let requested =
                format!(":\n\ndata: {{\"method\":\"m\"}}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}}\n\n", result.get());
            assert_eq!(String::from_utf8(passed).unwrap(), requested);
            assert!(events.started.is_empty());
            let untouched: Vec<u8> = text.as_bytes().chunks(size).flat_map(|chunk| events.pass(chunk, None)).collect();
            assert_eq!(untouched, text.as_bytes());
        }
    }
}
