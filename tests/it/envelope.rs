//! Every invalid request, on any path, is answered with the error envelope and its request id.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tollhouse::http;

use crate::harness::{Answer, Host, js, raw::Raw};

/// Returns the paths of all routes, with their parameter names.
fn paths() -> BTreeSet<&'static str> {
    // Pages answer errors as pages.
    let rows = http::rows().into_iter().filter(|row| !row.answers.is_page());
    let paths: BTreeSet<_> = rows.map(|row| row.path).collect();
    assert!(paths.len() > 30 && paths.iter().all(|path| path.starts_with('/')), "{paths:?}");
    paths
}

/// Returns a path with `value` for each of its parameters.
fn filled(path: &str, value: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { value } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// A raw request, because a client library would not send it.
struct RawRequest {
    method: &'static str,
    target: String,
    headers: String,
    body: Vec<u8>,
}

async fn ask(host: &Host, request: &RawRequest) -> (u16, String, String) {
    let RawRequest { method, target, headers, body } = request;
    let mut raw = Raw::open(host).await;
    let length = body.len();
    raw.send(format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"))
        .await;
    raw.send(body).await;
    let (head, body) = raw.answer().await;
    (head[9..12].parse().unwrap(), head, body)
}

/// Returns a complaint unless the answer is a success, a challenge, an error in the form of the
/// front end, or the envelope.
fn wrong(path: &str, status: u16, head: &str, body: &str) -> Option<String> {
    if status < 300 || status == 402 {
        return None;
    }
    let text: Value = serde_json::from_str(body).unwrap_or_default();
    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: "));
    let envelope = text["ok"] == false
        && text["error"]["code"].is_string()
        && text["error"]["message"].as_str().is_some_and(|message| !message.is_empty())
        && text["error"]["requestId"].as_str().is_some_and(|text| Some(text.to_ascii_lowercase().as_str()) == id);
    let json_rpc = path == "/ai/mcp" && text["jsonrpc"] == "2.0" && text["error"]["code"].is_number() && id.is_some();
    (status >= 500 || !envelope && !json_rpc).then(|| format!("{status} {head}{body}"))
}

#[tokio::test]
async fn any_invalid_request_gets_the_error_envelope() {
    let host = Host::builder().flag("--auth-failures", 0).start().await;
    host.publish(&js("echo", 0.0, "export default (req) => req.input;")).await;
    let admin = format!("x-admin-token: {}\r\n", host.admin);
    let credentials = ["", admin.as_str(), "x-builder-key: bk_\r\n", "authorization: Bearer dc_x\r\n", "x-developer-credit: \u{ff}\r\n"];
    let bodies: [(&str, &[u8]); 7] = [
        ("", b""),
        ("content-type: application/json\r\n", b""),
        ("content-type: application/json\r\n", b"{"),
        ("content-type: application/json\r\n", b"[1]"),
        ("content-type: application/json\r\n", b"{\"\xff\": 1}"),
        ("content-type: text/plain\r\n", b"{}"),
        ("content-type: \u{a0}\r\n", b"{}"),
    ];
    let mut broken = vec![];
    let mut requested = 0;
    for path in paths() {
        let mut targets = vec![];
        for value in ["%FF", "%ff%fe", "%", "%zz", "%00", "..%2f", "a%20b", "\u{e4}", "echo"] {
            targets.push(filled(path, value));
        }
        for query in
            ["limit=%FF", "limit=-1", "limit=0&limit=1", "since=ever", "cursor=%00", "&&==&", "%zz=1", "form=1", "q=%ff%ff", "slug=%ff"]
        {
            targets.push(format!("{}?{query}", filled(path, "echo")));
        }
        targets.dedup();
        for (number, target) in targets.into_iter().enumerate() {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"] {
                // Deletions and rescans of all endpoints are requested without credentials only.
                let credential = if method == "DELETE" || path.ends_with("rescan") { "" } else { credentials[number % credentials.len()] };
                let (media, body) = if method == "GET" { bodies[0] } else { bodies[(number + requested) % bodies.len()] };
                let request = RawRequest { method, target: target.clone(), headers: format!("{credential}{media}"), body: body.to_vec() };
                let (status, head, message) = ask(&host, &request).await;
                requested += 1;
                broken
                    .extend(wrong(path, status, &head, &message).map(|reason| format!("{method} {target} {}: {reason}", request.headers)));
            }
        }
    }
    println!("{requested} requests");
    assert!(broken.is_empty(), "{} of {requested}:\n{}", broken.len(), broken.iter().take(10).cloned().collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_by_name() {
    let host = Host::start().await;
    for path in ["/tools/%FF", "/ai/endpoints/%FF", "/ai/receipts/%FF", "/ai/payments/%C3%28"] {
        let answer: Answer = host.get(path).await;
        let error = answer.fails(400, "invalid_request", "caller");
        assert!(error["message"].as_str().unwrap().contains("UTF-8"), "{error}");
    }
}

#[tokio::test]
async fn faucet_names_its_missing_parameters() {
    let host = Host::start().await;
    for query in ["", "?", "?address", "?addres=0x1", "?address=%FF"] {
        host.get(&format!("/dev/faucet{query}")).await.fails(400, "invalid_request", "caller");
    }
    let error = host.get("/dev/faucet").await.fails(400, "invalid_request", "caller");
    assert!(error["message"].as_str().unwrap().contains("address"), "{error}");
}

#[tokio::test]
async fn bodies_that_a_stranger_may_send_are_no_larger_than_they_need_be() {
    let host = Host::start().await;
    let credit = host.mint(5.0).await;
    let large = json!({ "name": "x".repeat(20 << 10) });
    let register = host.request(Method::POST, "/ai/builders/register").header("x-developer-credit", &credit);
    host.send(register.json(&large)).await.fails(413, "body_too_large", "caller");
    host.post("/dev/faucet", &large).await.fails(413, "body_too_large", "caller");
    host.post("/ai/invoke", &json!({ "slug": "echo", "input": "x".repeat(2 << 20) })).await.fails(413, "body_too_large", "caller");
}

#[tokio::test]
async fn a_query_of_no_utf8_is_refused_wherever_it_stands() {
    let host = Host::start().await;
    for path in ["/ai/endpoints?q=%ff", "/tools/anything?a=%C3%28", "/health?%ff=1"] {
        host.get(path).await.fails(400, "invalid_request", "caller");
    }
    assert_eq!(host.get("/ai/endpoints?q=%C3%A9t%C3%A9").await.status, 200);
}
