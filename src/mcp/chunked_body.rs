//! Response bodies sent in chunks without copying. Responses can share chunks.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::header,
    response::{IntoResponse as _, Response},
};
use http_body::{Frame, SizeHint};

/// Chunks sent one after another.
struct ChunkedBody(VecDeque<Bytes>);

impl HttpBody for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// Returns a JSON response of these chunks.
pub(super) fn json(pieces: impl IntoIterator<Item = Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body(pieces)).into_response()
}

/// Returns a stream of one event. The chunks must not contain line breaks.
pub(super) fn event(pieces: impl IntoIterator<Item = Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body(pieces)).into_response()
}

fn body(pieces: impl IntoIterator<Item = Bytes>) -> Body {
    Body::new(ChunkedBody(pieces.into_iter().filter(|piece| !piece.is_empty()).collect()))
}

/// Returns the next chunk of a body that this host created.
pub(super) async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            // Other frames are trailers, which JSON responses do not have.
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                Err(_) => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_are_sent_in_their_order_and_their_length_is_known() {
        let shared = Bytes::from_static(b"[1,2]");
        let response = json([Bytes::from_static(b"{\"a\":"), Bytes::new(), shared.clone(), Bytes::from_static(b"}")]);
        let mut body = response.into_body();
        assert_eq!(body.size_hint().exact(), Some(11));
        let mut read = vec![];
        while let Some(piece) = next(&mut body).await {
            read.push(piece.unwrap());
        }
        assert_eq!(read.concat(), b"{\"a\":[1,2]}");
        assert_eq!(read[1].as_ptr(), shared.as_ptr(), "what is shared is not copied");
    }
}
