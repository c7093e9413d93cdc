//! One HTTP/1 or HTTP/2 connection, with its time limits.
//!
//! The time limits of request bodies are in [`crate::body`].

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io::{self, IoSlice},
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request},
    http::{StatusCode, Version},
    response::{IntoResponse as _, Response},
};
use hyper::{rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{MissedTickBehavior, interval},
};
use tollhouse_base::{forwarded_for, offload::for_client, rate_limit::RateLimiter};
use tollhouse_config::ConnectionSettings;
use tollhouse_telemetry::counters::CONNECTIONS_CLOSED;
use tower::{Service, ServiceExt as _};

use super::{
    conn_state::{ConnState, SharedInstant, check_interval},
    frames::{Allowance, Costly, Scanner},
    incoming::{IncomingBody, discard, head_share},
    outgoing::{FRAME_BYTES, WAITS, outgoing},
};
use crate::{
    front_services::FrontServices,
    memory_budget::MemoryBudget,
    network,
    quota::{Quota, QuotaShare},
};

/// Bytes of bodies that an HTTP/2 client can send before they are read: per stream and per connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Maximum streams reset by an HTTP/2 client that are not cleaned up yet. Beyond that, the connection is closed.
const RESET_STREAMS: usize = 50;
/// Interval of HTTP/2 pings, and the time for the client to answer one.
const PING: Duration = Duration::from_secs(20);

/// Maximum time without progress in reading an answer while more than half of the memory for answers is in use.
const STALL_WHEN_FULL: Duration = Duration::from_secs(2);

/// Maximum time of heads and of idle connections while only the reserve of connections is left.
const WAIT_WHEN_CROWDED: Duration = Duration::from_secs(2);

/// The default maximum of HTTP/1 header fields in hyper. Any other number makes it allocate for each request.
const HYPER_FIELDS: u32 = 100;

/// Processor time of a connection that is charged to its address at once.
const CHARGED: Duration = Duration::from_millis(1);

/// The service that answers the requests of a connection.
pub(super) trait ConnectionService:
    Service<Request, Response = Response, Error = Infallible, Future: Send + 'static> + Clone + Send + 'static
{
}

impl<S: Service<Request, Response = Response, Error = Infallible, Future: Send + 'static> + Clone + Send + 'static> ConnectionService
    for S
{
}

/// Protocol settings for connections.
pub(super) struct Protocols {
    builder: Builder<Streams>,
    limits: ConnectionSettings,
    /// The limits of addresses with many connections while only the reserve is left.
    crowded: ConnectionSettings,
    stall: StallTimeout,
    /// Interval between checks of a connection's time limits.
    check_interval: Option<Duration>,
}

impl Protocols {
    pub(super) fn new(intake: &MemoryBudget) -> Self {
        let limits = &intake.connections;
        let stall = StallTimeout { limit: limits.write_stall, answers: Arc::clone(&intake.answers) };
        let mut builder = Builder::new(Streams { stall: stall.clone() });
        let head_bytes = limits.head_bytes as usize;
        // [`ConnState`] limits the time of request heads, because it can tell a slow head from an idle connection.
        builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(head_bytes);
        if limits.head_fields != HYPER_FIELDS {
            builder.http1().max_headers(limits.head_fields as usize);
        }
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(limits.head_bytes)
            .max_concurrent_streams(limits.streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(FRAME_BYTES)
            .max_pending_accept_reset_streams(RESET_STREAMS)
            // [`Meter`] limits the frames that h2 answers with resets. h2 would count them over the life of a connection,
            // and a lawful client sends some after each early answer.
            .max_local_error_reset_streams(None)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING);
        let check_interval = check_interval(&[limits.head, limits.idle, limits.write_stall]);
        let shorter = |limit: Option<Duration>| limit.map(|limit| limit.min(WAIT_WHEN_CROWDED));
        let crowded = ConnectionSettings { head: shorter(limits.head), idle: shorter(limits.idle), ..limits.clone() };
        Self { builder, limits: limits.clone(), crowded, stall, check_interval }
    }

    /// Answers requests on `stream` until it ends, exceeds a limit, or the host shuts down.
    pub(super) async fn serve(&self, stream: TcpStream, peer: SocketAddr, service: impl ConnectionService, shared: &Arc<FrontServices>) {
        let conn = ConnState::new();
        // The connection of a trusted proxy carries many clients.
        let is_own = !shared.proxies.trusts(peer.ip());
        let address = is_own.then(|| network(peer.ip()));
        let meter = Meter::new(address.zip(shared.limits.frames().cloned()), self.limits.streams);
        let heads = HeadMemory { held: Arc::clone(&shared.intake.held), peer: peer.ip(), is_own };
        let io = TokioIo::new(MeteredSocket { stream, conn: Arc::clone(&conn), meter, heads });
        let (activity, host, max_fields) = (Arc::clone(&conn), Arc::clone(shared), self.limits.head_fields as usize);
        let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
            let http2 = request.version() == Version::HTTP_2;
            let mut answering = activity.begin(http2);
            let fields = request.headers().len();
            // A self-check of this host counts as a request of the caller who started it.
            let message = request.headers_mut().remove(forwarded_for::HEADER);
            let forwarded = message.and_then(|message| forwarded_for::parse_forwarded(message.as_bytes()));
            let client = forwarded.unwrap_or_else(|| host.proxies.client(peer.ip(), request.headers()));
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, peer.port())));
            let answers = &host.intake.answers;
            if is_own && answers.has_room(client, 1).is_err() {
                activity.answers_are_full();
            }
            let share = answers.share(client);
            let answer = if fields > max_fields {
                // hyper sends the same response for an HTTP/1 request with too many fields.
                Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response())
            } else {
                match head_share(request.headers(), |bytes| host.intake.hold(client, bytes)) {
                    Ok(head_share) => {
                        let (head, body) = request.into_parts();
                        let (body, unread) = IncomingBody::new(body, http2, &head.headers, &activity);
                        Ok((service.clone().oneshot(Request::from_parts(head, Body::new(body))), unread, head_share))
                    }
                    Err(no_room) => Err(no_room.into_response()),
                }
            };
            let answer = async move {
                // A request that is refused before the service gets it is counted by no other limit.
                let is_refused = answer.is_err();
                let response = match answer {
                    Ok((answer, unread, head_share)) => {
                        let response = answer.await?;
                        drop(head_share);
                        if let Some(body) = unread.and_then(|mut unread| unread.try_recv().ok()) {
                            discard(body).await;
                        }
                        response
                    }
                    Err(refused) => refused,
                };
                if is_refused || response.status() == StatusCode::TOO_MANY_REQUESTS {
                    answering.refused(fields);
                }
                Ok::<_, Infallible>(outgoing(response, answering, http2, share))
            };
            for_client(network(client), answer)
        });
        let mut connection = pin!(self.builder.serve_connection(io, service));
        let shutdown = &shared.shutdown;
        let mut ending = pin!(shutdown.begins());
        let mut watch = ShutdownWatch::Unregistered;
        let mut ticks = self.check_interval.map(|check_interval| {
            let mut ticks = interval(check_interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        let mut spent = Duration::ZERO;
        let over = poll_fn(|cx| {
            conn.begin_turn();
            loop {
                let started = Instant::now();
                let polled = connection.as_mut().poll(cx);
                // HTTP/1 requests are answered inside this poll and are charged by their own turns.
                if let (Some(address), true) = (address, conn.is_http2()) {
                    spent += started.elapsed();
                    if spent >= CHARGED {
                        shared.limits.spend(address, std::mem::take(&mut spent));
                    }
                }
                if let Some(exceeded) = conn.exceeded() {
                    return Poll::Ready(Some(exceeded));
                }
                if polled.is_ready() {
                    return Poll::Ready(None);
                }
                // Poll it once to register the waker. Each poll takes a lock that all connections share.
                if watch == ShutdownWatch::Unregistered || watch == ShutdownWatch::Waiting && shutdown.started() {
                    watch = ShutdownWatch::Waiting;
                    if ending.as_mut().poll(cx).is_ready() {
                        watch = ShutdownWatch::Ended;
                        connection.as_mut().graceful_shutdown();
                        continue;
                    }
                }
                let Some(ticks) = &mut ticks else { return Poll::Pending };
                ready!(ticks.poll_tick(cx));
                let is_crowded = is_own && shared.intake.open.is_crowded_by(peer.ip());
                let limits = if is_crowded { &self.crowded } else { &self.limits };
                if let Some(overdue) = conn.overdue(limits, self.stall.now()) {
                    return Poll::Ready(Some(overdue));
                }
            }
        });
        if let Some(reason) = over.await {
            CONNECTIONS_CLOSED.count([reason.label()]);
            tracing::debug!(%peer, ?reason, "a connection was closed");
        }
        if let Some(address) = address.filter(|_| !spent.is_zero()) {
            shared.limits.spend(address, spent);
        }
    }

    /// Gives every request on `stream` the same response.
    pub(super) async fn answer(&self, stream: TcpStream, answer: impl Fn() -> Response) {
        let service = service_fn(|_: Request<hyper::body::Incoming>| std::future::ready(Ok::<_, Infallible>(answer())));
        let mut builder = self.builder.clone();
        // The frames of this connection are not counted.
        builder.http2().max_local_error_reset_streams(RESET_STREAMS);
        // An error means that the client has its response or has gone.
        _ = builder.serve_connection(TokioIo::new(stream), service).await;
    }
}

/// How far a connection has noticed the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShutdownWatch {
    Unregistered,
    Waiting,
    Ended,
}

/// Spawns the HTTP/2 streams, and resets those whose clients stop reading. Nothing else notices that, because a stream
/// that waits for window space is not polled for more.
#[derive(Debug, Clone)]
struct Streams {
    stall: StallTimeout,
}

/// The maximum time without progress in reading an answer. It is shorter when many clients stall, so that they do not
/// use up the memory for answers.
#[derive(Debug, Clone)]
struct StallTimeout {
    limit: Option<Duration>,
    answers: Arc<Quota>,
}

impl StallTimeout {
    fn now(&self) -> Option<Duration> {
        let limit = self.limit?;
        Some(if self.answers.is_half_full() { limit.min(STALL_WHEN_FULL) } else { limit })
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let Some(limit) = self.stall.limit else {
            tokio::spawn(stream);
            return;
        };
        let stall = self.stall.clone();
        let waits = Arc::new(SharedInstant::default());
        tokio::spawn(WAITS.scope(Arc::clone(&waits), async move {
            tokio::select! {
                biased;
                _ = stream => {}
                () = stalled(&waits, &stall, limit) => tracing::debug!("a stream was reset: its client does not read the answer"),
            }
        }));
    }
}

/// Completes when a client has read nothing since `waits` for the maximum time.
async fn stalled(waits: &SharedInstant, stall: &StallTimeout, limit: Duration) {
    let Some(check_interval) = check_interval(&[Some(limit)]) else { return };
    loop {
        tokio::time::sleep(check_interval).await;
        if waits.beyond(stall.now()) {
            return;
        }
    }
}

/// Counts the HTTP/2 frames of a connection.
struct Meter {
    scanner: Scanner,
    allowance: Allowance,
    /// Maximum concurrent requests of an HTTP/2 client.
    streams: u32,
    /// The address that pays when the allowance is used up. `None` for trusted proxies, and if frames are not limited:
    /// then only frames that h2 answers with resets cost something.
    payer: Option<(IpAddr, Arc<RateLimiter<IpAddr>>)>,
}

impl Meter {
    fn new(payer: Option<(IpAddr, Arc<RateLimiter<IpAddr>>)>, streams: u32) -> Self {
        let now = Instant::now();
        let (costly, allowance) = match payer {
            Some(_) => (Costly::Overhead, Allowance::new(now)),
            None => (Costly::Resettable, Allowance::shared(now)),
        };
        Self { scanner: Scanner::new(costly, streams), allowance, streams, payer }
    }

    /// Charges the connection for received bytes, and for tiny chunks and rejected requests since the last call. Returns
    /// the overhead frames, or `None` if the allowance is used up. HTTP/1 has no frames, so only those chunks and
    /// requests cost something.
    fn pay(&mut self, bytes: &[u8], conn: &ConnState) -> Option<u32> {
        let was_http2 = self.scanner.is_http2();
        let forfeited = if self.payer.is_some() { conn.take_forfeited() } else { 0 };
        let cost = self.scanner.cost(bytes).saturating_add(forfeited).saturating_add(conn.take_chunks());
        if !was_http2 && self.scanner.is_http2() {
            self.allowance.add_streams(self.streams);
        }
        let (earned, allowance) = (conn.earned(), &mut self.allowance);
        let paid = cost == 0
            || match &self.payer {
                Some((address, limiter)) => allowance.pay(cost, earned, *address, limiter, Instant::now()),
                None => allowance.pay_alone(cost, earned, Instant::now()).is_none(),
            };
        paid.then_some(cost)
    }
}

/// The memory for unfinished HTTP/1 heads of a connection. hyper keeps them until they are complete.
struct HeadMemory {
    held: Arc<Quota>,
    peer: IpAddr,
    is_own: bool,
}

impl HeadMemory {
    /// Takes memory for the head so far. Returns whether there was room.
    fn hold(&self, conn: &ConnState) -> bool {
        let take = |share: &mut QuotaShare, more| if self.is_own { share.take(more) } else { share.take_of_all(more) };
        conn.hold_head(|| self.held.share(self.peer), |share, more| take(share, more).is_ok())
    }
}

/// A socket that reports reads and writes to the connection's [`ConnState`].
struct MeteredSocket {
    stream: TcpStream,
    conn: Arc<ConnState>,
    meter: Meter,
    heads: HeadMemory,
}

impl MeteredSocket {
    fn note_write<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &written {
            Poll::Ready(_) => self.conn.wrote(),
            Poll::Pending => self.conn.cannot_write(),
        }
        written
    }
}

impl AsyncRead for MeteredSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.conn.is_turn_over() {
            // Yield, so that other tasks get their turns first.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let bytes = &buffer.filled()[before..];
        if bytes.is_empty() {
            // A complete head would be a request by now.
            if read.is_pending() && !this.meter.scanner.is_http2() && !this.heads.hold(&this.conn) {
                this.conn.heads_are_full();
                return Poll::Ready(Err(io::Error::other("no memory for an unfinished head")));
            }
            return read;
        }
        this.conn.note_read(bytes.len());
        let Some(frames) = this.meter.pay(bytes, &this.conn) else {
            this.conn.flood();
            return Poll::Ready(Err(io::Error::other("too many HTTP/2 frames outside requests, or tiny chunks")));
        };
        this.conn.read(bytes.len(), frames);
        read
    }
}

impl AsyncWrite for MeteredSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.meter.scanner.record_sent(&bytes[..*count]);
        }
        self.note_write(written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        if let Poll::Ready(Ok(count)) = &written {
            let mut remaining = *count;
            for slice in slices {
                let sent = slice.len().min(remaining);
                self.meter.scanner.record_sent(&slice[..sent]);
                remaining -= sent;
            }
        }
        self.note_write(written)
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
mod tests;
