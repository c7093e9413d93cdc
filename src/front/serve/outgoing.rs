//! The body of a response, sent frame by frame.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, HttpBody},
    http::{HeaderMap, HeaderValue},
    response::Response,
};
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::{
    conn_state::{AnswerGuard, SharedInstant},
    incoming::head_bytes,
};
use crate::{header_names, quota::QuotaShare};

/// Bytes of a response passed to HTTP/2 at once: one frame. HTTP/2 keeps them until the client reads them, and does not
/// report for how long.
pub(super) const FRAME_BYTES: usize = 16 << 10;

/// Memory of a response beyond its body until the client has read it, in bytes: its stream, task and head.
const OVERHEAD_BYTES: usize = 8 << 10;

tokio::task_local! {
    /// When the HTTP/2 stream of this task began to wait for its client to read.
    pub(super) static WAITS: Arc<SharedInstant>;
}

/// The body of a response that is being sent.
pub(super) struct OutgoingBody {
    body: Body,
    answering: AnswerGuard,
    /// Maximum bytes passed on at once, and the rest of the last frame.
    max: usize,
    rest: Bytes,
    /// For HTTP/2: when the bytes passed on began to wait.
    waits: Option<Arc<SharedInstant>>,
    /// The share of the memory for answers, without the bytes passed on.
    share: QuotaShare,
    /// Bytes of the body that the share includes.
    counted: usize,
}

/// Bytes passed on, which count as held until their last copy is dropped.
struct HeldBytes {
    bytes: Bytes,
    _share: QuotaShare,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Wraps the body of a response. `share` is an empty share of the memory for answers.
pub(super) fn outgoing(answer: Response, answering: AnswerGuard, http2: bool, share: QuotaShare) -> Response<OutgoingBody> {
    let (mut head, body) = answer.into_parts();
    let is_empty = body.is_end_stream();
    let mut body = OutgoingBody::new(body, answering, http2, share);
    if http2 {
        body.hold_head(&mut head.headers, is_empty);
    }
    Response::from_parts(head, body)
}

impl OutgoingBody {
    /// Wraps a body. `share` is an empty share of the memory for answers.
    fn new(body: Body, mut answering: AnswerGuard, http2: bool, mut share: QuotaShare) -> Self {
        let mut counted = 0;
        if body.is_end_stream() {
            answering.end();
        } else {
            let exact = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
            // A stream may continue, however fast its client reads.
            if exact.is_some() {
                answering.complete();
            }
            counted = exact.unwrap_or_default();
            share.take_over_limit(counted + OVERHEAD_BYTES);
        }
        let waits = WAITS.try_with(Arc::clone).ok();
        Self { body, answering, max: if http2 { FRAME_BYTES } else { usize::MAX }, rest: Bytes::new(), waits, share, counted }
    }

    /// Counts an HTTP/2 head until it is written, which can be after the body was passed on. The value of a header holds
    /// the share, because h2 drops the value then. A sensitive value gets no entry in the header table of the connection,
    /// which would keep it.
    fn hold_head(&mut self, head: &mut HeaderMap, is_empty: bool) {
        let bytes = head_bytes(head);
        let Some(id) = head.get_mut(&header_names::REQUEST_ID) else { return };
        // The overhead of a body includes its head.
        let mut share = self.share.split(if is_empty { 0 } else { bytes.min(OVERHEAD_BYTES) });
        if is_empty {
            share.take_over_limit(bytes);
        }
        let held = HeldBytes { bytes: Bytes::copy_from_slice(id.as_bytes()), _share: share };
        if let Ok(mut held) = HeaderValue::from_maybe_shared(Bytes::from_owner(held)) {
            held.set_sensitive(true);
            *id = held;
        }
    }

    /// Returns the bytes with their part of the share. Bytes of a body of unknown length are counted from here on.
    fn held(&mut self, bytes: Bytes) -> Bytes {
        let counted = self.counted.min(bytes.len());
        self.counted -= counted;
        let mut share = self.share.split(counted);
        share.take_over_limit(bytes.len() - counted);
        Bytes::from_owner(HeldBytes { bytes, _share: share })
    }

    /// Returns the next bytes or trailers of the body.
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
        let data = self.rest.split_to(self.rest.len().min(self.max));
        self.answering.sends(data.len());
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl HttpBody for OutgoingBody {
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
        // The upper bound must not be below the lower bound.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::http::header;

    use super::*;
    use crate::{quota::Quota, serve::conn_state::ConnState};

    /// Returns the bytes held for the head of an answer, after its body is gone.
    fn held_for_head(body: Body, http2: bool) -> usize {
        let quota = Quota::new(None, None);
        let mut response = Response::new(body);
        response.headers_mut().insert(&header_names::REQUEST_ID, HeaderValue::from_static("req_1"));
        response.headers_mut().insert(header::LOCATION, HeaderValue::try_from("a".repeat(1_000)).unwrap());
        let share = quota.share(Ipv4Addr::LOCALHOST.into());
        let (head, body) = outgoing(response, ConnState::new().begin(http2), http2, share).into_parts();
        drop(body);
        let held = quota.used();
        assert_eq!(head.headers.get(&header_names::REQUEST_ID).unwrap(), "req_1");
        drop(head);
        assert_eq!(quota.used(), 0, "the head is written");
        held
    }

    #[test]
    fn http2_head_counts_until_it_is_written() {
        for text in ["", "text"] {
            let held = held_for_head(Body::from(text), true);
            assert!((1_000..2_000).contains(&held), "{held} bytes for {text:?}");
        }
        assert_eq!(held_for_head(Body::empty(), false), 0, "an HTTP/1 connection has one head at a time");
    }
}
