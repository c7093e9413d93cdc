//! A third-party server, `{{server}}` in the fixtures. Some of its answers are attacks.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Redirect},
    routing::{any, get},
};
use serde_json::{Value, json};

use crate::harness::listen;

/// The target of a redirect into the host's own network.
const INSIDE: &str = "http://127.0.0.1:1/latest/meta-data/";

/// Starts the server. Returns its address.
pub(super) async fn start() -> String {
    listen(routes()).await.to_string()
}

/// 20 MB of spaces.
const BROTLI_BOMB: &str = "cbffff3ff82540e2b14020f7fe8fffff7ff04b00c4611180eefd5ffeffffe0970088c30200ddfb1f";

/// A short text, in the format for windows of up to 1 GiB.
const WIDE_BROTLI: &str = "115eec0ae037528bb5c2de588be884eda998bea82d12f0cd8402";

/// Returns a frame of 20 MB, in which every four bytes expand to 128 KiB.
fn zstd_bomb() -> Vec<u8> {
    [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58][..], &[2, 0, 0x10, b' '].repeat(160)].concat()
}

/// Returns 20 MB of JSON, compressed to 100 KB.
fn bomb() -> Bytes {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let piece = vec![b' '; 1 << 20];
    for _ in 0..20 {
        std::io::Write::write_all(&mut gzip, &piece).unwrap();
    }
    gzip.finish().unwrap().into()
}

fn routes() -> Router {
    let json_text = |text: String| ([(header::CONTENT_TYPE, "application/json")], text);
    let bomb = bomb();
    Router::new()
        .route("/json", get(|| async { Json(json!({ "ok": true })) }))
        .route("/asked", get(|headers: HeaderMap| async move { Json(named(&headers)) }))
        .route("/echo", any(echo))
        .route("/inside", any(|| async { Redirect::temporary(INSIDE) }))
        .route("/scheme", any(|| async { Redirect::temporary("file:///etc/passwd") }))
        .route("/round", any(|| async { Redirect::temporary("/round") }))
        .route("/silent", get(std::future::pending::<StatusCode>))
        .route("/drip", get(drip))
        .route("/endless", get(endless))
        .route("/huge", get(move || async move { json_text(format!("\"{}\"", "x".repeat(5 << 20))) }))
        .route("/deep", get(move || async move { json_text("[".repeat(200_000)) }))
        .route("/number", get(move || async move { json_text(r#"{"a":1e999}"#.to_owned()) }))
        .route("/prototype", get(move || async move { json_text(r#"{"__proto__":{"bent":true},"own":1}"#.to_owned()) }))
        .route("/html", get(|| async { axum::response::Html("<p>no JSON") }))
        .route("/zipped", get(|| async { ([(header::CONTENT_ENCODING, "gzip"), (header::CONTENT_TYPE, "application/json")], "{}") }))
        .route(
            "/bomb",
            get(move || async move { ([(header::CONTENT_ENCODING, "gzip"), (header::CONTENT_TYPE, "application/json")], bomb) }),
        )
        .route("/bomb-br", get(|| async { ([(header::CONTENT_ENCODING, "br")], hex::decode(BROTLI_BOMB).unwrap()) }))
        .route("/wide-br", get(|| async { ([(header::CONTENT_ENCODING, "br")], hex::decode(WIDE_BROTLI).unwrap()) }))
        .route("/bomb-zstd", get(|| async { ([(header::CONTENT_ENCODING, "zstd")], zstd_bomb()) }))
        .route("/cookies", get(|| async { ([(header::SET_COOKIE, "session=1")], Json(json!({}))) }))
}

/// Returns the method and the body of a request.
async fn echo(method: Method, body: Bytes) -> Json<Value> {
    Json(json!({ "method": method.as_str(), "body": String::from_utf8_lossy(&body) }))
}

/// Returns the values of headers that a handler must not set, and of one that it may set.
fn named(headers: &HeaderMap) -> Value {
    let value = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    json!(["host", "cookie", "content-length", "transfer-encoding", "connection", "x-mine"].map(|name| (name, value(name))))
}

/// Sends a byte from time to time.
async fn drip() -> impl IntoResponse {
    let bytes = futures_util::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Some((Ok::<_, Infallible>(" "), ()))
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(bytes))
}

/// Sends bytes as fast as the client accepts them.
async fn endless() -> impl IntoResponse {
    let bytes = futures_util::stream::repeat_with(|| Ok::<_, Infallible>("[".repeat(1 << 14)));
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(bytes))
}
