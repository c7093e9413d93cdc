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

/// Returns a frame of this stream with these flags.
fn on(stream: u8, kind: u8, flags: u8, length: usize) -> Vec<u8> {
    let mut frame = frame(kind, length);
    (frame[4], frame[8]) = (flags, stream);
    frame
}

fn scanner(streams: u32) -> Scanner {
    Scanner::new(Costly::Overhead, streams)
}

#[test]
fn first_short_body_frame_of_a_request_is_free() {
    let cost = |frames: &[Vec<u8>]| scanner(3).cost(&[&PREFACE[..], &frames.concat()].concat());
    let (head, get, data) = (|n| on(n, HEADERS, 4, 20), on(1, HEADERS, 5, 20), |n, flags| on(n, DATA, flags, 2));
    assert_eq!(cost(&[head(1), data(1, 0), data(1, 1)]), 2, "a second one does");
    let requests = [head(1), head(3), head(5), data(3, 1), data(5, 1), data(1, 1)];
    assert_eq!(cost(&requests), 3, "in whatever order they come");
    assert_eq!(cost(&[get, data(1, 1)]), 2, "one without a body has none");
    let many = (1..=10).map(head).chain((1..=10).map(|n| data(n, 1))).collect::<Vec<_>>();
    assert_eq!(cost(&many), 10 + 7, "no more than may be under way");
}

#[test]
fn body_frames_without_an_open_request_are_overhead() {
    let body = on(1, DATA, 0, 1_000).repeat(4);
    let reset = on(1, RST_STREAM, 0, 4);
    for (costly, of_reset) in [(Costly::Overhead, 1), (Costly::Resettable, 0)] {
        let started = || {
            let mut scanner = Scanner::new(costly, 3);
            assert_eq!(scanner.cost(&[&PREFACE[..], &on(1, HEADERS, 4, 20), &body].concat()), 1, "{costly:?}");
            scanner
        };
        let mut answered = started();
        // The answer's head and the reset, in pieces.
        for piece in [on(0, 4, 0, 0), on(1, HEADERS, 4, 20), reset.clone()].concat().chunks(5) {
            answered.record_sent(piece);
        }
        assert_eq!(answered.cost(&body), 4, "{costly:?}: the host has reset the stream");
        assert_eq!(answered.cost(&on(1, HEADERS, 4, 20)), 1);
        assert_eq!(answered.cost(&body), 4, "{costly:?}: a second head does not open it again");
        let mut canceled = started();
        assert_eq!(canceled.cost(&reset), of_reset);
        assert_eq!(canceled.cost(&body), 4, "{costly:?}: the client has reset the stream");
        let mut complete = started();
        assert_eq!(complete.cost(&on(1, DATA, 1, 64)), 0);
        assert_eq!(complete.cost(&body), 4, "{costly:?}: the body was complete");
        assert_eq!(started().cost(&on(3, DATA, 0, 64)), 1, "{costly:?}: the stream has not begun");
    }
    let pings = frame(PING, 8).repeat(100);
    assert_eq!(Scanner::new(Costly::Resettable, 3).cost(&[&PREFACE[..], &pings].concat()), 0);
}

#[test]
fn shared_connection_has_a_large_but_finite_allowance() {
    let mut now = Instant::now();
    let mut shared = Allowance::shared(now);
    shared.add_streams(100);
    for _ in 0..60 {
        assert_eq!(shared.pay_alone(SHARED_PER_SECOND as u32, 0, now), None);
        now += Duration::from_secs(1);
    }
    assert_eq!(shared.pay_alone(MAX_EARNED as u32, 0, now), None);
    assert!(shared.pay_alone(1, 0, now).is_some());
}

#[test]
fn burst_covers_the_maximum_of_concurrent_requests() {
    let (now, addresses) = (Instant::now(), of_addresses(1));
    for streams in [1, 100, 1_000] {
        let mut burst = Allowance::new(now);
        burst.add_streams(streams);
        // A head and two body frames for each request, before any of them begins.
        assert!(burst.pay(3 * streams, 0, ADDRESS, &addresses, now));
    }
    let mut max = Allowance::new(now);
    max.add_streams(u32::MAX);
    assert!(max.remaining <= MAX_EARNED);
}

#[test]
fn frames_are_counted_across_any_chunk_boundaries() {
    let frames = [frame(4, 0), frame(PING, 8), frame(DATA, 64), frame(DATA, 0), frame(DATA, 63), frame(0xee, 16 << 10), frame(1, 20)];
    let bytes = [&PREFACE[..], &frames.concat()].concat();
    // The large frame counts as five. The body frames belong to no request.
    let requested = 1 + 1 + 1 + 1 + 1 + 5 + 1;
    for size in [1, 2, 8, 9, 10, 24, 1_000, bytes.len()] {
        let mut scanner = scanner(100);
        assert_eq!(bytes.chunks(size).map(|piece| scanner.cost(piece)).sum::<u32>(), requested, "in pieces of {size}");
        assert!(scanner.is_http2());
    }
}

#[test]
fn http1_has_no_frames() {
    let mut counted = scanner(100);
    assert!(!counted.is_http2());
    assert_eq!(counted.cost(b"PRI * HTTP/2.0\r\n\r\nS"), 0);
    assert_eq!(counted.cost(&[0; 1_000]), 0);
    assert!(!counted.is_http2());
    assert_eq!(scanner(100).cost(b"GET / HTTP/1.1\r\n\r\n\0\0\0\x06\0\0\0\0\0"), 0);
}

/// Returns a limiter that regains one frame per second.
fn of_addresses(at_once: u32) -> RateLimiter<IpAddr> {
    RateLimiter::with_burst(NonZeroU32::MIN, NonZeroU32::new(at_once).unwrap())
}

#[test]
fn connection_pays_for_overhead_before_its_address() {
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
fn earned_frames_and_keep_alive_pings_are_free() {
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
    assert!(idle.remaining <= AT_ONCE, "nothing is saved up by being idle: {}", idle.remaining);
    let mut hoards = Allowance::new(now);
    assert!(hoards.pay(1, u64::MAX, ADDRESS, &addresses, now));
    assert!(!hoards.pay(20_000, u64::MAX, ADDRESS, &addresses, now));
}
