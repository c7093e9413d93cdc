//! Long texts of callers and builders delay only their own calls.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Host, js};

/// Number of tries before a case counts as slow.
const TRIES: usize = 3;

/// Maximum time of `/health/live` during any other work, on a shared machine and in a debug build.
const LIVELY: Duration = Duration::from_millis(250);

/// Length of a text in bytes, the maximum for this tool.
const BYTES: usize = 1 << 20;

/// Returns JSON that is as slow to parse as possible: each level of each item is a separate map.
fn slow_to_read(bytes: usize) -> String {
    let item = format!("{}1{}", r#"{"a":"#.repeat(50), "}".repeat(50));
    let items = vec![item.as_str(); bytes / (item.len() + 1) - 8].join(",");
    format!(r#"{{"items":[{items}]}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn long_texts_of_others_hold_nobody_up() {
    let host = Host::start().await;
    let mut tool = js("long", 0.0, "export default (req) => req.input.items ? req.input : JSON.parse(req.input.text);");
    tool["limits"] = json!({ "inputBytes": BYTES, "outputBytes": BYTES });
    host.publish(&tool).await;
    let (long, message) = (slow_to_read(BYTES), slow_to_read(BYTES - 1_000));
    let send = |method: Method, path: &str, body: String| {
        let request = host.request(method, path).header("content-type", "application/json").header("x-admin-token", &host.admin);
        host.send(request.header("accept", "application/json, text/event-stream").body(body))
    };
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"long","arguments":{message}}}}}"#);
    // With a progress token the call goes through the MCP library.
    let streamed = call.replacen(r#""name""#, r#""_meta":{"progressToken":1},"name""#, 1);
    let quoted = json!({ "text": slow_to_read(BYTES / 2) }).to_string();
    type Ask<'a> = (&'static str, Box<dyn Fn() -> futures_util::future::BoxFuture<'a, Answer> + 'a>);
    let options: [Ask<'_>; 6] = [
        ("a body", Box::new(|| Box::pin(send(Method::POST, "/tools/long", long.clone())))),
        ("a result", Box::new(|| Box::pin(send(Method::POST, "/tools/long", quoted.clone())))),
        ("invoke", Box::new(|| Box::pin(send(Method::POST, "/ai/invoke", format!(r#"{{"slug":"long","input":{long}}}"#))))),
        ("mcp", Box::new(|| Box::pin(send(Method::POST, "/ai/mcp", call.clone())))),
        ("mcp, streamed", Box::new(|| Box::pin(send(Method::POST, "/ai/mcp", streamed.clone())))),
        ("management", Box::new(|| Box::pin(send(Method::PATCH, "/ai/endpoints/long", format!(r#"{{"inputSchema":{long}}}"#))))),
    ];
    let mut slow = Vec::new();
    for (what, ask) in &options {
        let busy = async || {
            for answer in join_all((0..8).map(|_| ask())).await {
                let requested: &[u16] = if *what == "management" { &[422] } else { &[200, 503] };
                assert!(requested.contains(&answer.status), "{what}: {answer:?}");
            }
        };
        // Blocking a thread would delay every try. Other work on the machine does not.
        let mut max_len = Duration::MAX;
        for _ in 0..TRIES {
            let ((), times) = host.live_until(busy()).await;
            let (max, held) = (times[times.len() - 1], times.iter().filter(|time| **time > Duration::from_millis(50)).count());
            println!(
                "{what}: {} answers of /health/live, p50 {:?}, longest {max:?}, {held} above 50 ms",
                times.len(),
                times[times.len() / 2]
            );
            max_len = max_len.min(max);
            if max_len <= LIVELY {
                break;
            }
        }
        if max_len > LIVELY {
            slow.push(format!("{what}: longest {max_len:?}"));
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}

#[tokio::test]
async fn static_answer_keeps_its_bytes_on_every_route() {
    let host = Host::start().await;
    let response = json!({ "b": [1.5, "é"], "a": { "deep": [[[[1]]]] } });
    let tool = json!({ "slug": "fixed", "title": "Fixed", "handlerType": "static_json", "handler": { "response": response } });
    host.publish(&tool).await;
    let mut hashes = Vec::new();
    for _ in 0..2 {
        let answer = host.call("fixed", &json!({})).await.is(200);
        assert_eq!(answer.json(), response);
        hashes.push(host.receipt(&answer.receipt_id()).await["resultHash"].clone());
    }
    host.change("fixed", &json!({ "handler": { "response": [1] } })).await;
    let answer = host.call("fixed", &json!({})).await.is(200);
    assert_eq!(answer.json(), json!([1]));
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(host.receipt(&answer.receipt_id()).await["resultHash"], hashes[0]);
}

#[tokio::test]
async fn a_static_response_is_no_longer_than_a_result_may_be() {
    let host = Host::start().await;
    let tool = json!({ "slug": "long", "title": "Long", "handlerType": "static_json", "handler": { "response": "a".repeat(300 << 10) } });
    let error = host.manage(Method::POST, "/ai/endpoints/create", &tool).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/handler/response");
    assert!(error["message"].as_str().unwrap().contains("the maximum is 262144"), "{error}");
}
