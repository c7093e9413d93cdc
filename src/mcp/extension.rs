//! x402's extension for MCP, `org.x402/payment`: a challenge is a result of its own kind, for clients that declare it.
//!
//! rmcp has no such kind of result. A challenge is first made as for everybody, and told anew on its way out: that of a plain
//! call by [`challenge`], rmcp's answers as they pass.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::StreamExt as _;
use rmcp::model::{CallToolResponse, ClientCapabilities};
use serde_json::{Value, json};

use super::answer::is_challenge;

/// As clients and this server declare it.
pub(super) const EXTENSION: &str = "org.x402/payment";

/// Whether a client knows the extension.
pub(super) fn declared(client: &ClientCapabilities) -> bool {
    client.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(EXTENSION))
}

/// The challenge in a result, as the extension has it; `None` when it is none.
pub(super) fn challenge(response: &CallToolResponse) -> Option<Value> {
    let CallToolResponse::Complete(result) = response else { return None };
    is_challenge(result.meta.as_ref()?).then(|| told(json!(result)))
}

fn told(mut result: Value) -> Value {
    json!({ "resultType": "payment_required", "paymentRequired": result["structuredContent"].take(), "_meta": result["_meta"].take() })
}

/// Mark of a request on its way through rmcp: set when its client turns out to know the extension.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<AtomicBool>);

impl Known {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// rmcp's answer, with the challenge in it told anew if the client knows the extension.
    pub(super) async fn pass(self, response: Response) -> Response {
        let content = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if content.starts_with(b"text/event-stream") {
            return response.map(|body| self.pass_events(body));
        }
        if !self.0.load(Ordering::Relaxed) {
            return response;
        }
        let (mut head, body) = response.into_parts();
        match axum::body::to_bytes(body, usize::MAX).await {
            Ok(message) => {
                head.headers.remove(header::CONTENT_LENGTH);
                Response::from_parts(head, Body::from(anew(&message).map_or(message, Bytes::from)))
            }
            Err(error) => Response::from_parts(head, Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>(error)]))),
        }
    }

    fn pass_events(self, body: Body) -> Body {
        let mut events = Events::default();
        // The client is known before the first event.
        Body::from_stream(body.into_data_stream().map(move |chunk| {
            let chunk = chunk?;
            Ok::<_, axum::Error>(if self.0.load(Ordering::Relaxed) { events.pass(&chunk) } else { chunk })
        }))
    }
}

/// A message with its challenge told anew; `None` when it has none.
fn anew(message: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(message).ok()?;
    let result = message.get_mut("result")?;
    let meta = serde_json::from_value(result.get("_meta")?.clone()).ok()?;
    if !is_challenge(&meta) {
        return None;
    }
    *result = told(result.take());
    serde_json::to_vec(&message).ok()
}

/// A stream of events, cut into whole ones.
#[derive(Default)]
struct Events {
    begun: Vec<u8>,
}

impl Events {
    /// The events that `chunk` ends.
    fn pass(&mut self, chunk: &[u8]) -> Bytes {
        self.begun.extend_from_slice(chunk);
        let mut whole = vec![];
        while let Some(end) = self.begun.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.begun.drain(..end + 2).collect();
            // rmcp writes a message in one line.
            let message = event.trim_ascii().strip_prefix(b"data:").and_then(anew);
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
    fn events_are_cut_where_they_end() {
        let challenged = r#"{"id":1,"result":{"structuredContent":{"a":1},"_meta":{"x402/error":{}}}}"#;
        let text = format!(":\n\ndata: {{\"method\":\"m\"}}\n\ndata: {challenged}\n\n");
        for size in 1..text.len() {
            let mut events = Events::default();
            let passed: Vec<u8> = text.as_bytes().chunks(size).flat_map(|chunk| events.pass(chunk)).collect();
            let passed = String::from_utf8(passed).unwrap();
            let told = passed.strip_prefix(":\n\ndata: {\"method\":\"m\"}\n\ndata: ").unwrap();
            let told: Value = serde_json::from_str(told).unwrap();
            assert_eq!(told["result"]["paymentRequired"], json!({ "a": 1 }));
            assert!(events.begun.is_empty() && passed.ends_with("\n\n"));
        }
    }
}
