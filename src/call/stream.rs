//! Streamed answers: their limits, and the way of their bytes from the handler to the caller.
//!
//! ```text
//! handler → AnswerSink::open → settled by the call → AnswerSink::write → StreamedChunks → caller
//! ```
//!
//! At most two chunks wait for the caller. The handler's next write waits for room, so a slow caller slows the handler.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use tollhouse_base::lock::Lock;
use tollhouse_capability::{AnswerStream, StreamHead};
use tollhouse_fair::{FairPermit, FairSemaphore, Share};
use tollhouse_money::{PaymentId, StoredAnswer, receipt::PiecewiseHash};
use tollhouse_protocol::{OpFailure, StopReason};

use super::{
    answer_head::{BYTES, check_status, checked_headers},
    content::{bodiless, content_type},
    error::CallError,
};

/// Chunks that wait for the caller.
const CHUNKS: usize = 2;

/// Limits on streamed answers.
#[derive(Debug, Clone, Copy)]
pub struct StreamSettings {
    /// Maximum number of open streams. An owner can have as many as it leaves free.
    pub places: usize,
    /// Maximum number of one address. `None` means no limit.
    pub of_address: Option<usize>,
    /// Maximum size of an answer that is kept for its payment, in bytes.
    pub kept: usize,
    /// How long a chunk waits for the caller to read.
    pub stall: Duration,
    /// Interval between comments in a silent stream of events.
    pub heartbeat: Duration,
}

/// The places of open streams.
pub(super) struct StreamPlaces {
    of_owners: Arc<FairSemaphore<Box<str>>>,
    of_addresses: Arc<FairSemaphore<IpAddr>>,
}

/// The place of an open stream. Dropping it releases the place.
pub(super) struct StreamPlace {
    _of_owner: FairPermit<Box<str>>,
    _of_address: FairPermit<IpAddr>,
}

impl StreamPlaces {
    pub(super) fn new(settings: &StreamSettings) -> Self {
        let StreamSettings { places, of_address, .. } = *settings;
        let share = of_address.map_or(Share::All, |max| Share::AllBut(places.saturating_sub(max)));
        Self { of_owners: FairSemaphore::new(places, Share::HalfOfFree), of_addresses: FairSemaphore::new(places, share) }
    }

    /// Takes a place, if there is one.
    pub(super) fn take(&self, owner: &str, from: IpAddr) -> Option<StreamPlace> {
        Some(StreamPlace { _of_owner: self.of_owners.take(owner.into())?, _of_address: self.of_addresses.take(from)? })
    }
}

/// Sends a streamed answer to the front of its call.
pub type StreamSender = oneshot::Sender<StreamedAnswer>;

/// A streamed answer whose first bytes are there.
#[derive(Debug)]
pub struct StreamedAnswer {
    /// Status, headers, receipt id and settlement. Its body is empty.
    pub head: StoredAnswer,
    /// The payment, or `None` for free calls.
    pub payment: Option<PaymentId>,
    /// Interval between comments, if it is a silent stream of events.
    pub heartbeat: Duration,
    pub chunks: StreamedChunks,
}

/// The bytes of a streamed answer, as they come.
#[derive(Debug)]
pub struct StreamedChunks {
    received: mpsc::Receiver<Bytes>,
    is_complete: Arc<AtomicBool>,
}

impl StreamedChunks {
    /// Returns the next bytes, or `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The answer was broken off.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self.received.recv().await {
            Some(chunk) => Ok(Some(chunk)),
            None if self.is_complete.load(Ordering::Acquire) => Ok(None),
            None => Err(io::Error::other("the answer was broken off")),
        }
    }
}

/// The caller's end of an open stream. If it is dropped, the stream is broken off.
pub(super) struct StreamEnd {
    _chunks: mpsc::Sender<Bytes>,
    is_complete: Arc<AtomicBool>,
}

impl StreamEnd {
    pub(super) fn complete(self) {
        self.is_complete.store(true, Ordering::Release);
    }
}

/// A handler that is about to send its first byte. It waits until `settled` is answered.
pub(super) struct Opening {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) settled: oneshot::Sender<()>,
}

/// The bytes that were sent of a stream.
pub(super) struct Sent {
    /// All bytes, unless there were too many.
    pub(super) kept: Option<Bytes>,
    pub(super) hash: String,
    /// Why the host broke it off.
    pub(super) error: Option<CallError>,
    /// How long a chunk had waited for the caller when the run ended.
    pub(super) unread: Option<Duration>,
}

/// Takes the streamed answer of one call.
pub struct AnswerSink {
    settings: StreamSettings,
    /// Maximum size of the answer, in bytes.
    max_bytes: u64,
    openings: mpsc::Sender<Opening>,
    state: Lock<SinkState>,
}

#[derive(Default)]
struct SinkState {
    output: Option<Output>,
    error: Option<CallError>,
    /// Number of chunks that wait for the caller, and since when.
    waiting: usize,
    waiting_since: Option<Instant>,
}

struct Output {
    chunks: mpsc::Sender<Bytes>,
    sent: u64,
    kept: Option<Vec<u8>>,
    hash: PiecewiseHash,
}

impl AnswerSink {
    /// Constructs a sink, and the receiver of its opening.
    pub(super) fn new(settings: StreamSettings, max_bytes: u64) -> (Arc<Self>, mpsc::Receiver<Opening>) {
        let (openings, opened) = mpsc::channel(1);
        (Arc::new(Self { settings, max_bytes, openings, state: Lock::default() }), opened)
    }

    /// Begins to pass on bytes, below this head.
    pub(super) fn begin(&self, head: StoredAnswer, payment: Option<PaymentId>) -> (StreamEnd, StreamedAnswer) {
        let (chunks, received) = mpsc::channel(CHUNKS);
        let is_complete = Arc::new(AtomicBool::new(false));
        let output = Output { chunks: chunks.clone(), sent: 0, kept: Some(Vec::new()), hash: PiecewiseHash::default() };
        self.state.lock().output = Some(output);
        let end = StreamEnd { _chunks: chunks, is_complete: Arc::clone(&is_complete) };
        (end, StreamedAnswer { head, payment, heartbeat: self.settings.heartbeat, chunks: StreamedChunks { received, is_complete } })
    }

    /// Returns what was sent. Nothing more is passed on.
    pub(super) fn finish(&self) -> Sent {
        let mut state = self.state.lock();
        let error = state.error.take();
        let unread = state.waiting_since.map(|since| since.elapsed());
        match state.output.take() {
            Some(Output { kept, hash, .. }) => Sent { kept: kept.map(Bytes::from), hash: hash.finish(), error, unread },
            None => Sent { kept: None, hash: String::new(), error, unread },
        }
    }

    /// Passes on the last bytes. Returns false if the caller does not get them.
    pub(crate) async fn end(&self, rest: Bytes) -> bool {
        self.send(rest).await.is_ok()
    }

    /// Checks the handler's head.
    fn checked(head: StreamHead) -> Result<(u16, Vec<(String, String)>), CallError> {
        let StreamHead { status, headers } = head;
        check_status(status)?;
        if bodiless(status) {
            return Err(CallError::Misbehaved(format!("an answer with status {status} has no body, so it cannot be streamed")));
        }
        let mut headers = checked_headers(status, headers)?;
        if content_type(&headers).is_none() {
            headers.push(("content-type".to_owned(), BYTES.to_owned()));
        }
        Ok((status, headers))
    }

    async fn begun(&self, head: StreamHead, first: Bytes) -> Result<(), OpFailure> {
        let (status, headers) = Self::checked(head).map_err(|error| self.fail(error))?;
        let (settled, is_settled) = oneshot::channel();
        let opening = Opening { status, headers, settled };
        let refused = || OpFailure::new("stream_refused", "the call ended before the first byte of its answer was sent");
        self.openings.send(opening).await.map_err(|_| refused())?;
        is_settled.await.map_err(|_| refused())?;
        self.send(first).await
    }

    async fn send(&self, chunk: Bytes) -> Result<(), OpFailure> {
        if chunk.is_empty() {
            return Ok(());
        }
        let added = self.state.lock().add(&chunk, self.max_bytes, self.settings.kept);
        let chunks = added.map_err(|error| self.fail(error))?;
        // If the run ends meanwhile, this is dropped and the chunk still counts as waiting.
        self.state.lock().wait();
        let sent = timeout(self.settings.stall, chunks.send(chunk)).await;
        self.state.lock().waited();
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.fail(CallError::Cancelled)),
            Err(_) => Err(self.fail(CallError::StreamUnread(self.settings.stall))),
        }
    }

    /// Notes why the host breaks the stream off. Only the first reason counts.
    fn fail(&self, error: CallError) -> OpFailure {
        let code = if matches!(error, CallError::Stopped(_)) { "quota_exceeded" } else { "stream_ended" };
        let failure = OpFailure::new(code, error.to_string());
        _ = self.state.lock().error.get_or_insert(error);
        failure
    }
}

impl SinkState {
    fn wait(&mut self) {
        self.waiting += 1;
        self.waiting_since.get_or_insert_with(Instant::now);
    }

    fn waited(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_since = (self.waiting > 0).then(Instant::now);
    }

    /// Counts a chunk, and returns where to send it.
    fn add(&mut self, chunk: &[u8], max_bytes: u64, max_kept: usize) -> Result<mpsc::Sender<Bytes>, CallError> {
        let Some(output) = &mut self.output else { return Err(CallError::Cancelled) };
        output.sent = output.sent.saturating_add(chunk.len() as u64);
        if output.sent > max_bytes {
            return Err(CallError::Stopped(StopReason::OutputSize { limit_bytes: max_bytes }));
        }
        output.hash.update(chunk);
        match &mut output.kept {
            Some(kept) if kept.len() + chunk.len() <= max_kept => kept.extend_from_slice(chunk),
            kept => *kept = None,
        }
        Ok(output.chunks.clone())
    }
}

impl AnswerStream for AnswerSink {
    fn open(&self, head: StreamHead, first: Bytes) -> BoxFuture<'_, Result<(), OpFailure>> {
        Box::pin(self.begun(head, first))
    }

    fn write(&self, chunk: Bytes) -> BoxFuture<'_, Result<(), OpFailure>> {
        Box::pin(self.send(chunk))
    }
}

#[cfg(test)]
mod tests;
