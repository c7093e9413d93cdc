//! HTTP/2 connections: frames without a request, and answers that the client does not read.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Client;
use serde_json::{Value, json};

use crate::harness::{
    Host, eventually, js,
    raw::{DATA, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, Raw, SETTINGS},
};

const SECONDS: Duration = Duration::from_secs(20);
/// Maximum duration of a flood that the host must end. Without the limits it would never end.
const MAX_LEN: Duration = Duration::from_secs(60);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const PRIORITY: u8 = 2;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0xee;

/// A document of many frames.
const LONG: &str = "/docs/openapi.json";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Frame {
    Frame { kind, flags, stream, payload: payload.to_vec() }
}

/// Returns how many connections the host closed for this reason. Waits while requests are limited.
pub(crate) async fn closed(host: &Host, reason: &str) -> u64 {
    let metrics = eventually("the metrics are answered", SECONDS, async || {
        let answer = host.send(host.request(reqwest::Method::GET, "/metrics").header("x-admin-token", &host.admin)).await;
        (answer.status != 429).then(|| answer.is(200))
    })
    .await;
    let metrics = String::from_utf8(metrics.body.into()).unwrap();
    let line = format!("tollhouse_connections_closed_total{{reason=\"{reason}\"}} ");
    metrics.lines().find_map(|found| found.strip_prefix(&line)?.parse::<f64>().ok()).unwrap() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_without_requests_close_their_connections() {
    let host = Host::builder().flag("--http2-overhead-frames", 10).start().await;
    let kinds = [
        ("PING with ACK", frame(PING, 1, 0, &[7; 8])),
        ("PING", frame(PING, 0, 0, &[7; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1])),
        ("an unknown kind", frame(UNKNOWN, 0, 0, &[])),
        ("an unknown kind with a payload", frame(UNKNOWN, 0, 0, &[0; 16 << 10])),
    ];
    for (what, flood) in kinds {
        let before = closed(&host, "frames").await;
        let mut raw = Raw::open(&host).await;
        raw.begin_http2(&[]).await;
        let many = flood.bytes().repeat(64);
        for _ in 0..200 {
            if !raw.try_send(&many, SECONDS).await {
                break;
            }
        }
        raw.rest().await;
        assert_eq!(closed(&host, "frames").await, before + 1, "{what}");
    }
    // Strangers must not cause log lines. (h2 itself warns of each PING ACK.)
    assert!(!host.log().contains("PING"), "{}", host.log());
    // Frames of a request that carry no body, or that never end; and an unsolicited ACK, which is
    // an error in itself (RFC 9113, section 6.5.3) if it is read before such frames are counted.
    for (what, first, flood) in [
        ("SETTINGS with ACK", frame(SETTINGS, 1, 0, &[]), frame(SETTINGS, 1, 0, &[])),
        ("empty DATA", Frame::post(1, "/tools/nothing"), frame(DATA, 0, 1, &[])),
        ("CONTINUATION", frame(HEADERS, 0, 1, &[0x82]), frame(CONTINUATION, 0, 1, &[])),
    ] {
        let mut raw = Raw::open(&host).await;
        raw.begin_http2(&[]).await;
        raw.send(first.bytes()).await;
        let many = flood.bytes().repeat(64);
        let started = Instant::now();
        while started.elapsed() < MAX_LEN && raw.try_send(&many, SECONDS).await {}
        assert!(started.elapsed() < MAX_LEN, "{what}: the connection is closed");
    }
    host.get("/health/live").await.is(200);
}

/// Adds header fields of one byte each to a request: the first as text, the others by index (RFC
/// 7541, sections 6.1 and 6.2.1).
fn with_fields(mut request: Frame, fields: usize) -> Frame {
    request.payload.extend([0x40, 1, b'a', 1, b'b']);
    request.payload.extend(std::iter::repeat_n(0x80 | 62, fields - 1));
    request
}

#[tokio::test]
async fn a_request_has_so_many_header_fields() {
    let host = Host::start().await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    for (fields, status) in [(60, 200), (150, 431)] {
        for client in [&client, &reqwest::Client::new()] {
            let mut request = client.get(format!("{}/health/live", host.url));
            for n in 0..fields {
                request = request.header(format!("x-field-{n}"), "v");
            }
            assert_eq!(request.send().await.unwrap().status(), status, "{fields} fields");
        }
    }
    let host = Host::builder().flag("--head-fields", 200).start().await;
    let mut raw = Raw::open(&host).await;
    raw.begin_http2(&[]).await;
    raw.send(with_fields(Frame::get(1, "/health/live"), 150).bytes()).await;
    assert_eq!(raw.frame_of(HEADERS).await.unwrap().payload[0], 0x88, "status 200");
}

/// Opens a connection and sends 20 requests at a time for as long as the host answers. `request` builds the HTTP/2
/// request of a stream. Returns how long it took.
async fn ask_on(host: &Host, request: impl Fn(u32) -> Frame) -> Duration {
    let mut raw = Raw::open_from(host, ELSEWHERE).await;
    raw.begin_http2(&[]).await;
    // Makes room for all answers on the connection.
    raw.send(frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()).bytes()).await;
    let started = Instant::now();
    'asking: for n in (0..u32::MAX).step_by(20) {
        let requests = (n..n + 20).map(|n| request(2 * n + 1).bytes());
        if started.elapsed() > MAX_LEN || !raw.try_send(&requests.collect::<Vec<_>>().concat(), SECONDS).await {
            break;
        }
        // The client reads the answers, so that there is no other reason to close the connection.
        for _ in 0..20 {
            if raw.frame_of(HEADERS).await.is_none() {
                break 'asking;
            }
        }
    }
    started.elapsed()
}

/// One byte on the wire can be a field in memory. Rejections once cost as much as answers and earned as much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_refused_close_their_connections() {
    let host = Host::builder().flag("--http2-overhead-frames", 10).flag("--rate-limit", 20).start().await;
    // The header table belongs to the connection: the first request defines the fields, and the others refer to them.
    let large = |stream| with_fields(Frame::get(stream, "/health/live"), 1_000);
    let small = |stream| Frame::get(stream, "/health/live");
    let kinds: [(&str, &dyn Fn(u32) -> Frame); 2] = [("too many fields", &large), ("too many requests", &small)];
    for (what, request) in kinds {
        let before = closed(&host, "frames").await;
        let went_on = ask_on(&host, request).await;
        assert!(went_on < MAX_LEN, "{what} over HTTP/2: the connection is closed");
        let counted = format!("{what} are counted over HTTP/2");
        eventually(&counted, SECONDS, async || (closed(&host, "frames").await > before).then_some(())).await;
    }
    // The same over HTTP/1, which has no frames.
    let before = closed(&host, "frames").await;
    let mut raw = Raw::open_from(&host, ELSEWHERE).await;
    let started = Instant::now();
    let requests = "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(20);
    while started.elapsed() < MAX_LEN && raw.try_send(requests.as_bytes(), SECONDS).await {}
    assert!(started.elapsed() < MAX_LEN, "the connection is closed");
    raw.rest().await;
    eventually("it is counted over HTTP/1", SECONDS, async || (closed(&host, "frames").await > before).then_some(())).await;
}

/// `node:http2` sends all heads and bodies at once, before the host begins any request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_of_posts_are_answered_on_every_connection() {
    const REQUESTS: u32 = 100;
    for (flag, value) in [("--http2-overhead-frames", 10), ("--rate-limit", 100)] {
        let host = Host::builder().flag(flag, value).start().await;
        host.publish(&js("echo", 0.0, "export default (req) => req.input;")).await;
        let before = closed(&host, "frames").await;
        let connections = (0..30).map(|_| async {
            let mut raw = Raw::open_from(&host, ELSEWHERE).await;
            raw.begin_http2(&[]).await;
            let posts = (0..REQUESTS).map(|n| {
                let stream = 2 * n + 1;
                [Frame::post(stream, "/tools/echo"), frame(DATA, 0, stream, b"{\"n\":1}"), frame(DATA, 1, stream, &[])]
                    .map(|frame| frame.bytes())
            });
            raw.send(posts.flatten().collect::<Vec<_>>().concat()).await;
            let mut answered = 0;
            while answered < REQUESTS && raw.frame_of(HEADERS).await.is_some() {
                answered += 1;
            }
            answered
        });
        let answered = join_all(connections).await;
        assert!(answered.iter().all(|answered| *answered == REQUESTS), "{flag} {value}: {answered:?}");
        assert_eq!(closed(&host, "frames").await, before, "{flag} {value}");
    }
}

/// Reads frames until one of this type has arrived on each of the streams. Returns whether stream 1 was answered meanwhile.
async fn each_gets(raw: &mut Raw, kind: u8, streams: &[u32]) -> bool {
    let (mut missing, mut first) = (streams.to_vec(), false);
    while !missing.is_empty() {
        let frame = raw.frame().await.unwrap_or_else(|| panic!("the connection was closed before {missing:?}"));
        assert_ne!(frame.kind, GOAWAY, "{:?}", String::from_utf8_lossy(&frame.payload));
        first |= frame.kind == HEADERS && frame.stream == 1;
        if frame.kind == kind {
            missing.retain(|stream| *stream != frame.stream);
        }
    }
    first
}

/// h2 answers each such body with a reset. It once counted them over the life of the connection, and closed it after 50.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_bodies_of_answered_requests_end_no_other_calls() {
    const AT_ONCE: u32 = 90;
    const BODY: usize = 5_000;
    let stranger = Host::builder().flag("--http2-overhead-frames", 500);
    let proxy = Host::builder().flag("--trusted-proxies", "127.0.0.0/8");
    for (what, builder) in [("a stranger", stranger), ("a trusted proxy", proxy)] {
        let host = builder.start().await;
        let slow = "export default async () => { await new Promise((done) => setTimeout(done, 8_000)); return { done: true }; };";
        let mut tool = js("slow", 0.0, slow);
        tool["limits"] = json!({ "wallMs": 20_000 });
        host.publish(&tool).await;
        let before = closed(&host, "frames").await;
        let mut raw = Raw::open_from(&host, ELSEWHERE).await;
        raw.begin_http2(&[]).await;
        // Room for all answers.
        raw.send(frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()).bytes()).await;
        raw.send([Frame::post(1, "/tools/slow").bytes(), frame(DATA, 1, 1, b"{}").bytes()].concat()).await;
        let mut slow_answered = false;
        for round in 0..4 {
            let streams = (1..=AT_ONCE).map(|n| 2 * (AT_ONCE * round + n) + 1).collect::<Vec<_>>();
            raw.send(streams.iter().flat_map(|stream| Frame::post(*stream, "/tools/missing").bytes()).collect::<Vec<_>>()).await;
            // The host gives up on the bodies after a while and resets the streams.
            slow_answered |= each_gets(&mut raw, RST_STREAM, &streams).await;
            raw.send(streams.iter().flat_map(|stream| frame(DATA, 1, *stream, &[b' '; BODY]).bytes()).collect::<Vec<_>>()).await;
        }
        assert!(slow_answered || each_gets(&mut raw, HEADERS, &[1]).await, "{what}: the slow call is answered");
        assert_eq!(closed(&host, "frames").await, before, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_bodies_that_follow_at_once_are_discarded_without_resets() {
    let host = Host::start().await;
    let mut raw = Raw::open_from(&host, ELSEWHERE).await;
    raw.begin_http2(&[]).await;
    for stream in (1..=59).step_by(2) {
        raw.send(Frame::post(stream, "/tools/missing").bytes()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        raw.send(frame(DATA, 1, stream, &[b' '; 5_000]).bytes()).await;
        loop {
            let frame = raw.frame().await.expect("the connection goes on");
            assert_ne!(frame.kind, RST_STREAM, "stream {stream}");
            if frame.stream == stream && frame.flags & 1 == 1 {
                break;
            }
        }
    }
}

/// Bodies of requests that were answered long ago, or never began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_late_bodies_close_their_connections() {
    const NEWEST: u32 = 201;
    let stranger = Host::builder().flag("--http2-overhead-frames", 10);
    let proxy = Host::builder().flag("--trusted-proxies", "127.0.0.0/8");
    for (what, builder) in [("a stranger", stranger), ("a trusted proxy", proxy)] {
        let host = builder.start().await;
        for first in [1, NEWEST] {
            let mut raw = Raw::open_from(&host, ELSEWHERE).await;
            raw.begin_http2(&[]).await;
            raw.send(Frame::post(NEWEST, "/tools/missing").bytes()).await;
            each_gets(&mut raw, RST_STREAM, &[NEWEST]).await;
            let many = (first..=NEWEST).step_by(2).flat_map(|stream| frame(DATA, 0, stream, &[b' '; 100]).bytes()).collect::<Vec<_>>();
            let started = Instant::now();
            // The client does not read the resets. Either the frames are too many, or they exceed the window.
            while started.elapsed() < MAX_LEN && raw.try_send(&many, SECONDS).await {}
            assert!(started.elapsed() < MAX_LEN, "{what}: the connection is closed");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_whose_bodies_do_not_come_count_as_bodies_in_memory() {
    const HELD: u64 = 1 << 20;
    let host = Host::builder().flag("--body-bytes-held", HELD).start().await;
    host.publish(&js("echo", 0.0, "export default (req) => req.input;")).await;
    host.call("echo", &json!({})).await.is(200);
    let bytes = || async { host.get("/health").await.is(200).json()["intake"]["bodyBytesHeld"].as_u64().unwrap() };
    let mut raw = Raw::open_from(&host, ELSEWHERE).await;
    raw.begin_http2(&[]).await;
    // 90 fields of 8 bytes plus overhead: about 12 KB.
    for n in 0..90 {
        raw.send(with_fields(Frame::post(2 * n + 1, "/tools/echo"), 90).bytes()).await;
    }
    let max = eventually("heads are counted", SECONDS, || async { Some(bytes().await).filter(|held| *held > HELD / 2) }).await;
    assert!(max <= HELD, "{max}");
    assert!(raw.frame_of(HEADERS).await.is_some(), "requests without room are rejected");
    host.get("/health/live").await.is(200);
    drop(raw);
    eventually("all of it is given back", SECONDS, || async { (bytes().await == 0).then_some(()) }).await;
}

/// Regression test: only heads whose bodies were still to come were counted.
#[tokio::test]
async fn heads_of_requests_that_wait_count_as_bodies_in_memory() {
    const HELD: u64 = 1 << 20;
    let host = Host::builder().flag("--body-bytes-held", HELD).start().await;
    let mut sleeps = js("sleeps", 0.0, "export default () => new Promise((done) => setTimeout(() => done(1), 4000));");
    sleeps["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&sleeps).await;
    let bytes = || async { host.get("/health").await.is(200).json()["intake"]["bodyBytesHeld"].as_u64().unwrap() };
    let mut raw = Raw::open_from(&host, ELSEWHERE).await;
    raw.begin_http2(&[]).await;
    raw.send(with_fields(Frame::get(1, "/tools/sleeps"), 90).bytes()).await;
    // 90 fields of 8 bytes plus overhead: about 12 KB.
    eventually("the head is counted", SECONDS, || async { Some(bytes().await).filter(|held| *held > 8 << 10) }).await;
    drop(raw);
    eventually("all of it is given back", SECONDS, || async { (bytes().await == 0).then_some(()) }).await;
}

#[tokio::test]
async fn frame_limits_can_be_disabled() {
    let host = Host::builder().flag("--http2-overhead-frames", 0).start().await;
    let mut raw = Raw::open(&host).await;
    raw.begin_http2(&[]).await;
    for _ in 0..100 {
        raw.send(frame(PING, 1, 0, &[7; 8]).bytes().repeat(100)).await;
    }
    raw.send(Frame::get(1, "/health/live").bytes()).await;
    assert_eq!(raw.frame_of(HEADERS).await.unwrap().payload[0], 0x88, "status 200");
}

#[tokio::test]
async fn frames_that_go_with_requests_and_answers_are_no_overhead() {
    let host = Host::builder().flag("--http2-overhead-frames", 1).start().await;
    let mut raw = Raw::open(&host).await;
    // A small window, so that each few kilobytes need window updates for the stream and the
    // connection.
    raw.begin_http2(&[(INITIAL_WINDOW_SIZE, 4 << 10)]).await;
    let mut acknowledged = 0;
    for stream in (1..60).step_by(2) {
        raw.send(Frame::get(stream, LONG).bytes()).await;
        loop {
            let data = raw.frame_of(DATA).await.expect("the connection goes on");
            let more = u32::try_from(data.payload.len()).unwrap().to_be_bytes();
            if data.flags & 1 == 1 {
                // Its stream has ended; the window of the connection is for the next one.
                if !data.payload.is_empty() {
                    raw.send(frame(WINDOW_UPDATE, 0, 0, &more).bytes()).await;
                }
                break;
            }
            raw.send([frame(WINDOW_UPDATE, 0, stream, &more).bytes(), frame(WINDOW_UPDATE, 0, 0, &more).bytes()].concat()).await;
            acknowledged += 2;
        }
        // As clients do to keep the connection alive.
        raw.send(Frame::ping().bytes()).await;
        assert!(raw.frame_of(PING).await.is_some_and(|pong| pong.is_ack()));
    }
    assert!(acknowledged > 1_000, "{acknowledged} updates");
}

/// Returns the bytes of answers that the host holds.
async fn held(host: &Host) -> u64 {
    host.get("/health").await.is(200).json()["intake"]["answerBytesHeld"].as_u64().unwrap()
}

/// Requests `path` this many times on one connection, without reading the answers.
async fn hoard(host: &Host, from: Ipv4Addr, path: &str, times: u32) -> Raw {
    let mut raw = Raw::open_from(host, from).await;
    raw.begin_http2(&[(INITIAL_WINDOW_SIZE, 0)]).await;
    for n in 0..times {
        if !raw.try_send(&Frame::get(2 * n + 1, path).bytes(), SECONDS).await {
            break;
        }
    }
    raw
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_takes_hold_no_more_than_the_memory_for_answers() {
    const HELD: u64 = 16 << 20;
    const OF_ADDRESS: u64 = 4 << 20;
    const CONNECTIONS: u32 = 6;
    let host = Host::builder().flag("--answer-bytes-held", HELD).flag("--address-answer-bytes-held", OF_ADDRESS).start().await;
    let mut tool = js("big", 0.0, "export default () => ({ text: 'x'.repeat(1_000_000) });");
    tool["limits"] = json!({ "outputBytes": 1 << 20 });
    host.publish(&tool).await;
    host.call("big", &json!({})).await.is(200);
    let before = host.resident();
    let hoards = join_all((0..CONNECTIONS).map(|_| hoard(&host, ELSEWHERE, "/tools/big", 40))).await;
    let mut max = eventually("the address has its share", SECONDS, || async {
        let held = held(&host).await;
        (held > OF_ADDRESS / 2).then_some(held)
    })
    .await;
    for _ in 0..20 {
        max = max.max(held(&host).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Refusals are not within the share. Each one needs memory like an answer without a body.
    let refusals = u64::from(CONNECTIONS) * 40 * (9 << 10);
    assert!(max <= OF_ADDRESS + refusals, "{max} bytes are held");
    let grown = host.resident().saturating_sub(before);
    println!("240 answers of 1 MB asked for: {} KiB held, {} MiB more resident", max >> 10, grown >> 20);
    // Data on the way from workers count too, and there are more of them on a busy machine.
    assert!(grown < 200 << 20, "the process has grown by {grown} bytes");
    // Another address has its own share, and gets long answers.
    host.call("big", &json!({})).await.is(200);
    host.get(LONG).await.is(200);
    drop(hoards);
    eventually("all of it is given back", SECONDS, || async { (held(&host).await < 100_000).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_reads_nothing_asks_for_nothing_more() {
    let host = Host::builder().flag("--address-answer-bytes-held", 1 << 20).start().await;
    // Fewer on each connection than the number that would close it.
    let hoards = join_all((0..8).map(|_| hoard(&host, ELSEWHERE, LONG, 7))).await;
    let refused = eventually("the address has its share", SECONDS, || async {
        let mut further = Raw::open_from(&host, ELSEWHERE).await;
        further.send("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        let (head, body) = further.answer().await;
        head.starts_with("http/1.1 503").then_some((head, body))
    })
    .await;
    let reported: Value = serde_json::from_str(&refused.1).unwrap();
    assert!(refused.0.contains("retry-after: 1"), "{}", refused.0);
    assert_eq!((&reported["error"]["code"], &reported["error"]["charged"]), (&json!("busy"), &json!(false)));
    assert!(reported["error"]["message"].as_str().unwrap().contains("1048576 bytes"), "{reported}");
    host.get("/health/live").await.is(200);
    drop(hoards);
    eventually("it may ask again", SECONDS, || async {
        let mut again = Raw::open_from(&host, ELSEWHERE).await;
        again.send("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        again.answer().await.0.starts_with("http/1.1 200").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_answer_goes_out_whatever_strangers_hold() {
    // There is no limit per address. One address fills the whole memory, and waits longer than the
    // test takes.
    let host = Host::builder().flag("--answer-bytes-held", 1 << 20).flag("--address-answer-bytes-held", 0).start().await;
    let answer = "export default () => ({ text: 'x'.repeat(200_000) });";
    host.publish(&js("paid", 0.01, answer)).await;
    host.publish(&js("free", 0.0, answer)).await;
    let credit = host.mint(1.0).await;
    host.call_credit("paid", &json!({}), &credit).await.is(200);
    let hoards = join_all((0..2).map(|_| hoard(&host, ELSEWHERE, "/tools/free", 7))).await;
    let refused = eventually("the memory for answers is full", MAX_LEN, || async {
        let answer = host.call("free", &json!({})).await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    refused.fails(503, "busy", "host");
    host.call_credit("paid", &json!({}), &credit).await.is(200);
    host.get("/health/live").await.is(200);
    drop(hoards);
    eventually("there is room again", SECONDS, || async { (host.call("free", &json!({})).await.status == 200).then_some(()) }).await;
}

#[tokio::test]
async fn an_answer_that_is_larger_than_the_memory_for_answers_goes_alone() {
    let flags = ["--answer-bytes-held", "--address-answer-bytes-held"];
    let elsewhere = Client::builder().no_proxy().local_address(Some(ELSEWHERE.into())).build().unwrap();
    for (flag, other) in [(flags[0], flags[1]), (flags[1], flags[0])] {
        let host = Host::builder().flag(flag, 100_000).flag(other, 0).start().await;
        host.publish(&js("large", 0.0, "export default () => ({ text: 'x'.repeat(200_000) });")).await;
        let call = || host.send(elsewhere.post(format!("{}/tools/large", host.url)).json(&json!({})));
        for _ in 0..3 {
            call().await.is(200);
        }
        // One answer is unread, so a second must wait.
        let hoard = hoard(&host, ELSEWHERE, "/tools/large", 1).await;
        eventually("it is on its way", SECONDS, || async { (held(&host).await > 100_000).then_some(()) }).await;
        call().await.fails(503, "busy", "host");
        drop(hoard);
        eventually("there is room again", SECONDS, || async { (call().await.status == 200).then_some(()) }).await;
    }
}
