//! Streamed answers: where the chunks of a handler's answer go while its call runs.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tollhouse_protocol::OpFailure;

/// Status and headers of a streamed answer, as the handler gave them. The host sends only allowed headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

/// The receiver of one call's streamed answer.
///
/// Its methods return when the next chunk can come, so that a handler produces no faster than its caller reads. The pool
/// calls them one at a time, [`open`](Self::open) first. A failure ends the stream.
pub trait AnswerStream: Send + Sync {
    /// Begins the answer. Returns when everything that must be settled before the first byte is settled, and the head is
    /// on its way.
    ///
    /// # Errors
    ///
    /// The caller is gone, the payment failed, or a limit is reached.
    fn open(&self, head: StreamHead, first: Bytes) -> BoxFuture<'_, Result<(), OpFailure>>;

    /// Sends the next chunk. Returns when there is room for another one.
    ///
    /// # Errors
    ///
    /// The caller is gone, or a limit is reached.
    fn write(&self, chunk: Bytes) -> BoxFuture<'_, Result<(), OpFailure>>;
}
