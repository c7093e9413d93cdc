//! The body of an answer on its way out, a frame at a time.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::pulse::{Answering, Moment};

/// Bytes of an answer that are handed to HTTP/2 at once: one frame. What it has it keeps until the client takes it,
/// and nobody can ask how long.
pub(super) const FRAME_BYTES: usize = 16 << 10;

tokio::task_local! {
    /// Since when the stream of HTTP/2 that this task serves waits for its client to take what is to be sent.
    pub(super) static WAITS: Arc<Moment>;
}

/// An answer's body on its way out.
pub(super) struct Outgoing {
    body: Body,
    answering: Answering,
    /// Bytes that are handed over at once, and those of the last frame that were not.
    most: usize,
    rest: Bytes,
    /// Of HTTP/2: since when what was handed over waits.
    waits: Option<Arc<Moment>>,
}

impl Outgoing {
    pub(super) fn new(body: Body, mut answering: Answering, http2: bool) -> Self {
        if body.is_end_stream() {
            answering.end();
        }
        let waits = WAITS.try_with(Arc::clone).ok();
        Self { body, answering, most: if http2 { FRAME_BYTES } else { usize::MAX }, rest: Bytes::new(), waits }
    }

    /// The next bytes of the body, or what else it has.
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                last => return Poll::Ready(last),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let data = self.rest.split_to(self.rest.len().min(self.most));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(waits) = &self.waits {
            waits.clear();
        }
        let next = ready!(self.next(cx));
        if !matches!(next, Some(Ok(_))) || self.is_end_stream() {
            self.answering.end();
        }
        if let Some(waits) = &self.waits {
            waits.set();
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let mut hint = self.body.size_hint();
        // Never below the lower bound.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
