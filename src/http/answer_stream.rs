//! Answers of tools, whole or as they come.

use std::{io, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::{sync::oneshot, time::timeout};
use tollhouse_call::{Call, CompletedCall, StreamedAnswer, StreamedChunks};

use crate::{Answer, HeaderValue, Response, Services, header, reply};

/// A comment, which readers of events ignore (HTML, section 9.2.6).
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n");

/// Performs a call of a caller who takes a streamed answer.
pub(super) async fn perform(http: &Services, mut call: Call) -> Answer {
    let (sender, opened) = oneshot::channel();
    call.stream = Some(sender);
    tokio::select! {
        biased;
        Ok(streamed) = opened => Ok(response(streamed)),
        // Dropping it does not stop the call.
        done = http.calls.perform(call) => Ok(reply::without_body(&done?)),
    }
}

/// Returns the response of a streamed answer. Caches do not store it and proxies do not buffer it.
fn response(answer: StreamedAnswer) -> Response {
    let StreamedAnswer { head, payment, heartbeat, chunks } = answer;
    let mut response = reply::without_body(&CompletedCall { answer: Arc::new(head), payment, success: true, first: false });
    let headers = response.headers_mut();
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    let events = |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream");
    let heartbeat = headers.get(header::CONTENT_TYPE).is_some_and(events).then_some(heartbeat);
    let reader = Reader { chunks, heartbeat, at_line: true, is_over: false };
    let bytes = stream::unfold(reader, |mut reader: Reader| async move {
        let next = reader.next().await?;
        Some((next, reader))
    });
    *response.body_mut() = Body::from_stream(bytes);
    response
}

/// Reads a streamed answer.
struct Reader {
    chunks: StreamedChunks,
    /// Interval of comments. `None` for types that have none.
    heartbeat: Option<Duration>,
    /// Whether a line begins here, so that a comment damages nothing.
    at_line: bool,
    is_over: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.is_over {
            return None;
        }
        let next = match self.heartbeat.filter(|_| self.at_line) {
            Some(heartbeat) => match timeout(heartbeat, self.chunks.next()).await {
                Ok(next) => next,
                Err(_) => return Some(Ok(COMMENT)),
            },
            None => self.chunks.next().await,
        };
        match next.transpose()? {
            Ok(chunk) => {
                // After a carriage return, the other half of the line break can follow.
                self.at_line = chunk.ends_with(b"\n");
                Some(Ok(chunk))
            }
            // The connection closes without the end of the body.
            Err(error) => {
                self.is_over = true;
                Some(Err(error))
            }
        }
    }
}
