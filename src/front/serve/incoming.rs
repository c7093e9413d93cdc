//! The body of a request, which also holds the memory share of the head.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::http::HeaderMap;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::{fault::Fault, quota::Share};

/// Approximate memory of a header field beyond its name and value, in bytes.
const FIELD_BYTES: usize = 128;

/// Heads up to this size are not counted. The limit on concurrent requests bounds them.
const UNCOUNTED_BYTES: usize = 4 << 10;

/// A body that is being received.
pub(super) struct Incoming {
    body: hyper::body::Incoming,
    /// The memory share of the head until the body is complete, if it is worth counting.
    head: Option<Share>,
}

impl Incoming {
    /// Wraps a body. If the body is incomplete, takes a share for the head from `hold` and releases it when the body
    /// ends.
    ///
    /// # Errors
    ///
    /// Errors of `hold`.
    pub(super) fn new(
        body: hyper::body::Incoming,
        head: &HeaderMap,
        hold: impl FnOnce(usize) -> Result<Share, Fault>,
    ) -> Result<Self, Fault> {
        let bytes = head_bytes(head);
        if body.is_end_stream() || bytes <= UNCOUNTED_BYTES {
            return Ok(Self { body, head: None });
        }
        Ok(Self { body, head: Some(hold(bytes)?) })
    }
}

/// Estimates the memory of a head, in bytes.
fn head_bytes(head: &HeaderMap) -> usize {
    head.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES).sum()
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) || self.body.is_end_stream() {
            self.head = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
