//! Counts the frames of an HTTP/2 connection before anything else reads them.
//!
//! A client that sends `PING`, `SETTINGS`, `WINDOW_UPDATE` or unknown frames makes no request, so rate limits do not apply, yet each
//! frame costs about a microsecond. Requests and answers earn the frames that they need, such as a `WINDOW_UPDATE` for received data. All
//! other frames are overhead, and so are frames of rejected requests. Overhead is paid from the allowance of the connection, then from
//! that of its address. A connection that exceeds both is closed.
//!
//! Frames arrive before their requests begin and earn something. So a new connection can send as much as its client needs for the maximum
//! number of concurrent requests.

use std::{net::IpAddr, num::NonZeroU32, time::Instant};

use tollhouse_base::rate::Rate;

/// The bytes that begin every HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame header, in bytes (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;

/// The type of a frame with body bytes.
const DATA: u8 = 0;

/// The type of a frame that begins a request, and its flag for a request without a body.
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// Minimum payload of a `DATA` frame that does not count as overhead. A smaller one costs more to parse than it carries.
const LEAST_DATA_BYTES: usize = 64;

/// Payload bytes that cost as much as a frame.
const BYTES_PER_FRAME: usize = 4 << 10;

/// Overhead frames that a connection can send: in a burst, more for each allowed concurrent request, and per second.
const AT_ONCE: f64 = 100.0;
const OF_STREAM: f64 = 4.0;
const PER_SECOND: f64 = 10.0;

/// Maximum frames that a connection can have earned and not used.
const MOST_EARNED: f64 = 10_000.0;

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

/// Parses frame headers from the bytes of a connection, which arrive in chunks of any length.
#[derive(Debug)]
pub(super) struct Scanner {
    state: State,
    /// Maximum concurrent requests of a client.
    streams: u32,
    /// Requests whose bodies are not complete. A short body costs nothing.
    bodies: u32,
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

impl Scanner {
    pub(super) fn new(streams: u32) -> Self {
        Self { state: State::Preface(0), streams, bodies: 0 }
    }

    /// Returns whether the connection uses HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        matches!(self.state, State::Head(..) | State::Payload(_))
    }

    /// Returns the cost of frames whose headers end in these bytes, in overhead frames.
    pub(super) fn cost(&mut self, mut bytes: &[u8]) -> u32 {
        let mut cost = 0_u32;
        while !bytes.is_empty() {
            let read = match &mut self.state {
                State::Other => return 0,
                State::Preface(matched) => {
                    let read = bytes.len().min(PREFACE.len() - *matched);
                    if bytes[..read] != PREFACE[*matched..][..read] {
                        self.state = State::Other;
                        return 0;
                    }
                    *matched += read;
                    if *matched == PREFACE.len() {
                        self.state = State::Head([0; HEAD_BYTES], 0);
                    }
                    read
                }
                State::Head(head, filled) => {
                    let read = bytes.len().min(HEAD_BYTES - *filled);
                    head[*filled..][..read].copy_from_slice(&bytes[..read]);
                    *filled += read;
                    if *filled == HEAD_BYTES {
                        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                        let (kind, flags) = (head[3], head[4]);
                        cost = cost.saturating_add(self.cost_of(kind, flags, length));
                        self.state = if length == 0 { State::Head([0; HEAD_BYTES], 0) } else { State::Payload(length) };
                    }
                    read
                }
                State::Payload(left) => {
                    let read = bytes.len().min(*left);
                    *left -= read;
                    if *left == 0 {
                        self.state = State::Head([0; HEAD_BYTES], 0);
                    }
                    read
                }
            };
            bytes = &bytes[read..];
        }
        cost
    }

    fn cost_of(&mut self, kind: u8, flags: u8, length: usize) -> u32 {
        if kind == DATA && length >= LEAST_DATA_BYTES {
            return 0;
        }
        if kind == DATA && self.bodies > 0 {
            self.bodies -= 1;
            return 0;
        }
        if kind == HEADERS && flags & END_STREAM == 0 {
            self.bodies = (self.bodies + 1).min(self.streams);
        }
        u32::try_from(1 + length / BYTES_PER_FRAME).unwrap_or(u32::MAX)
    }
}

/// The overhead frames that a connection can still send.
#[derive(Debug)]
pub(super) struct Allowance {
    at_once: f64,
    left: f64,
    at: Instant,
    /// Earned frames already added to `left`.
    earned: u64,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self { at_once: AT_ONCE, left: AT_ONCE, at: now, earned: 0 }
    }

    /// Adds the burst that an HTTP/2 client needs for `streams` concurrent requests.
    pub(super) fn add_streams(&mut self, streams: u32) {
        let more = (OF_STREAM * f64::from(streams)).min(MOST_EARNED - self.at_once).max(0.0);
        (self.at_once, self.left) = (self.at_once + more, self.left + more);
    }

    /// Pays for frames that arrived `now`, where `earned` is the total earned on the connection. The allowance of the connection pays
    /// first, then that of its address. Returns false if both are used up.
    pub(super) fn pay(&mut self, cost: u32, earned: u64, address: IpAddr, of_addresses: &Rate<IpAddr>, now: Instant) -> bool {
        let regained = now.saturating_duration_since(self.at).as_secs_f64() * PER_SECOND;
        // Time restores the burst and no more.
        self.left = (self.left + regained).min(self.left.max(self.at_once));
        self.left = (self.left + earned.saturating_sub(self.earned) as f64).min(MOST_EARNED);
        (self.at, self.earned) = (now, earned);
        let missing = f64::from(cost) - self.left;
        self.left = (-missing).max(0.0);
        match NonZeroU32::new(missing.max(0.0).ceil() as u32) {
            None => true,
            Some(missing) => of_addresses.take(&address, missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const PING: u8 = 6;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(length).unwrap().to_be_bytes()[1..].to_vec();
        bytes.extend([kind, 0, 0, 0, 0, 1]);
        bytes.resize(HEAD_BYTES + length, 0);
        bytes
    }

    fn flagged(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let mut frame = frame(kind, length);
        frame[4] = flags;
        frame
    }

    #[test]
    fn the_first_short_body_of_a_request_costs_nothing() {
        let cost = |frames: &[Vec<u8>]| Scanner::new(3).cost(&[&PREFACE[..], &frames.concat()].concat());
        let (head, get, data) = (flagged(HEADERS, 4, 20), flagged(HEADERS, 5, 20), flagged(DATA, 1, 2));
        assert_eq!(cost(&[head.clone(), data.clone(), data.clone()]), 2, "a second one does");
        let requests = [head.clone(), head.clone(), head.clone(), data.clone(), data.clone(), data.clone()];
        assert_eq!(cost(&requests), 3, "in whatever order they come");
        assert_eq!(cost(&[get, data.clone()]), 2, "one without a body has none");
        let many = [vec![head; 10], vec![data; 10]].concat();
        assert_eq!(cost(&many), 10 + 7, "no more than may be under way");
    }

    #[test]
    fn all_the_requests_that_may_be_under_way_may_come_at_once() {
        let (now, addresses) = (Instant::now(), of_addresses(1));
        for streams in [1, 100, 1_000] {
            let mut burst = Allowance::new(now);
            burst.add_streams(streams);
            // A head and two body frames for each request, before any of them begins.
            assert!(burst.pay(3 * streams, 0, ADDRESS, &addresses, now));
        }
        let mut most = Allowance::new(now);
        most.add_streams(u32::MAX);
        assert!(most.left <= MOST_EARNED);
    }

    #[test]
    fn frames_are_counted_however_their_bytes_are_cut() {
        let frames = [frame(4, 0), frame(PING, 8), frame(DATA, 64), frame(DATA, 0), frame(DATA, 63), frame(0xee, 16 << 10), frame(1, 20)];
        let bytes = [&PREFACE[..], &frames.concat()].concat();
        // The large frame counts as five.
        let wanted = 1 + 1 + 1 + 1 + 5 + 1;
        for size in [1, 2, 8, 9, 10, 24, 1_000, bytes.len()] {
            let mut scanner = Scanner::new(100);
            assert_eq!(bytes.chunks(size).map(|piece| scanner.cost(piece)).sum::<u32>(), wanted, "in pieces of {size}");
            assert!(scanner.is_http2());
        }
    }

    #[test]
    fn http1_has_no_frames() {
        let mut scanner = Scanner::new(100);
        assert!(!scanner.is_http2());
        assert_eq!(scanner.cost(b"PRI * HTTP/2.0\r\n\r\nS"), 0);
        assert_eq!(scanner.cost(&[0; 1_000]), 0);
        assert!(!scanner.is_http2());
        assert_eq!(Scanner::new(100).cost(b"GET / HTTP/1.1\r\n\r\n\0\0\0\x06\0\0\0\0\0"), 0);
    }

    /// Returns a limiter that regains one frame per second.
    fn of_addresses(at_once: u32) -> Rate<IpAddr> {
        Rate::with_burst(NonZeroU32::MIN, NonZeroU32::new(at_once).unwrap())
    }

    #[test]
    fn overhead_is_paid_by_the_connection_and_then_by_its_address() {
        let (now, addresses) = (Instant::now(), of_addresses(100));
        let mut one = Allowance::new(now);
        assert!(one.pay(100, 0, ADDRESS, &addresses, now));
        assert!(one.pay(100, 0, ADDRESS, &addresses, now), "its address has a hundred at once");
        assert!(!one.pay(10, 0, ADDRESS, &addresses, now));
        let mut other = Allowance::new(now);
        assert!(other.pay(100, 0, ADDRESS, &addresses, now), "another connection of the address has its own");
        assert!(!other.pay(10, 0, ADDRESS, &addresses, now));
    }

    #[test]
    fn what_requests_and_answers_earn_is_free_and_pings_to_keep_alive_are() {
        let (mut now, addresses) = (Instant::now(), of_addresses(1));
        let mut download = Allowance::new(now);
        let mut earned = 0;
        // 100 MiB, acknowledged by Go's client every 4 KiB on both the stream and the connection.
        for _ in 0..6_400 {
            earned += earned_by(16 << 10);
            assert!(download.pay(8, earned, ADDRESS, &addresses, now));
        }
        let mut idle = Allowance::new(now);
        for _ in 0..10_000 {
            now += Duration::from_millis(200);
            assert!(idle.pay(1, 0, ADDRESS, &addresses, now));
        }
        assert!(idle.left <= AT_ONCE, "nothing is saved up by being idle: {}", idle.left);
        let mut hoards = Allowance::new(now);
        assert!(hoards.pay(1, u64::MAX, ADDRESS, &addresses, now));
        assert!(!hoards.pay(20_000, u64::MAX, ADDRESS, &addresses, now));
    }
}
