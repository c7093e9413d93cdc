//! The body of a request, and the memory of its head.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::HeaderMap;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::{sync::oneshot, time::timeout};

use super::{
    chunks::ChunkCount,
    conn_state::{ConnState, UNCOUNTED_BYTES},
};
use crate::{api_error::ApiError, body::expects_continue, quota::QuotaShare};

/// Approximate memory of a header field beyond its name and value, in bytes.
const FIELD_BYTES: usize = 128;

/// Maximum bytes of an unread body to discard before its answer is sent, and the maximum time for that.
const REST_BYTES: u64 = 64 << 10;
const REST: Duration = Duration::from_millis(500);

/// A body that is being received.
pub(super) struct IncomingBody {
    /// `None` only while it is being dropped.
    body: Option<hyper::body::Incoming>,
    /// Gets the body if it is dropped before it is complete.
    rest: Option<oneshot::Sender<hyper::body::Incoming>>,
    /// The chunks of an HTTP/1 body, and the connection that pays for them. `None` if its length is known.
    chunks: Option<(ChunkCount, Arc<ConnState>)>,
}

/// Takes a share for a head from `hold`, if the head is worth counting. Keep the share until the request is answered.
///
/// # Errors
///
/// Errors of `hold`.
pub(super) fn head_share(
    head: &HeaderMap,
    hold: impl FnOnce(usize) -> Result<QuotaShare, ApiError>,
) -> Result<Option<QuotaShare>, ApiError> {
    let bytes = head_bytes(head);
    if bytes > UNCOUNTED_BYTES { hold(bytes).map(Some) } else { Ok(None) }
}

impl IncomingBody {
    /// Wraps a body that arrives on `conn`. For HTTP/2, also returns a channel that gets the body if it is dropped before
    /// it is complete.
    pub(super) fn new(
        body: hyper::body::Incoming,
        http2: bool,
        head: &HeaderMap,
        conn: &Arc<ConnState>,
    ) -> (Self, Option<oneshot::Receiver<hyper::body::Incoming>>) {
        if body.is_end_stream() {
            return (Self { body: Some(body), rest: None, chunks: None }, None);
        }
        let (rest, unread) = (http2 && !expects_continue(head)).then(oneshot::channel).unzip();
        let chunks = (!http2 && body.size_hint().exact().is_none()).then(|| (ChunkCount::default(), Arc::clone(conn)));
        (Self { body: Some(body), rest, chunks }, unread)
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        if let (Some(body), Some(rest)) = (self.body.take(), self.rest.take())
            && !body.is_end_stream()
        {
            // Nobody waits for the body of a canceled request.
            _ = rest.send(body);
        }
    }
}

/// Reads and discards the rest of a short HTTP/2 body. Otherwise the stream ends with `RST_STREAM` after the answer, and
/// the rest of the body arrives at a stream that no longer exists (RFC 9113, section 8.1).
pub(super) async fn discard(mut body: hyper::body::Incoming) {
    let mut remaining = REST_BYTES;
    if body.size_hint().lower() > remaining {
        return;
    }
    let discarded = async {
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            if bytes > remaining {
                break;
            }
            remaining -= bytes;
        }
    };
    _ = timeout(REST, discarded).await;
}

/// Estimates the memory of a head, in bytes.
pub(super) fn head_bytes(head: &HeaderMap) -> usize {
    head.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES).sum()
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body: Some(body), chunks, .. } = &mut *self else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some((count, conn))) = (&polled, chunks)
            && frame.data_ref().is_some_and(|chunk| count.is_overhead(chunk.len()))
        {
            conn.count_chunk();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::new, Body::size_hint)
    }
}
