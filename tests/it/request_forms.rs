//! Equivalent requests of different clients, proxies and libraries get the same answer.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Answer, Host, Payer, js, raw::Raw};

const ECHO: &str = "export default (req) => ({ url: req.url, path: req.path, input: req.input });";

/// Returns a request with these bytes as body for each interface that takes JSON: a tool, invoke,
/// MCP and management.
fn entries(host: &Host, json: &[u8], wrapped: impl Fn(&str, &[u8]) -> Vec<u8>) -> Vec<(&'static str, RequestBuilder)> {
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":@}}"#;
    let around = |frame: &[u8]| {
        let at = frame.iter().position(|byte| *byte == b'@').unwrap();
        [&frame[..at], json, &frame[at + 1..]].concat()
    };
    let post = |path: &str, body: Vec<u8>| host.request(Method::POST, path).header("x-admin-token", &host.admin).body(body);
    vec![
        ("a tool", post("/tools/echo", wrapped("a tool", json))),
        ("invoke", post("/ai/invoke", wrapped("invoke", &around(br#"{"slug":"echo","input":@}"#)))),
        ("MCP", post("/ai/mcp", wrapped("MCP", &around(call))).header("accept", "application/json")),
        ("management", post("/ai/endpoints/check", wrapped("management", &around(br#"{"slug":"other","title":@}"#)))),
    ]
}

async fn host() -> Host {
    let host = Host::start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    host
}

/// Returns the message of a refusal, from the envelope or from JSON-RPC.
fn message(answer: &Answer) -> String {
    let body = answer.json();
    let error = &body["error"];
    let data = &error["data"];
    [&error["message"], &data["message"], &body["problems"]].iter().map(|value| value.to_string()).collect()
}

#[tokio::test]
async fn a_body_that_is_compressed_or_of_another_charset_is_415_everywhere() {
    let host = host().await;
    for (name, value, word) in [
        ("content-encoding", "gzip", "gzip"),
        ("content-encoding", "Br", "Br"),
        ("content-type", "application/json;charset=utf-16", "utf-16"),
        ("content-type", "text/plain", "text/plain"),
    ] {
        for (at, request) in entries(&host, b"{}", |_, body| body.to_vec()) {
            let request = if name == "content-type" { request } else { request.header("content-type", "application/json") };
            let answer = host.send(request.header(name, value)).await;
            assert_eq!((answer.status, answer.has("accept-encoding")), (415, "identity"), "{at} {value}: {answer:?}");
            assert!(message(&answer).contains(word), "{at} {value}: {answer:?}");
        }
    }
    for (at, request) in entries(&host, br#""x""#, |at, body| if at == "a tool" { b"{}".to_vec() } else { body.to_vec() }) {
        let request = request.header("content-type", "Application/JSON; Charset=\"UTF-8\"").header("content-encoding", "Identity");
        let status = host.send(request).await.status;
        assert_ne!(status, 415, "{at}");
    }
}

#[tokio::test]
async fn a_byte_order_mark_is_skipped_everywhere() {
    let host = host().await;
    let marked = |_: &str, body: &[u8]| [b"\xef\xbb\xbf", body].concat();
    for (at, request) in entries(&host, br#"{"a":1}"#, marked) {
        let answer = host.send(request.header("content-type", "application/json")).await;
        let text = answer.words();
        match at {
            // The title is an object, and the error says so: the body was read.
            "management" => assert!(text.contains("title") && !text.contains("not JSON"), "{text}"),
            at => assert!(answer.status == 200 && text.contains(r#"\"a\":1"#) || text.contains(r#""a":1"#), "{at}: {text}"),
        }
    }
    let utf_16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let answer = host.send(host.request(Method::POST, "/tools/echo").header("content-type", "application/json").body(utf_16)).await;
    assert!(answer.fails(400, "invalid_json", "caller")["message"].as_str().unwrap().contains("UTF-16"));
}

#[tokio::test]
async fn half_a_surrogate_pair_is_named_everywhere() {
    let host = host().await;
    for json in [&br#"{"t":"\ud83d"}"#[..], br#"{"\udc00":1}"#] {
        for (at, request) in entries(&host, json, |_, body| body.to_vec()) {
            let answer = host.send(request.header("content-type", "application/json")).await;
            assert!(answer.words().contains("surrogate"), "{at}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn the_url_of_a_request_is_the_same_however_it_came() {
    let host = host().await;
    let url = format!("{}/tools/echo?a=1", host.url);
    let answer = host.get("/tools/echo?a=1").await.is(200).json();
    assert_eq!((&answer["url"], &answer["path"]), (&json!(url), &json!("/tools/echo")));
    let http2 = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    let over_2: Value = http2.get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!(over_2, answer);
    let body = json!({ "slug": "echo" });
    let invoked: Value = http2.post(format!("{}/ai/invoke", host.url)).json(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(invoked["result"]["url"], format!("{}/ai/invoke", host.url));
    // A client that takes the host for a proxy sends an absolute URL.
    let proxied = reqwest::Client::builder().proxy(reqwest::Proxy::http(&host.url).unwrap()).build().unwrap();
    let absolute: Value = proxied.get("http://elsewhere.example/tools/echo?a=1").send().await.unwrap().json().await.unwrap();
    assert_eq!(absolute, answer, "the caller's word for the host is in nothing");
}

/// RFC 9112, section 3.2.2.
#[tokio::test]
async fn the_host_in_the_target_of_a_request_beats_its_header() {
    let host = Host::builder().flag("--mcp-hosts", "tools.example").start().await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    for (target, header, status) in [
        ("http://tools.example/ai/mcp", "evil.example", 200),
        ("http://evil.example/ai/mcp", "tools.example", 403),
        ("http://me@tools.example/ai/mcp", "tools.example", 400),
        ("/ai/mcp", "tools.example", 200),
        ("/ai/mcp", "evil.example", 403),
    ] {
        let mut raw = Raw::open(&host).await;
        let head = format!("POST {target} HTTP/1.1\r\nhost: {header}\r\naccept: application/json\r\ncontent-type: application/json");
        raw.send(format!("{head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
        let answer = String::from_utf8_lossy(&raw.rest().await).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {header}: {answer}");
    }
}

#[tokio::test]
async fn a_stream_is_sent_to_those_who_prefer_it() {
    let host = host().await;
    for (accept, streams) in [
        (&["application/json, text/event-stream"][..], false),
        (&["application/json, text/event-stream;q=0.1"], false),
        (&["*/*;q=0.5, text/event-stream;q=0"], false),
        (&["text/event-stream-x"], false),
        (&["text/html", "Text/Event-Stream"], true),
        (&["application/json;q=0.5, text/event-stream"], true),
    ] {
        for (path, body) in [("/tools/echo", json!({})), ("/ai/invoke", json!({ "slug": "echo" }))] {
            let request =
                accept.iter().fold(host.request(Method::POST, path).json(&body), |request, value| request.header("accept", *value));
            let answer = host.send(request).await.is(200);
            assert_eq!(answer.has("content-type").starts_with("text/event-stream"), streams, "{path} {accept:?}");
        }
    }
}

#[tokio::test]
async fn a_query_is_read_by_every_type_of_its_schema() {
    let host = Host::start().await;
    let mut tool = js("opt-int", 0.0, ECHO);
    tool["inputSchema"] = json!({ "type": "object", "$defs": { "n": { "type": "integer" } }, "properties": {
        "a": { "type": ["integer", "null"] }, "b": { "anyOf": [{ "type": "integer" }, { "type": "null" }] }, "c": { "$ref": "#/$defs/n" },
        "d": { "enum": [1, 2] }, "e": { "const": true }, "f": { "type": ["array", "null"], "items": { "type": "integer" } },
        "g": { "allOf": [{ "type": "number" }] } } });
    host.publish(&tool).await;
    for (query, input) in [
        ("a=3", json!({ "a": 3 })),
        ("b=3", json!({ "b": 3 })),
        ("c=3", json!({ "c": 3 })),
        ("d=2", json!({ "d": 2 })),
        ("e=true", json!({ "e": true })),
        ("f=1&f=2", json!({ "f": [1, 2] })),
        ("g=1.5", json!({ "g": 1.5 })),
        ("a=null", json!({ "a": null })),
        ("b=", json!({ "b": null })),
    ] {
        assert_eq!(host.get(&format!("/tools/opt-int?{query}")).await.is(200).json()["input"], input, "{query}");
    }
    host.get("/tools/opt-int?d=3").await.fails(422, "invalid_input", "caller");
}

#[tokio::test]
async fn a_slash_at_the_end_and_the_letters_of_a_host_make_no_difference() {
    let host = host().await;
    host.publish(&js("sold", 0.01, ECHO)).await;
    for path in ["/tools/echo/", "/ai/invoke/", "/ai/endpoints/", "/openapi.json/"] {
        let answer = match path {
            "/ai/invoke/" => host.post(path, &json!({ "slug": "echo" })).await,
            path => host.get(path).await,
        };
        answer.is(200);
    }
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let request = host.request(Method::POST, "/ai/mcp/").header("accept", "application/json").json(&ping);
    assert_eq!(host.send(request).await.is(200).json()["result"], json!({}));
    assert_eq!(host.get("/tools/echo/?a=1").await.is(200).json()["url"], format!("{}/tools/echo?a=1", host.url));
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.call("sold", &json!({})).await.is(402).decoded("payment-required");
    let mut payment = payer.pay(&challenge);
    payment.payload["resource"] = json!({ "url": format!("{}/tools/sold/", host.url).replacen("http", "HTTP", 1) });
    host.call_paid("sold/", &json!({}), &payment).await.is(200);
}

#[tokio::test]
async fn the_head_of_a_challenge_passes_a_stock_nginx() {
    let host = Host::start().await;
    let mut tool = js("wide", 0.01, ECHO);
    let described = |at: usize| {
        (format!("property{at}"), json!({ "type": "string", "description": "What it is for, in a sentence that is not short." }))
    };
    tool["description"] = json!("Does much. ".repeat(40));
    tool["inputSchema"] = json!({ "type": "object", "properties": (0..60).map(described).collect::<serde_json::Map<_, _>>() });
    host.publish(&tool).await;
    let answer = host.call("wide", &json!({})).await.is(402);
    let head: usize = answer.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    assert!(head + 32 <= 4 << 10, "{head}: {:?}", answer.headers);
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = answer.decoded("payment-required");
    let mut payment = payer.pay(&challenge);
    payment.payload["extensions"] = challenge["extensions"].clone();
    assert!(payment.encoded().len() < 8_000, "{}", payment.encoded().len());
    host.call_paid("wide", &json!({}), &payment).await.is(200);
    let whole = &answer.json()["paymentRequired"]["extensions"]["bazaar"];
    assert!(whole.to_string().contains("property59"), "the body has all of it");
}

/// The host once sent `100 Continue` before 413, so that clients sent eight megabytes for nothing.
#[tokio::test]
async fn expect_continue_is_rejected_before_the_body() {
    let host = host().await;
    let name = host.url.trim_start_matches("http://");
    let json = format!("host: {name}\r\ncontent-type: application/json\r\naccept: application/json\r\nexpect: 100-Continue\r\n");
    for (path, key) in [("/tools/echo", ""), ("/ai/invoke", ""), ("/ai/mcp", ""), ("/ai/endpoints/check", "key")] {
        let key = if key.is_empty() { String::new() } else { format!("x-admin-token: {}\r\n", host.admin) };
        let mut waits = Raw::open(&host).await;
        waits.send(format!("POST {path} HTTP/1.1\r\n{json}{key}content-length: 20000000\r\n\r\n")).await;
        let (head, body) = waits.answer().await;
        assert!(head.starts_with("http/1.1 413") && body.contains("body_too_large"), "{path}: {head}{body}");
        assert_eq!(waits.rest().await, b"", "{path}: the connection has ended");
    }
    let mut goes_on = Raw::open(&host).await;
    goes_on.send(format!("POST /tools/echo HTTP/1.1\r\n{json}content-length: 2\r\n\r\n")).await;
    assert_eq!((goes_on.line().await, goes_on.line().await), ("HTTP/1.1 100 Continue".to_owned(), String::new()));
    goes_on.send("{}").await;
    let (head, _) = goes_on.answer().await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    // If the client does not wait, its body is read, so that it can read the error.
    host.call("echo", &json!({ "text": "x".repeat(256 << 10) })).await.fails(413, "body_too_large", "caller");
}

/// serde accepts an array with the fields of a struct in order, and so did the host once.
#[tokio::test]
async fn a_body_that_is_an_array_of_fields_is_rejected() {
    let host = host().await;
    let post = |path: &str, body: &'static str| {
        let request = host.request(Method::POST, path).header("x-admin-token", &host.admin);
        host.send(request.header("content-type", "application/json").body(body))
    };
    for (path, body, pointer) in [
        ("/ai/invoke", r#"["echo",{"a":1},null,false]"#, ""),
        ("/ai/invoke", r#" ["echo"]"#, ""),
        ("/ai/endpoints/echo/run", "[{},null,null]", ""),
        ("/ai/endpoints/echo/run", r#"{"handler":["export default () => 1",null,null]}"#, "/handler"),
    ] {
        let error = post(path, body).await.fails(422, "invalid_request", "caller");
        assert_eq!(error["pointer"], pointer, "{body}: {error}");
        assert!(error["message"].as_str().unwrap().contains("is an array, but must be an object"), "{body}: {error}");
    }
}

#[tokio::test]
async fn null_is_the_same_input_everywhere_and_no_input_is_an_empty_object() {
    let host = Host::start().await;
    let mut tool = js("any", 0.0, "export default (req) => ({ input: req.input });");
    tool["inputSchema"] = json!({});
    host.publish(&tool).await;
    for (input, requests) in [
        (json!(null), ["null", r#"{"slug":"any","input":null}"#, r#"{"input":null}"#]),
        (json!({}), ["", r#"{"slug":"any"}"#, "{}"]),
        (json!([null]), ["[null]", r#"{"slug":"any","input":[null]}"#, r#"{"input":[null]}"#]),
    ] {
        let paths = [("/tools/any", "/input"), ("/ai/invoke", "/result/input"), ("/ai/endpoints/any/run", "/run/result/input")];
        for ((path, pointer), body) in paths.into_iter().zip(requests) {
            let request = host.request(Method::POST, path).header("x-admin-token", &host.admin);
            let answer = host.send(request.header("content-type", "application/json").body(body)).await.is(200).json();
            assert_eq!(answer.pointer(pointer), Some(&input), "{path} {body}: {answer}");
        }
    }
}

#[tokio::test]
async fn only_inspect_alone_returns_the_record() {
    let host = host().await;
    for query in ["inspect", "inspect="] {
        assert_eq!(host.get(&format!("/tools/echo?{query}")).await.is(200).json()["endpoint"]["slug"], "echo", "{query}");
    }
    let called = host.get("/tools/echo?text=hi&inspect=").await.is(200).json();
    assert_eq!(called["input"]["text"], "hi", "the tool was called: {called}");
}

/// RFC 9112, section 6.1. The host once read such a body as if it were not encoded.
#[tokio::test]
async fn a_transfer_coding_other_than_chunked_is_rejected_everywhere() {
    let host = host().await;
    let name = host.url.trim_start_matches("http://");
    let paths = ["/tools/echo", "/ai/invoke", "/ai/mcp", "/ai/endpoints/check", "/dashboard/session"];
    let codings = ["gzip, chunked", "gzip\r\ntransfer-encoding: chunked", "chunked, chunked"];
    let cases = paths.into_iter().flat_map(|path| codings.map(|coding| (path, coding, "400")));
    for (path, coding, status) in cases.chain([("/tools/echo", "Chunked", "200")]) {
        let mut raw = Raw::open(&host).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: {name}\r\ncontent-type: application/json\r\nconnection: close");
        raw.send(format!("{head}\r\ntransfer-encoding: {coding}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n")).await;
        let answer = String::from_utf8_lossy(&raw.rest().await).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {coding}: {answer}");
    }
}
