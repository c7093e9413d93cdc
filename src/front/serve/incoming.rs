//! The body of a request on its way in, with what its head holds until then.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::http::HeaderMap;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::{fault::Fault, quota::Share};

/// About how many bytes of memory a header field takes beside its name and value.
const FIELD_BYTES: usize = 128;

/// Heads of so many bytes are not counted: what a connection may have under way bounds them.
const UNCOUNTED_BYTES: usize = 4 << 10;

/// A body that is being received.
pub(super) struct Incoming {
    body: hyper::body::Incoming,
    /// The memory that the head takes while the body is not there, if it is worth counting.
    head: Option<Share>,
}

impl Incoming {
    /// Counts the head of a request whose body is still to come, which `hold` takes a share for, and gives that back when the body has
    /// ended.
    ///
    /// # Errors
    ///
    /// Those of `hold`.
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

/// About how many bytes of memory a head takes.
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
