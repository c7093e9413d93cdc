//! Connections: their time limits, their number, their memory, and their end.

use std::{
    fs,
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{
    Host, eventually, js,
    raw::{DATA, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, PING, RST_STREAM, Raw, SETTINGS},
    stream::Stream,
};
use crate::http2::closed;

const ECHO: &str = "export default (req) => req.input;";
const SLOW: &str = "export default async (req) => { await new Promise((done) => setTimeout(done, req.input.ms)); return { done: true }; };";
const SECONDS: Duration = Duration::from_secs(10);

const GET: &str = "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn post(path: &str, headers: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n")
}

async fn open_connections(host: &Host) -> u64 {
    host.get("/health").await.is(200).json()["intake"]["connections"].as_u64().unwrap()
}

#[tokio::test]
async fn a_head_that_takes_too_long_ends_its_connection() {
    let host = Host::builder().flag("--head-ms", 400).start().await;
    let silent = async {
        Raw::open(&host).await.rest().await;
    };
    let slow = async |before: &str| {
        let mut slow = Raw::open(&host).await;
        if !before.is_empty() {
            slow.send(before).await;
            slow.answer().await;
        }
        let started = Instant::now();
        let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-pad: {}", "x".repeat(10_000));
        for byte in head.bytes() {
            if !slow.try_send(&[byte], SECONDS).await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        // The deadline is the subject.
        assert!(started.elapsed() < SECONDS, "each byte gave it more time");
    };
    tokio::join!(silent, slow(""), slow(GET));
    // A connection that sends its head at once is not affected.
    Raw::open(&host).await.send(GET).await;
    host.get("/health/live").await.is(200);
}

#[tokio::test]
async fn an_idle_connection_ends_and_one_that_waits_for_its_answer_does_not() {
    let host = Host::builder().flag("--idle-ms", 300).flag("--head-ms", 200).start().await;
    host.publish(&js("slow", 0.0, SLOW)).await;
    let mut follower = Stream::open(host.request(Method::GET, "/ai/endpoints/slow/logs").header("x-admin-token", &host.admin)).await;
    let mut idle = Raw::open(&host).await;
    for _ in 0..2 {
        idle.send(GET).await;
        idle.answer().await;
    }
    assert_eq!(idle.rest().await, b"");

    let mut waits = Raw::open(&host).await;
    let input = json!({ "ms": 1_500 }).to_string();
    waits.send(post("/tools/slow", "", input.len()) + &input).await;
    assert_eq!(waits.answer().await.1, r#"{"done":true}"#);
    // A follower also stays connected, although nothing was sent for that long.
    let mut tool = js("slow", 0.0, "export default (req, ctx) => { ctx.log.info('told'); return {}; };");
    tool.as_object_mut().unwrap().retain(|name, _| name == "handler");
    host.change("slow", &tool).await;
    host.call("slow", &json!({})).await.is(200);
    assert_eq!(follower.next().await.unwrap().data["message"], "told");
}

#[tokio::test]
async fn a_body_that_stalls_or_takes_too_long_is_informed_at_every_door() {
    let host = Host::builder().flag("--body-stall-ms", 300).flag("--body-ms", 900).start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    let token = format!("x-admin-token: {}\r\n", host.admin);
    let doors = [("/tools/echo", ""), ("/ai/invoke", ""), ("/ai/endpoints/create", token.as_str()), ("/ai/credits", token.as_str())];
    let describe = async |slow: &mut Raw, path: &str| {
        let (head, body) = slow.answer().await;
        assert!(head.starts_with("http/1.1 408"), "{path}: {head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["error"]["code"], &body["error"]["fault"]), (&json!("body_too_slow"), &json!("caller")), "{path}");
        slow.rest().await;
    };
    let stalls = async |(path, headers)| {
        let mut slow = Raw::open(&host).await;
        slow.send(post(path, headers, 10_000) + "    ").await;
        describe(&mut slow, path).await;
    };
    let goes_on_and_on = async |(path, headers)| {
        let mut slow = Raw::open(&host).await;
        slow.send(post(path, headers, 10_000)).await;
        let started = Instant::now();
        while !slow.receives_within(Duration::from_millis(50)).await {
            slow.send("    ").await;
        }
        // The time limit is the subject: one second.
        assert!((800..5_000).contains(&started.elapsed().as_millis()), "{path}: {:?}", started.elapsed());
        describe(&mut slow, path).await;
    };
    join_all(doors.map(stalls)).await;
    join_all(doors.map(goes_on_and_on)).await;
    // A slow body that ends in time is handled as usual.
    let mut slow = Raw::open(&host).await;
    slow.send(post("/tools/echo", "", 9)).await;
    for piece in ["{\"a\"", ": 1", " }"] {
        tokio::time::sleep(Duration::from_millis(100)).await;
        slow.send(piece).await;
    }
    let (head, body) = slow.answer().await;
    assert!(head.starts_with("http/1.1 200") && body == r#"{"a":1}"#, "{head}{body}");
    let mut mcp = Raw::open(&host).await;
    mcp.send(post("/ai/mcp", "accept: application/json, text/event-stream\r\n", 1_000) + "{").await;
    let (head, body) = mcp.answer().await;
    assert!(head.starts_with("http/1.1 408") && body.contains("jsonrpc"), "{head}{body}");
}

/// Returns the host's resident memory.
fn rss(host: &Host) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", host.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_bodies_hold_no_more_than_the_memory_for_bodies() {
    const HELD: u64 = 16 << 20;
    const SENT: usize = 3 << 20;
    let host = Host::builder().flag("--body-bytes-held", HELD).flag("--body-stall-ms", 60_000).start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    host.call("echo", &json!({ "warm": true })).await.is(200);
    let before = rss(&host);
    let head = post("/ai/endpoints/create", &format!("x-admin-token: {}\r\n", host.admin), 4 << 20);
    let half = vec![b' '; SENT];
    let mut bodies = join_all((0..60).map(|_| async {
        let mut body = Raw::open(&host).await;
        body.send(&head).await;
        (body.try_send(&half, SECONDS).await, body)
    }))
    .await;
    let intake = || async { host.get("/health").await.is(200).json()["intake"]["bodyBytesHeld"].as_u64().unwrap() };
    let held = eventually("everything sent is read", SECONDS, || async {
        let held = intake().await;
        assert!(held <= HELD, "{held}");
        (held > HELD / 4).then_some(held)
    })
    .await;
    let grown = rss(&host).saturating_sub(before);
    println!("{} MiB half sent in 60 bodies: {} MiB are held, {} MiB more are resident", (60 * SENT) >> 20, held >> 20, grown >> 20);
    // Memory beyond the held bodies: the buffers of 60 connections, and memory that the allocator
    // keeps.
    assert!(grown < 60 * SENT as u64 / 3 * 2, "the process has grown by {grown} bytes");
    // Calls with a small body still work.
    host.call("echo", &json!({ "small": true })).await.is(200);
    // For a body without room, the refusal comes when all of it was sent, or when the client stops.
    let (mut refused, mut others) = (0, vec![]);
    for (sent, body) in &mut bodies {
        if !*sent || !body.try_send(&vec![b' '; (4 << 20) - SENT], SECONDS).await {
            others.push(format!("not sent: the first part {sent}"));
            continue;
        }
        let (head, answer) = body.answer().await;
        if head.starts_with("http/1.1 503") {
            assert!(head.contains("retry-after: 1") && answer.contains("\"busy\""), "{head}{answer}");
            refused += 1;
        } else {
            others.push(head.lines().next().unwrap_or_default().to_owned());
        }
    }
    assert!(refused > 40, "{refused} of 60 were rejected for lack of room; the others: {others:?}");
    drop(bodies);
    eventually("all of it is given back", SECONDS, || async { (intake().await == 0).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_heads_count_as_bodies_in_memory() {
    const HELD: u64 = 1 << 20;
    let host = Host::builder().flag("--body-bytes-held", HELD).flag("--head-ms", 60_000).start().await;
    let held = || async { host.get("/health").await.is(200).json()["intake"]["bodyBytesHeld"].as_u64().unwrap() };
    let half = format!("GET /health/live HTTP/1.1\r\nhost: localhost\r\nx-pad: {}", "x".repeat(50_000));
    let mut one = Raw::open(&host).await;
    one.send(&half).await;
    eventually("it is counted", SECONDS, || async { (held().await >= 50_000).then_some(()) }).await;
    one.send("\r\n\r\n").await;
    assert!(one.answer().await.0.starts_with("http/1.1 200"));
    eventually("it is returned", SECONDS, || async { (held().await == 0).then_some(()) }).await;
    let mut many = vec![];
    for _ in 0..30 {
        many.push(Raw::open(&host).await);
        many.last_mut().unwrap().try_send(half.as_bytes(), SECONDS).await;
    }
    eventually("some have no room", SECONDS, || async { (closed(&host, "held").await > 0).then_some(()) }).await;
    let max = held().await;
    assert!((HELD / 2..=HELD).contains(&max), "{max}");
    drop(many);
    eventually("all of it is returned", SECONDS, || async { (held().await == 0).then_some(()) }).await;
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_others_have_theirs() {
    let host = Host::builder().flag("--address-connections", 6).flag("--connections", 9).start().await;
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let mut held = vec![];
    for _ in 0..6 {
        held.push(Raw::open(&host).await);
    }
    // Connections are accepted in order, so the seventh is one too many.
    let told_so = async |from: Ipv4Addr| {
        let mut further = Raw::open_from(&host, from).await;
        further.send(GET).await;
        let (head, body) = further.answer().await;
        assert!(head.starts_with("http/1.1 503") && head.contains("retry-after: 1") && head.contains("connection: close"), "{head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["error"]["code"], &body["error"]["fault"], &body["ok"]), (&json!("busy"), &json!("host"), &json!(false)));
        assert!(head.contains(&format!("x-request-id: {}", body["error"]["requestId"].as_str().unwrap().to_ascii_lowercase())), "{head}");
        body["error"]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(told_so(Ipv4Addr::LOCALHOST).await, "Your address has reached its limit of 6 connections");
    let served = async |from: Ipv4Addr| {
        let mut one = Raw::open_from(&host, from).await;
        one.send(GET).await;
        assert!(one.answer().await.0.starts_with("http/1.1 200"));
        one
    };
    for _ in 0..3 {
        held.push(served(other).await);
    }
    assert_eq!(told_so(other).await, "The host has reached its limit of 9 connections");
    held.clear();
    eventually("there is room again", SECONDS, || async {
        let mut one = Raw::open(&host).await;
        one.send(GET).await;
        one.answer().await.0.starts_with("http/1.1 200").then_some(())
    })
    .await;
}

#[tokio::test]
async fn addresses_with_many_connections_leave_room_for_newcomers() {
    let host = Host::builder().flag("--address-connections", 20).flag("--connections", 64).flag("--idle-ms", 60_000).start().await;
    let open = async |from: u8| {
        let mut one = Raw::open_from(&host, Ipv4Addr::new(127, 0, 0, from)).await;
        one.send(GET).await;
        one.answer().await.0.starts_with("http/1.1 200").then_some(one)
    };
    let mut held = vec![];
    'full: for from in 2..5 {
        for _ in 0..20 {
            match open(from).await {
                Some(one) => held.push(one),
                None => break 'full,
            }
        }
    }
    assert!((50..60).contains(&held.len()), "{} connections of three addresses", held.len());
    for _ in 0..2 {
        held.push(open(9).await.expect("an eighth is reserved for addresses with few connections"));
    }
    // Meanwhile, idle connections of the others end early.
    held.push(eventually("there is room for all", SECONDS, || async { open(4).await }).await);
    drop(held);
}

#[tokio::test]
async fn an_address_that_opens_connections_too_fast_finds_them_closed() {
    let host = Host::builder().flag("--rate-limit", 1).start().await;
    let (busy, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    for _ in 0..512 {
        drop(Raw::open_from(&host, busy).await);
    }
    // The address can open two more per second.
    let mut closed = 0;
    for _ in 0..100 {
        let mut further = Raw::open_from(&host, busy).await;
        further.try_send(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", SECONDS).await;
        closed += usize::from(further.rest().await.is_empty());
    }
    assert!(closed > 50, "{closed} of 100 were closed");
    let mut one = Raw::open_from(&host, other).await;
    one.send(GET).await;
    assert!(one.answer().await.0.starts_with("http/1.1 200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_very_many_tiny_chunks_close_their_connections() {
    const HEAD: &str =
        "POST /tools/echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    const CHUNK: &[u8] = b"1\r\n \r\n";
    let host = Host::builder().flag("--http2-overhead-frames", 10).start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    let mut few = Raw::open(&host).await;
    for _ in 0..3 {
        few.send([HEAD.as_bytes(), &CHUNK.repeat(900), b"2\r\n{}\r\n0\r\n\r\n"].concat()).await;
        let (head, body) = few.answer().await;
        assert!(head.starts_with("http/1.1 200") && body == "{}", "{head}{body}");
    }
    let mut flood = Raw::open(&host).await;
    flood.send(HEAD).await;
    // A busy host reads slowly, and then the flood takes longer.
    for _ in 0..500 {
        if !flood.try_send(&CHUNK.repeat(20_000), SECONDS).await {
            break;
        }
    }
    flood.rest().await;
    eventually("its end is counted", SECONDS, async || (closed(&host, "frames").await == 1).then_some(())).await;
}

#[tokio::test]
async fn http2_has_so_many_streams_and_no_rapid_reset() {
    let host = Host::builder().flag("--http2-streams", 4).start().await;
    host.publish(&js("slow", 0.0, SLOW)).await;
    let mut many = Raw::open(&host).await;
    many.begin_http2(&[]).await;
    let settings = many.frame_of(SETTINGS).await.unwrap();
    assert_eq!(settings.setting(MAX_CONCURRENT_STREAMS), Some(4));
    many.send((0..5).flat_map(|stream| Frame::get(2 * stream + 1, "/tools/slow?ms=1000").bytes()).collect::<Vec<_>>()).await;
    let refused = many.frame_of(RST_STREAM).await.unwrap();
    assert_eq!((refused.stream, refused.payload), (9, 7_u32.to_be_bytes().to_vec()), "REFUSED_STREAM");
    for _ in 0..4 {
        assert_eq!(many.frame_of(HEADERS).await.unwrap().payload[0], 0x88, "status 200");
    }

    let mut rapid = Raw::open(&host).await;
    rapid.begin_http2(&[]).await;
    for number in 0..5_000 {
        let stream = 2 * number + 1;
        let pair = [Frame::post(stream, "/tools/slow").bytes(), Frame::reset(stream).bytes()].concat();
        if !rapid.try_send(&pair, SECONDS).await {
            break;
        }
    }
    // The host sends GOAWAY, or just closes the connection.
    if let Some(reported) = rapid.frame_of(GOAWAY).await {
        assert_eq!(reported.payload[4..8], 11_u32.to_be_bytes(), "ENHANCE_YOUR_CALM, not {reported:?}");
        rapid.rest().await;
    }

    // Each request is started before it is canceled. Its body never comes, so none is answered; a
    // complete call would be answered even if no worker were free.
    let mut steady = Raw::open(&host).await;
    steady.begin_http2(&[]).await;
    let mut taken_back = 0;
    for stream in (1..2_001).step_by(2) {
        let started = [Frame::post(stream, "/tools/slow").bytes(), Frame::ping().bytes()].concat();
        if !steady.try_send(&started, SECONDS).await || steady.frame_of(PING).await.is_none() {
            break;
        }
        steady.try_send(&Frame::reset(stream).bytes(), SECONDS).await;
        taken_back += 1;
    }
    assert!((100..200).contains(&taken_back), "{taken_back} requests were canceled");
    host.get("/health/live").await.is(200);
}

#[tokio::test]
async fn client_that_never_reads_is_disconnected() {
    let host = Host::builder().flag("--write-stall-ms", 400).flag("--idle-ms", 0).start().await;
    let before = open_connections(&host).await;
    let mut deaf = Raw::open(&host).await;
    let ask = "GET /ai/content-safety/policy HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    // Until neither side can send anymore.
    while deaf.try_send(ask.as_bytes(), Duration::from_millis(300)).await {}
    eventually("the connection is closed", SECONDS, || async { (open_connections(&host).await == before).then_some(()) }).await;
    drop(deaf);
}

#[tokio::test]
async fn stalled_http2_stream_is_reset_alone() {
    let host = Host::builder().flag("--write-stall-ms", 400).start().await;
    let mut deaf = Raw::open(&host).await;
    deaf.begin_http2(&[(INITIAL_WINDOW_SIZE, 0)]).await;
    deaf.send(Frame::get(1, "/ai/content-safety/policy").bytes()).await;
    assert_eq!(deaf.frame_of(HEADERS).await.unwrap().stream, 1);
    let reset = deaf.frame_of(RST_STREAM).await.unwrap();
    assert_eq!(reset.stream, 1);
    // The connection stays open. A client that reads gets the whole answer.
    deaf.send(Frame::ping().bytes()).await;
    assert!(deaf.frame_of(PING).await.unwrap().is_ack());
    let mut hears = Raw::open(&host).await;
    hears.begin_http2(&[]).await;
    hears.send(Frame::get(1, "/ai/content-safety/policy").bytes()).await;
    let mut body = vec![];
    loop {
        let data = hears.frame_of(DATA).await.unwrap();
        body.extend(data.payload);
        if data.flags & 1 == 1 {
            break;
        }
    }
    assert_eq!(body, host.get("/ai/content-safety/policy").await.is(200).body, "an answer of many frames");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_asked_to_stop_lets_calls_end_on_every_kind_of_connection() {
    let host = Host::start().await;
    host.publish(&js("slow", 0.0, SLOW)).await;
    host.call("slow", &json!({ "ms": 0 })).await.is(200);
    let mut idle = Raw::open(&host).await;
    idle.send(GET).await;
    idle.answer().await;
    let http2 = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let mut follower = Stream::open(host.request(Method::GET, "/ai/endpoints/slow/logs").header("x-admin-token", &host.admin)).await;
    let input = json!({ "ms": 5_000 });
    let on_http2 = async { http2.post(format!("{}/tools/slow", host.url)).json(&input).send().await.unwrap().status().as_u16() };
    let streamed = async {
        let request = host.request(Method::POST, "/tools/slow").header("accept", "text/event-stream").json(&input);
        host.send(request).await.is(200).events().pop().unwrap().name
    };
    let ending = async {
        host.wait_for_calls(3).await;
        host.terminate();
        idle.rest().await;
    };
    let (on_http1, on_http2, streamed, ()) = tokio::join!(host.call("slow", &input), on_http2, streamed, ending);
    assert_eq!((on_http1.status, on_http2, streamed.as_str()), (200, 200, "result"));
    assert!(follower.next().await.is_none());
    eventually("the host has ended", SECONDS, || async { (!host.lives()).then_some(()) }).await;
}

#[tokio::test]
async fn a_host_without_descriptors_waits_for_some_and_continues() {
    let host = Host::builder().flag("--connections", 0).flag("--sandbox-spares", 0).descriptors(100).start().await;
    let mut many = vec![];
    for _ in 0..150 {
        many.push(Raw::open(&host).await);
    }
    // The host accepts as many as it can. It neither ends nor spins.
    eventually("it has run out", SECONDS, || async { host.log().contains("cannot accept connections").then_some(()) }).await;
    let spent = |host: &Host| host.cpu();
    let before = spent(&host);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(spent(&host) - before < Duration::from_millis(250), "it spins");
    assert_eq!(host.log().matches("cannot accept connections").count(), 1);
    drop(many);
    host.get("/health/live").await.is(200);
}

#[tokio::test]
async fn a_request_names_one_host() {
    let host = Host::start().await;
    for (head, status) in [
        ("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
        ("GET /health/live HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nhost: localhost\r\nHost: other.example\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nhost:\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nhost: me@localhost\r\n\r\n", 400),
        ("GET /health/live HTTP/1.0\r\n\r\n", 200),
        ("GET http://localhost/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
    ] {
        let mut raw = Raw::open(&host).await;
        raw.send(head).await;
        let (reported, body) = raw.answer().await;
        assert!(
            reported.starts_with(&format!("http/1.1 {status}")) || reported.starts_with(&format!("http/1.0 {status}")),
            "{head}{reported}"
        );
        assert!(status == 200 || body.contains("\"invalid_request\""), "{head}{body}");
    }
    // HPACK: `:method: GET`, `:scheme: http`, `:path`, and `host` (index 38) if given.
    let of_http2 = |hosts: &[&str]| {
        let mut payload = vec![0x82, 0x86, 4, 12];
        payload.extend(b"/health/live");
        for host in hosts {
            payload.extend([0x0f, 23, u8::try_from(host.len()).unwrap()]);
            payload.extend(host.bytes());
        }
        Frame { kind: HEADERS, flags: 5, stream: 1, payload }
    };
    for (hosts, status) in [(&["localhost"][..], 0x88), (&[], 0x8c), (&["localhost", "localhost"], 0x8c)] {
        let mut raw = Raw::open(&host).await;
        raw.begin_http2(&[]).await;
        raw.send(of_http2(hosts).bytes()).await;
        assert_eq!(raw.frame_of(HEADERS).await.unwrap().payload[0], status, "{hosts:?}: 200 is number 8 of HPACK's table, 400 is 12");
    }
}
