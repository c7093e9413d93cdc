//! Gzip for answers: lists and documents on request, calls and streams never.

use std::io::Read as _;

use flate2::read::GzDecoder;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Answer, Host, js};

const LONG: &str = "export default () => ({ text: 'again and again '.repeat(1000) });";

async fn host() -> Host {
    let host = Host::builder().with_catalogue().start().await;
    let mut tool = js("long", 0.0, LONG);
    tool["description"] = json!("long ".repeat(300));
    host.publish(&tool).await;
    host
}

async fn asked(host: &Host, request: RequestBuilder) -> Answer {
    host.send(request.header("accept-encoding", "gzip")).await
}

fn unpacked(answer: &Answer) -> Vec<u8> {
    let mut bytes = vec![];
    GzDecoder::new(&answer.body[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn lists_and_documents_are_compressed_for_who_asks() {
    let host = host().await;
    for path in ["/ai/endpoints", "/ai/manifest", "/ai/content-safety/policy", "/health", "/ai/endpoints/long"] {
        let plain = host.get(path).await.is(200);
        assert_eq!((plain.header("content-encoding"), plain.has("vary")), (None, "accept-encoding"), "{path}");
        let packed = asked(&host, host.request(Method::GET, path)).await.is(200);
        assert_eq!((packed.has("content-encoding"), packed.has("vary")), ("gzip", "accept-encoding"), "{path}");
        assert_eq!(packed.has("content-length"), packed.body.len().to_string());
        assert!(packed.body.len() < plain.body.len() * 4 / 5, "{path}: {} of {}", packed.body.len(), plain.body.len());
        let unpacked: Value = serde_json::from_slice(&unpacked(&packed)).unwrap();
        let names = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&unpacked), names(&plain.json()), "{path}");
        // The other two contain current values, which change between the requests.
        if !matches!(path, "/health" | "/ai/manifest") {
            assert_eq!(unpacked, plain.json(), "{path}");
        }
        let refused = host.send(host.request(Method::GET, path).header("accept-encoding", "gzip;q=0, br")).await.is(200);
        assert_eq!(refused.header("content-encoding"), None, "{path}");
    }
    // Small answers are not compressed.
    let small = asked(&host, host.request(Method::GET, "/health/live")).await.is(200);
    assert_eq!((small.header("content-encoding"), &small.body[..]), (None, &br#"{"ok":true}"#[..]));
}

#[tokio::test]
async fn lists_of_tools_are_compressed_for_who_asks_in_every_revision() {
    let host = host().await;
    for mut client in [host.mcp(), host.mcp_legacy()] {
        // The second one has a field that only rmcp reads.
        for params in [json!({}), json!({ "other": 1 })] {
            let plain = host.send(client.request("tools/list", params.clone())).await.is(200);
            assert_eq!((plain.header("content-encoding"), plain.has("vary")), (None, "accept-encoding"), "{params}");
            let packed = asked(&host, client.request("tools/list", params.clone())).await.is(200);
            assert_eq!((packed.has("content-encoding"), packed.has("vary")), ("gzip", "accept-encoding"), "{params}");
            assert!(packed.body.len() < plain.body.len() / 2, "{params}: {} of {}", packed.body.len(), plain.body.len());
            let tools = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap()["result"]["tools"].clone();
            assert_eq!(tools(&unpacked(&packed)), tools(&plain.body));
        }
        client.accept = "text/event-stream";
        let streamed = asked(&host, client.request("tools/list", json!({}))).await.is(200);
        assert_eq!(streamed.header("content-encoding"), None);
    }
    let discovered = asked(&host, host.mcp().request("server/discover", json!({}))).await.is(200);
    assert_eq!(discovered.has("vary"), "accept-encoding");
}

#[tokio::test]
async fn answers_of_calls_and_streams_are_never_compressed() {
    let host = host().await;
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "long", "arguments": {} } });
    let accept = "application/json, text/event-stream";
    for request in [
        host.request(Method::POST, "/tools/long").json(&json!({})),
        host.request(Method::GET, "/tools/long"),
        host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "long" })),
        host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "long", "stream": true })),
        host.request(Method::POST, "/ai/mcp").header("accept", accept).json(&message),
        host.request(Method::POST, "/ai/mcp").header("accept", accept).json(&json!([message])),
        host.mcp().request("tools/call", json!({ "name": "long", "arguments": {} })),
        host.mcp().request("tools/call", json!({ "name": "long", "arguments": {}, "other": 1 })),
    ] {
        let answer = asked(&host, request).await.is(200);
        assert_eq!(answer.header("content-encoding"), None, "{answer:?}");
        assert!(String::from_utf8_lossy(&answer.body).contains("again and again"));
    }
}

#[tokio::test]
async fn the_etag_of_a_compressed_record_is_weak_and_still_names_its_revision() {
    let host = host().await;
    let record = || host.request(Method::GET, "/ai/endpoints/long").header("x-admin-token", &host.admin);
    let strong = host.send(record()).await.is(200).has("etag").to_owned();
    let weak = asked(&host, record()).await.is(200).has("etag").to_owned();
    assert_eq!(weak, format!("W/{strong}"), "other bytes are another representation");
    let change = |etag: &str, title: &str| {
        let request = host.request(Method::PATCH, "/ai/endpoints/long").header("x-admin-token", &host.admin);
        host.send(request.header("if-match", etag).json(&json!({ "title": title })))
    };
    change(&weak, "Longer").await.is(200);
    change(&weak, "Longest").await.fails(412, "revision_changed", "caller");
}
