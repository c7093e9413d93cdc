//! Counts the frames of an HTTP/2 connection before anything else reads them.
//!
//! A client that sends `PING`, `SETTINGS`, `WINDOW_UPDATE` or unknown frames makes no request, so rate limits do not apply, yet each
//! frame costs about a microsecond. Requests and answers earn the frames that they need, such as a `WINDOW_UPDATE` for received data. All
//! other frames are overhead, and so are frames of rejected requests. Overhead is paid from the allowance of the connection, then from
//! that of its address. A connection that exceeds both is closed.
//!
//! Frames arrive before their requests begin and earn something. So a new connection can send as much as its client needs for the maximum
//! number of concurrent requests.
//!
//! The host resets a stream whose request is answered before its body is complete. Body frames that arrive after that are overhead.
//! A connection that can carry many clients, such as that of a trusted proxy, pays for them from a much larger allowance.

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroU32, time::Instant};

use tollhouse_base::rate_limit::RateLimiter;

/// The bytes that begin every HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame header, in bytes (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;

/// The type of a frame with body bytes.
const DATA: u8 = 0;

/// The type of a frame that begins a request, and its flag for a request without a body.
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// The type of a frame that ends a stream early.
const RST_STREAM: u8 = 3;

/// Minimum payload of a `DATA` frame that does not count as overhead. A smaller one costs more to parse than it carries.
const MIN_DATA_BYTES: usize = 64;

/// Payload bytes that cost as much as a frame.
const BYTES_PER_FRAME: usize = 4 << 10;

/// Overhead frames that a connection can send: in a burst, more for each allowed concurrent request, and per second.
const AT_ONCE: f64 = 100.0;
const PER_STREAM: f64 = 4.0;
const PER_SECOND: f64 = 10.0;

/// Frames of [`Costly::Resettable`] that a connection of many clients can send per second. Its burst is [`MAX_EARNED`].
const SHARED_PER_SECOND: f64 = 1_000.0;

/// Maximum frames that a connection can have earned and not used.
const MAX_EARNED: f64 = 10_000.0;

/// Frames that a request earns: for its head, settings, priorities, windows and reset.
pub(super) const PER_REQUEST: u64 = 24;

/// Header fields that cost as much as a frame. A field that HTTP/2 compresses to one byte takes about 0.1 µs (RFC 7541, section 6.1).
const FIELDS_PER_FRAME: usize = 10;

/// Returns the cost of a rejected request with this many header fields, in frames.
pub(super) fn refusal_cost(fields: usize) -> u32 {
    u32::try_from(1 + fields / FIELDS_PER_FRAME).unwrap_or(u32::MAX)
}

/// Returns the frames that the next bytes of an answer earn. Clients acknowledge data as often as every 4 KiB, on both windows.
pub(super) fn earned_by(answer_bytes: usize) -> u64 {
    4 + (answer_bytes as u64).div_ceil(2 << 10)
}

/// Which frames cost something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Costly {
    /// All overhead frames.
    Overhead,
    /// Heads of requests, and body frames without a request. h2 answers such frames with resets, and limits those only over the whole
    /// life of a connection.
    Resettable,
}

/// Parses frame headers from the bytes of a connection, which arrive in chunks of any length.
#[derive(Debug)]
pub(super) struct Scanner {
    received: State,
    sent: State,
    costly: Costly,
    /// Maximum concurrent requests of a client, which bounds `open`.
    streams: u32,
    /// Streams with an incomplete body that the host has not reset. True if a short body frame has arrived: the first costs nothing.
    open: BTreeMap<u32, bool>,
    /// The newest stream that began with an incomplete body.
    newest: u32,
}

#[derive(Debug)]
enum State {
    /// This many bytes of the preface have arrived.
    Preface(usize),
    /// The connection does not use HTTP/2.
    Other,
    /// This many bytes of a frame header have arrived.
    Head([u8; HEAD_BYTES], usize),
    /// This many bytes of the payload have not arrived yet.
    Payload(usize),
}

/// A frame header.
#[derive(Debug, Clone, Copy)]
struct FrameHead {
    kind: u8,
    flags: u8,
    stream: u32,
    length: usize,
}

impl FrameHead {
    fn parse(bytes: [u8; HEAD_BYTES]) -> Self {
        let [high, middle, low, kind, flags, stream @ ..] = bytes;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        // The first bit of the stream is reserved.
        Self { kind, flags, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1), length }
    }
}

impl State {
    /// No byte of the next frame has arrived.
    const NEXT: Self = Self::Head([0; HEAD_BYTES], 0);

    /// Parses some of these bytes. Returns how many, and the frame header that ends with them.
    fn advance(&mut self, bytes: &[u8]) -> (usize, Option<FrameHead>) {
        match self {
            Self::Other => (bytes.len(), None),
            Self::Preface(matched) => {
                let read = bytes.len().min(PREFACE.len() - *matched);
                if bytes[..read] != PREFACE[*matched..][..read] {
                    *self = Self::Other;
                    return (bytes.len(), None);
                }
                *matched += read;
                if *matched == PREFACE.len() {
                    *self = Self::NEXT;
                }
                (read, None)
            }
            Self::Head(head, filled) => {
                let read = bytes.len().min(HEAD_BYTES - *filled);
                head[*filled..][..read].copy_from_slice(&bytes[..read]);
                *filled += read;
                if *filled < HEAD_BYTES {
                    return (read, None);
                }
                let head = FrameHead::parse(*head);
                *self = if head.length == 0 { Self::NEXT } else { Self::Payload(head.length) };
                (read, Some(head))
            }
            Self::Payload(remaining) => {
                let read = bytes.len().min(*remaining);
                *remaining -= read;
                if *remaining == 0 {
                    *self = Self::NEXT;
                }
                (read, None)
            }
        }
    }
}

impl Scanner {
    pub(super) fn new(costly: Costly, streams: u32) -> Self {
        Self { received: State::Preface(0), sent: State::NEXT, costly, streams, open: BTreeMap::new(), newest: 0 }
    }

    /// Returns whether the connection uses HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        matches!(self.received, State::Head(..) | State::Payload(_))
    }

    /// Returns the cost of received frames whose headers end in these bytes, in overhead frames.
    pub(super) fn cost(&mut self, mut bytes: &[u8]) -> u32 {
        let mut cost = 0_u32;
        while !bytes.is_empty() {
            let (read, head) = self.received.advance(bytes);
            if let Some(head) = head {
                cost = cost.saturating_add(self.cost_of(head));
            }
            bytes = &bytes[read..];
        }
        cost
    }

    /// Records bytes that the host sent. Body frames of a stream that the host has reset belong to no request.
    pub(super) fn record_sent(&mut self, mut bytes: &[u8]) {
        if !self.is_http2() {
            return;
        }
        while !bytes.is_empty() {
            let (read, head) = self.sent.advance(bytes);
            if let Some(head) = head
                && head.kind == RST_STREAM
            {
                self.open.remove(&head.stream);
            }
            bytes = &bytes[read..];
        }
    }

    fn cost_of(&mut self, FrameHead { kind, flags, stream, length }: FrameHead) -> u32 {
        let is_last = flags & END_STREAM != 0;
        let open = self.open.get_mut(&stream).filter(|_| kind == DATA);
        let is_costly = match self.costly {
            Costly::Overhead => true,
            Costly::Resettable => kind == HEADERS || kind == DATA && open.is_none(),
        };
        let is_free = open.is_some_and(|had_short| length >= MIN_DATA_BYTES || !std::mem::replace(had_short, true));
        // An older stream can only get trailers.
        let is_new = kind == HEADERS && !is_last && stream > self.newest && self.open.len() < self.streams as usize;
        let is_ended = kind == RST_STREAM || is_last && matches!(kind, HEADERS | DATA);
        if is_new {
            self.newest = stream;
            self.open.insert(stream, false);
        } else if is_ended {
            self.open.remove(&stream);
        }
        if !is_costly || is_free {
            return 0;
        }
        u32::try_from(1 + length / BYTES_PER_FRAME).unwrap_or(u32::MAX)
    }
}

/// The overhead frames that a connection can still send.
#[derive(Debug)]
pub(super) struct Allowance {
    at_once: f64,
    per_second: f64,
    remaining: f64,
    at: Instant,
    /// Earned frames already added to `left`.
    earned: u64,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self { at_once: AT_ONCE, per_second: PER_SECOND, remaining: AT_ONCE, at: now, earned: 0 }
    }

    /// Returns the allowance of a connection that can carry many clients.
    pub(super) fn shared(now: Instant) -> Self {
        Self { at_once: MAX_EARNED, per_second: SHARED_PER_SECOND, remaining: MAX_EARNED, at: now, earned: 0 }
    }

    /// Adds the burst that an HTTP/2 client needs for `streams` concurrent requests.
    pub(super) fn add_streams(&mut self, streams: u32) {
        let more = (PER_STREAM * f64::from(streams)).min(MAX_EARNED - self.at_once).max(0.0);
        (self.at_once, self.remaining) = (self.at_once + more, self.remaining + more);
    }

    /// Pays for frames that arrived `now`, where `earned` is the total earned on the connection. The allowance of the connection pays
    /// first, then that of its address. Returns false if both are used up.
    pub(super) fn pay(&mut self, cost: u32, earned: u64, address: IpAddr, limiter: &RateLimiter<IpAddr>, now: Instant) -> bool {
        self.pay_alone(cost, earned, now).is_none_or(|missing| limiter.take(&address, missing))
    }

    /// Pays from the allowance of the connection. Returns the frames that it cannot pay for.
    pub(super) fn pay_alone(&mut self, cost: u32, earned: u64, now: Instant) -> Option<NonZeroU32> {
        let regained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        // Time restores the burst and no more.
        self.remaining = (self.remaining + regained).min(self.remaining.max(self.at_once));
        self.remaining = (self.remaining + earned.saturating_sub(self.earned) as f64).min(MAX_EARNED);
        (self.at, self.earned) = (now, earned);
        let missing = f64::from(cost) - self.remaining;
        self.remaining = (-missing).max(0.0);
        NonZeroU32::new(missing.max(0.0).ceil() as u32)
    }
}

#[cfg(test)]
mod tests;
