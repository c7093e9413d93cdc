//! Bodies that are not JSON: tools name the types that they take, and payments are bound to the bytes.

use std::{convert::Infallible, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::{future::join_all, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use reqwest::{Body, Method};
use serde_json::{Value, json};

use crate::harness::{Answer, Host, Payer, Payment, eventually, js, raw::Raw};

const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;
const FUNDS: u64 = 1_000_000;
const SECONDS: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

/// Returns the size and a checksum of the body, and the request.
const SUMMARY: &str = "export default async (req) => {
  const bytes = await req.bytes(); let sum = 0;
  for (let i = 0; i < bytes.length; i++) sum = (sum * 31 + bytes[i]) % 1000003;
  return { size: bytes.length, sum, type: req.headers['content-type'] ?? null, signature: req.headers['stripe-signature'] ?? null,
    other: req.headers['x-other'] ?? null, query: req.query, input: req.input };
};";

fn summary(price_usd: f64) -> Value {
    let mut tool = js("files", price_usd, SUMMARY);
    tool["requestTypes"] = json!(["text/csv", "image/*", "multipart/form-data"]);
    tool["requestHeaders"] = json!(["stripe-signature"]);
    tool["limits"] = json!({ "cpuMs": 10_000, "bufferBytes": 64 << 20 });
    tool
}

fn bytes(len: usize) -> Bytes {
    (0..len).map(|at| (at % 251) as u8).collect::<Vec<_>>().into()
}

/// Returns a body without a length, in pieces.
fn chunked(bytes: &[u8]) -> Body {
    let pieces: Vec<_> = bytes.chunks(70_001).map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    Body::wrap(StreamBody::new(stream::iter(pieces)))
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| (sum * 31 + u64::from(*byte)) % 1_000_003)
}

async fn send(host: &Host, content_type: &str, body: impl Into<Body>, payment: Option<&Payment>) -> Answer {
    let mut request = host.request(Method::POST, "/tools/files").header("content-type", content_type).body(body);
    if let Some(payment) = payment {
        request = request.header(payment.header, payment.encoded());
    }
    host.send(request).await
}

/// Waits until no body is on disk or in memory.
async fn nothing_is_held(host: &Host) {
    eventually("all bodies are given back", SECONDS, || async {
        let intake = host.get("/health").await.is(200).json()["intake"].clone();
        (intake["bodyBytesSpooled"] == 0 && intake["bodyBytesHeld"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_body_of_a_listed_type_reaches_the_handler_whole() {
    let host = Host::start().await;
    host.publish(&summary(0.0)).await;
    for len in [0, 1, 1_000, 256 << 10, (256 << 10) + 1, 3 * MIB + 7] {
        let sent = bytes(len);
        for body in [Body::from(sent.clone()), chunked(&sent)] {
            let answer = send(&host, "Text/CSV; header=present", body, None).await.is(200).json();
            assert_eq!((&answer["size"], &answer["sum"]), (&json!(len), &json!(sum(&sent))), "{answer}");
            assert_eq!((&answer["type"], &answer["input"]), (&json!("Text/CSV; header=present"), &Value::Null));
        }
    }
    nothing_is_held(&host).await;
    // JSON is taken as before.
    let json = host.call("files", &json!({ "a": 1 })).await;
    json.fails(502, "handler_failed", "tool");
    assert!(json.words().contains("already read the body"), "{json:?}");
}

#[tokio::test]
async fn another_type_is_415_and_names_those_that_the_tool_takes() {
    let host = Host::start().await;
    host.publish(&summary(PRICE)).await;
    host.publish(&js("plain", 0.0, SUMMARY)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("files").await);
    for payment in [None, Some(&payment)] {
        let refused = send(&host, "text/plain", "a", payment).await;
        let error = refused.fails(415, "unsupported_media_type", "caller");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("`text/plain`") && message.contains("`text/csv`, `image/*` or `multipart/form-data`"), "{message}");
    }
    let coded = host.request(Method::POST, "/tools/files").header("content-type", "text/csv").header("content-encoding", "gzip").body("a");
    assert!(host.send(coded).await.fails(415, "unsupported_media_type", "caller")["message"].as_str().unwrap().contains("gzip"));
    let twice = host.request(Method::POST, "/tools/files").header("content-type", "text/csv").header("content-type", "image/png").body("a");
    host.send(twice).await.fails(415, "unsupported_media_type", "caller");
    let plain = host.request(Method::POST, "/tools/plain").header("content-type", "text/csv").body("a");
    let message = host.send(plain).await.fails(415, "unsupported_media_type", "caller")["message"].clone();
    assert!(message.as_str().unwrap().ends_with("send `application/json`"), "{message}");
    assert_eq!(host.balance(&payer.address).await, FUNDS);
}

#[tokio::test]
async fn a_payment_buys_the_bytes_that_were_sent_and_no_others() {
    let host = Host::start().await;
    host.publish(&summary(PRICE)).await;
    let payer = Payer::funded(&host, 1.0).await;
    for len in [100, MIB] {
        let payment = payer.pay(&host.challenge("files").await);
        let sent = bytes(len);
        let bought = send(&host, "text/csv", sent.clone(), Some(&payment)).await.is(200);
        let mut other = sent.to_vec();
        other[len / 2] ^= 1;
        send(&host, "text/csv", other, Some(&payment)).await.fails(409, "payment_reused", "caller");
        send(&host, "image/png", sent.clone(), Some(&payment)).await.fails(409, "payment_reused", "caller");
        let again = send(&host, "text/csv", sent.clone(), Some(&payment)).await.is(200);
        assert_eq!((&again.body, again.receipt_id()), (&bought.body, bought.receipt_id()));
        // The answer is still there when the tool takes less, other types, or no calls.
        for change in [json!({ "limits": { "bodyBytes": 10 } }), json!({ "requestTypes": ["image/*"] }), json!({ "status": "paused" })] {
            host.change("files", &change).await;
            let again = send(&host, "text/csv", sent.clone(), Some(&payment)).await.is(200);
            assert_eq!(again.receipt_id(), bought.receipt_id(), "{change}");
        }
        host.change("files", &json!({ "limits": {}, "requestTypes": ["text/csv", "image/*"], "status": "active" })).await;
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
    nothing_is_held(&host).await;
}

#[tokio::test]
async fn a_body_is_as_large_as_the_limit_of_its_tool() {
    let host = Host::start().await;
    let mut tool = summary(PRICE);
    tool["limits"]["bodyBytes"] = json!(MIB);
    let record = host.publish(&tool).await;
    assert_eq!(record["limits"]["bodyBytes"], json!(MIB));
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("files").await);
    for body in [Body::from(bytes(MIB + 1)), chunked(&bytes(MIB + 1))] {
        let error = send(&host, "image/png", body, Some(&payment)).await.fails(413, "body_too_large", "caller");
        assert!(error["message"].as_str().unwrap().contains("1048576"), "{error}");
    }
    send(&host, "image/png", bytes(MIB), Some(&payment)).await.is(200);
    let public = host.get("/tools/files?inspect").await.is(200).json()["endpoint"].clone();
    assert_eq!((&public["requestTypes"][0], &public["limits"]["bodyBytes"]), (&json!("text/csv"), &json!(MIB)));
    nothing_is_held(&host).await;
}

#[tokio::test]
async fn bodies_that_lie_stop_or_wait_leave_nothing() {
    let host = Host::builder().flag("--body-stall-ms", 500).start().await;
    host.publish(&summary(0.0)).await;
    let head = |more: &str| format!("POST /tools/files HTTP/1.1\r\nhost: a\r\ncontent-type: text/csv\r\n{more}\r\n\r\n");
    // A client that waits for `100 Continue` sends nothing of a body that is too large.
    let mut waits = Raw::open(&host).await;
    waits.send(head("expect: 100-continue\r\ncontent-length: 209715200")).await;
    let (answer, _) = waits.answer().await;
    assert!(answer.starts_with("http/1.1 413"), "{answer}");
    // A client that stops in the middle, and one that goes away.
    let mut stops = Raw::open(&host).await;
    stops.send(head("content-length: 2000000")).await;
    stops.send(bytes(MIB)).await;
    let (answer, _) = stops.answer().await;
    assert!(answer.starts_with("http/1.1 408"), "{answer}");
    let mut leaves = Raw::open(&host).await;
    leaves.send(head("transfer-encoding: chunked")).await;
    leaves.send([b"100000\r\n", &bytes(MIB)[..], b"\r\n"].concat()).await;
    drop(leaves);
    nothing_is_held(&host).await;
    let spool = std::fs::read_dir(host.folder().join("data/spool")).unwrap().count();
    assert_eq!(spool, 0, "files of bodies have no names");
}

#[tokio::test]
async fn a_handler_sees_the_headers_that_its_tool_lists() {
    let host = Host::start().await;
    host.publish(&summary(0.0)).await;
    let request = host.request(Method::POST, "/tools/files?a=1").header("content-type", "text/csv").header("x-other", "b");
    let answer = host.send(request.header("stripe-signature", "t=1,v1=a").body("x")).await.is(200).json();
    assert_eq!((&answer["signature"], &answer["other"], &answer["query"]), (&json!("t=1,v1=a"), &Value::Null, &json!({ "a": "1" })));
    for (field, listed, at) in [
        ("requestHeaders", json!(["stripe-signature", "authorization"]), "/requestHeaders/1"),
        ("requestHeaders", json!(["payment-signature"]), "/requestHeaders/0"),
        ("requestTypes", json!(["application/json"]), "/requestTypes/0"),
    ] {
        let refused = host.manage(Method::PATCH, "/ai/endpoints/files", &json!({ field: listed })).await;
        let error = refused.fails(422, "invalid_endpoint", "caller");
        assert!(refused.words().contains(at), "{error}");
    }
}

#[tokio::test]
async fn agents_send_files_as_base64_over_mcp_and_invoke() {
    let host = Host::start().await;
    host.publish(&summary(PRICE)).await;
    let listed = host.mcp().tool("files").await.unwrap();
    let body = &listed["inputSchema"]["properties"]["body"];
    assert_eq!(body["properties"]["data"]["contentEncoding"], "base64", "{listed}");
    let credit = host.mint(1.0).await;
    let input = json!({ "body": { "data": STANDARD.encode(b"a,b\n1,2"), "mimeType": "text/csv" } });
    let invoke = |input: &Value| host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "files", "input": input }));
    let invoked = host.send(invoke(&input).header("x-developer-credit", &credit)).await.is(200).json();
    assert_eq!((&invoked["result"]["size"], &invoked["result"]["type"]), (&json!(7), &json!("text/csv")), "{invoked}");
    let called = host.mcp().with_header("x-developer-credit", &credit).call("files", input, json!({})).await;
    assert_eq!(called["structuredContent"]["sum"], json!(sum(b"a,b\n1,2")), "{called}");
    let form = json!({ "body": { "form": [{ "name": "a", "value": "b" }] } });
    let invoked = host.send(invoke(&form).header("x-developer-credit", &credit)).await.is(200).json();
    assert!(invoked["result"]["type"].as_str().unwrap().starts_with("multipart/form-data; boundary=tollhouse-"), "{invoked}");
    let wrong = json!({ "body": { "data": "YQ==", "mimeType": "text/plain" } });
    host.send(invoke(&wrong).header("x-developer-credit", &credit)).await.fails(422, "invalid_input", "caller");
    let document = host.get("/openapi.json").await.is(200).json();
    let content = &document["paths"]["/tools/files"]["post"]["requestBody"]["content"];
    assert_eq!((&content["text/csv"]["schema"]["format"], content["application/json"].is_object()), (&json!("binary"), true), "{content}");
}

/// A body never is whole in memory, however many there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_wait_on_disk_and_not_in_memory() {
    const LEN: usize = 24 * MIB;
    let host = Host::start().await;
    let source = "export default async (req) => { let size = 0; for await (const piece of req.body) size += piece.length; return size; }";
    let mut tool = js("files", 0.0, source);
    tool["requestTypes"] = json!(["application/octet-stream"]);
    tool["limits"] = json!({ "bodyBytes": 100 * MIB, "cpuMs": 10_000, "wallMs": 120_000 });
    host.publish(&tool).await;
    send(&host, "application/octet-stream", "warm", None).await.is(200);
    let (before, sent) = (host.resident(), bytes(LEN));
    let whole = |_| async {
        // On a busy machine, not all of them find a worker in time.
        let read =
            || async { Some(send(&host, "application/octet-stream", sent.clone(), None).await).filter(|answer| answer.status != 503) };
        eventually("the body is read", 4 * SECONDS, read).await.is(200).json()
    };
    let read = join_all((0..16).map(whole)).await;
    assert_eq!(read, vec![json!(LEN); 16]);
    let grown = host.resident().saturating_sub(before);
    let whole = send(&host, "application/octet-stream", bytes(100 * MIB), None).await.is(200).json();
    assert_eq!(whole, json!(100 * MIB), "the ceiling of `bodyBytes`");
    println!("16 bodies of {} MiB: the host has grown by {} MiB", LEN >> 20, grown >> 20);
    assert!(grown < 32 << 20, "the host has grown by {grown} bytes");
    nothing_is_held(&host).await;
}

#[tokio::test]
async fn bodies_beyond_the_room_on_disk_get_503() {
    let host = Host::builder().flag("--spool-bytes", 8 << 20).flag("--address-spool-bytes", 2 << 20).start().await;
    host.publish(&summary(0.0)).await;
    let refused = send(&host, "image/png", bytes(3 * MIB), None).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("busy")), "{refused:?}");
    send(&host, "image/png", bytes(2 * MIB), None).await.is(200);
    nothing_is_held(&host).await;
}
