//! Counts the bytes that are read for one response.
//!
//! A server can send data that is not part of a response for as long as somebody reads: interim heads (1xx), empty TLS
//! records, endless chunk extensions. None of it takes memory, so that no size limit applies, but all of it costs
//! processor time. So the guard counts the bytes from the socket, below TLS and HTTP. A connection that delivers more
//! than its response may take fails with [`FetchError::Flooded`], also while it is idle.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tollhouse_base::lock::Lock;

use super::{
    error::FetchError,
    limits::{AWAITED_BYTES, WIRE_BYTES},
};

/// The byte counter of one connection. Responses carry it in their extensions. Clones share the count.
#[derive(Clone)]
pub(super) struct ConnectionMeter(Arc<Lock<Counts>>);

struct Counts {
    /// Number of response heads that have arrived.
    answers: u64,
    /// Number of bytes that have arrived since the last response head, or since its body was read.
    came: usize,
    limit: usize,
}

impl ConnectionMeter {
    fn new() -> Self {
        Self(Arc::new(Lock::new(Counts { answers: 0, came: 0, limit: AWAITED_BYTES })))
    }

    /// Records that a response's head has arrived. Until the returned value is dropped, a body of `body_bytes` bytes is
    /// allowed as well.
    pub(super) fn reading(&self, body_bytes: usize) -> ReadGuard {
        let mut counts = self.0.lock();
        let limit = body_bytes.saturating_mul(WIRE_BYTES).saturating_add(AWAITED_BYTES);
        *counts = Counts { answers: counts.answers + 1, came: 0, limit };
        ReadGuard { meter: self.clone(), answer: counts.answers }
    }

    fn count(&self, bytes: usize) -> Result<(), FetchError> {
        let mut counts = self.0.lock();
        counts.came += bytes;
        if counts.came > counts.limit { Err(FetchError::Flooded(counts.limit)) } else { Ok(()) }
    }
}

/// A response whose body is being read.
pub(super) struct ReadGuard {
    meter: ConnectionMeter,
    answer: u64,
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut counts = self.meter.0.lock();
        // A connection serves the next request as soon as a body has arrived, possibly before it has been read.
        if counts.answers == self.answer {
            *counts = Counts { answers: self.answer, came: 0, limit: AWAITED_BYTES };
        }
    }
}

/// A TCP stream whose incoming bytes are counted.
pub(super) struct MeteredConnection {
    stream: TcpStream,
    meter: ConnectionMeter,
}

impl MeteredConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, meter: ConnectionMeter::new() }
    }
}

impl Connection for MeteredConnection {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.meter.clone())
    }
}

impl AsyncRead for MeteredConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        Poll::Ready(self.meter.count(buffer.filled().len() - before).map_err(io::Error::other))
    }
}

impl AsyncWrite for MeteredConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn pair() -> (MeteredConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (MeteredConnection::new(ours.unwrap()), theirs.unwrap().0)
    }

    #[tokio::test]
    async fn written_bytes_and_the_end_reach_the_other_side() {
        let (mut ours, mut theirs) = pair().await;
        ours.write_all(b"asked").await.unwrap();
        ours.shutdown().await.unwrap();
        let mut received = String::new();
        theirs.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "asked");
    }

    /// Data that was already in the buffer is not counted.
    #[tokio::test]
    async fn read_bytes_are_counted() {
        let (mut ours, mut theirs) = pair().await;
        theirs.write_all(b"answer").await.unwrap();
        theirs.shutdown().await.unwrap();
        let (mut bytes, mut received) = ([0; 100], 90);
        while received < 96 {
            let mut buffer = ReadBuf::new(&mut bytes);
            buffer.set_filled(received);
            std::future::poll_fn(|cx| Pin::new(&mut ours).poll_read(cx, &mut buffer)).await.unwrap();
            received = buffer.filled().len();
        }
        assert_eq!((&bytes[90..96], ours.meter.0.lock().came), (&b"answer"[..], 6));
    }

    #[test]
    fn an_answer_that_is_read_late_takes_nothing_from_the_next_one() {
        let meter = ConnectionMeter::new();
        let late = meter.reading(0);
        let next = meter.reading(AWAITED_BYTES);
        drop(late);
        assert_eq!(meter.count(2 * AWAITED_BYTES), Ok(()));
        drop(next);
        assert_eq!((meter.count(AWAITED_BYTES), meter.count(1)), (Ok(()), Err(FetchError::Flooded(AWAITED_BYTES))));
    }
}
