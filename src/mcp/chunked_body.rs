//! Response bodies sent in chunks without copying. Responses can share chunks.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::header,
    response::{IntoResponse as _, Response},
};
use http_body::{Frame, SizeHint};

struct ChunkedBody(VecDeque<Bytes>);

impl HttpBody for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|chunk| chunk.len() as u64).sum())
    }
}

/// Returns a JSON response of these chunks.
pub(super) fn json(chunks: impl IntoIterator<Item = Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body(chunks)).into_response()
}

/// Returns a stream of one event. The chunks must not contain line breaks.
pub(super) fn event(chunks: impl IntoIterator<Item = Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body(chunks)).into_response()
}

fn body(chunks: impl IntoIterator<Item = Bytes>) -> Body {
    Body::new(ChunkedBody(chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect()))
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;

    use super::*;

    #[tokio::test]
    async fn chunks_are_sent_in_order_and_their_length_is_known() {
        let shared = Bytes::from_static(b"[1,2]");
        let response = json([Bytes::from_static(b"{\"a\":"), Bytes::new(), shared.clone(), Bytes::from_static(b"}")]);
        let body = response.into_body();
        assert_eq!(body.size_hint().exact(), Some(11));
        let read: Vec<_> = body.into_data_stream().try_collect().await.unwrap();
        assert_eq!(read.concat(), b"{\"a\":[1,2]}");
        assert_eq!(read[1].as_ptr(), shared.as_ptr(), "a shared chunk is not copied");
    }
}
