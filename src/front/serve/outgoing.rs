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
use crate::quota::Share;

/// Bytes of an answer that are handed to HTTP/2 at once: one frame. What it has it keeps until the client takes it,
/// and nobody can ask how long.
pub(super) const FRAME_BYTES: usize = 16 << 10;

/// Bytes that an answer takes beside its body until its client has taken it: its stream, its task, its head.
const BESIDE_BYTES: usize = 8 << 10;

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
    /// Of the memory for answers: what the answer takes, but for what was handed over.
    share: Share,
    /// Bytes of the body that are in the share.
    counted: usize,
}

/// Bytes that were handed over, which count as held until their last copy is gone.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Outgoing {
    /// `share` is nothing yet of the memory for answers.
    pub(super) fn new(body: Body, mut answering: Answering, http2: bool, mut share: Share) -> Self {
        let mut counted = 0;
        if body.is_end_stream() {
            answering.end();
        } else {
            let exact = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
            // A stream has no end yet, however soon its client takes what there is of it.
            if exact.is_some() {
                answering.made();
            }
            counted = exact.unwrap_or_default();
            share.take_beyond(counted + BESIDE_BYTES);
        }
        let waits = WAITS.try_with(Arc::clone).ok();
        Self { body, answering, most: if http2 { FRAME_BYTES } else { usize::MAX }, rest: Bytes::new(), waits, share, counted }
    }

    /// The bytes, with their part of the share. What comes of a body of unknown length is counted from here on.
    fn held(&mut self, bytes: Bytes) -> Bytes {
        let counted = self.counted.min(bytes.len());
        self.counted -= counted;
        let mut share = self.share.split(counted);
        share.take_beyond(bytes.len() - counted);
        Bytes::from_owner(Held { bytes, _share: share })
    }

    /// The next bytes of the body, or what else it has.
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                last => return Poll::Ready(last),
            };
            match frame.into_data() {
                Ok(data) => self.rest = self.held(data),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let data = self.rest.split_to(self.rest.len().min(self.most));
        self.answering.sends(data.len());
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
