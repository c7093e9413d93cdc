//! Requests of a handler to another server, which can answer anything.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::Path,
    http::{HeaderMap, HeaderValue, Method, StatusCode},
    routing::any,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::Notify,
};

use crate::harness::{Host, js, listen};

/// Starts a server whose answer is always about to come.
async fn hinting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n".repeat(1_000);
                _ = stream.read(&mut [0; 4_096]).await;
                while stream.write_all(hints.as_bytes()).await.is_ok() {}
            });
        }
    });
    address
}

#[tokio::test]
async fn endless_server_headers_are_reported_with_the_limit() {
    let address = hinting().await;
    let host = Host::builder().flag("--guard-allow", &address).start().await;
    let source = "export default async (req, ctx) => {
        try { return await ctx.httpGetJson(req.input.url); } catch ({ code, message }) { return { code, message }; }
    };";
    let mut tool = js("asker", 0.0, source);
    tool["capabilities"] = json!({ "httpGetJson": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    host.publish(&tool).await;
    let body = host.call("asker", &json!({ "url": format!("http://{address}/") })).await.is(200).json();
    let message = "the server sent more than 524288 bytes without completing its answer";
    assert_eq!(body, json!({ "code": "bad_response", "message": message }));
}

/// Starts a server that describes the requests that it gets.
async fn echoing() -> String {
    let echo = async |method: Method, headers: HeaderMap, body: Bytes| {
        let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        let key = headers.get("authorization").and_then(|key| key.to_str().ok()).map(str::to_owned);
        (
            StatusCode::CREATED,
            [("x-request-cost", "3"), ("set-cookie", "a=b")],
            Json(json!({ "method": method.as_str(), "kind": kind, "key": key, "body": String::from_utf8_lossy(&body) })),
        )
    };
    listen(Router::new().route("/", any(echo)).route("/bytes", any(async || vec![0_u8, 255, 128]))).await.to_string()
}

#[tokio::test]
async fn a_handler_posts_to_an_allowed_host_with_its_own_secret() {
    let address = echoing().await;
    let host = Host::builder().flag("--guard-allow", &address).start().await;
    let source = "export default async (req, ctx) => {
        const response = await fetch(req.input.url, {
            method: 'POST',
            headers: { 'content-type': 'application/json', authorization: `Bearer ${ctx.env.API_KEY}` },
            body: JSON.stringify({ item: req.input.item }),
        });
        const bytes = await fetch(`${req.input.url}bytes`).then((answer) => answer.bytes());
        return {
            status: response.status, ok: response.ok, cost: response.headers.get('x-request-cost'),
            cookies: response.headers.getSetCookie(), answer: await response.json(), bytes: [...bytes],
        };
    };";
    let mut tool = js("poster", 0.01, source);
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    host.publish(&tool).await;
    let secret = json!({ "name": "API_KEY", "value": "k-3Zx9Qp7Lm2Vt" });
    host.manage(reqwest::Method::POST, "/ai/endpoints/poster/secrets", &secret).await.is(200);
    let credit = host.mint(1.0).await;
    let input = json!({ "url": format!("http://{address}/"), "item": "a" });
    let body = host.call_credit("poster", &input, &credit).await.is(200).json();
    let answer = json!({ "method": "POST", "kind": "application/json", "key": "Bearer [redacted]", "body": "{\"item\":\"a\"}" });
    assert_eq!(
        body,
        json!({ "status": 201, "ok": true, "cost": "3", "cookies": ["a=b"], "answer": answer, "bytes": [0, 255, 128] }),
        "the secret reached the server, and is hidden from the caller"
    );
}

#[tokio::test]
async fn an_answer_of_another_server_can_be_returned_but_not_its_cookies() {
    let address = echoing().await;
    let host = Host::builder().flag("--guard-allow", &address).start().await;
    let mut tool = js("proxy", 0.0, "export default async (req) => fetch(req.input.url, { method: 'PUT', body: 'text' });");
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    tool["outputSchema"] = json!({});
    host.publish(&tool).await;
    let answer = host.call("proxy", &json!({ "url": format!("http://{address}/") })).await.is(201);
    assert_eq!((answer.header("set-cookie"), answer.header("x-request-cost")), (None, None));
    let body: Value = answer.json();
    assert_eq!((&body["method"], &body["body"]), (&json!("PUT"), &json!("text")));
}

#[tokio::test]
async fn a_secret_in_the_host_of_a_url_is_hidden_in_the_error() {
    let host = Host::start().await;
    let mut tool = js("hook", 0.0, "export default async (req, ctx) => fetch(`https://${ctx.env.HOOK}.a.example.com/`);");
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(["b.example.com"]);
    host.publish(&tool).await;
    let secret = json!({ "name": "HOOK", "value": "k-3Zx9Qp7Lm2Vt" });
    host.manage(reqwest::Method::POST, "/ai/endpoints/hook/secrets", &secret).await.is(200);
    let error = host.call("hook", &json!({})).await.fails(502, "handler_failed", "tool");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the host `[redacted].a.example.com` is not in `allowedHosts`"), "{message}");
}

#[tokio::test]
async fn bytes_in_a_header_of_another_server_reach_the_caller_unchanged() {
    const NAMES: [&[u8]; 2] = [b"inline; filename=caf\xe9", "inline; filename=caf\u{e9}".as_bytes()];
    let named = async |Path(at): Path<usize>| [("content-disposition", HeaderValue::from_bytes(NAMES[at]).unwrap())];
    let address = listen(Router::new().route("/{at}", any(named))).await.to_string();
    let host = Host::builder().flag("--guard-allow", &address).start().await;
    let mut tool = js("bytes", 0.0, "export default async (req) => fetch(req.input.url);");
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    tool["outputSchema"] = json!({});
    host.publish(&tool).await;
    for (at, name) in NAMES.iter().enumerate() {
        let answer = host.call("bytes", &json!({ "url": format!("http://{address}/{at}") })).await.is(200);
        assert_eq!(answer.headers["content-disposition"].as_bytes(), *name);
    }
}

#[tokio::test]
async fn a_slow_server_is_given_up_when_the_signal_says_so() {
    let slow = listen(Router::new().route("/", any(std::future::pending::<StatusCode>))).await.to_string();
    let host = Host::builder().flag("--guard-allow", &slow).start().await;
    let source = "export default async (req) => {
        const early = await fetch(req.input.url, { signal: AbortSignal.timeout(50) }).catch((error) => error.name);
        const late = await fetch(req.input.url).catch((error) => [error.name, error.cause.code]);
        return { early, late };
    };";
    let mut tool = js("patient", 0.0, source);
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    tool["limits"] = json!({ "httpWallMs": 500 });
    host.publish(&tool).await;
    let body = host.call("patient", &json!({ "url": format!("http://{slow}/") })).await.is(200).json();
    assert_eq!(body, json!({ "early": "TimeoutError", "late": ["TypeError", "timeout"] }));
}

/// Starts a server of events. It sends the second one once somebody has asked for `/next`, and then breaks off at `/cut`.
async fn events() -> String {
    let next = Arc::new(Notify::new());
    let wake = Arc::clone(&next);
    let answer = move |Path(path): Path<String>| async move {
        if path == "next" {
            wake.notify_one();
            return Body::from("done");
        }
        let events = futures_util::stream::unfold((0, next, path), |(at, next, path)| async move {
            if at == 1 {
                next.notified().await;
            }
            let event = match at {
                0 | 1 => Ok(format!("data: {at}\n\n")),
                _ if path == "cut" && at == 2 => Err(std::io::Error::other("cut")),
                _ => return None,
            };
            Some((event, (at + 1, next, path)))
        });
        Body::from_stream(events)
    };
    listen(Router::new().route("/{path}", any(answer))).await.to_string()
}

#[tokio::test]
async fn a_handler_reads_a_response_while_its_server_still_sends_it() {
    let server = events().await;
    let host = Host::builder().flag("--guard-allow", &server).start().await;
    let source = "export default async ({ input: { server, path } }) => {
        const { body } = await fetch(`http://${server}/${path}`);
        const reader = body.pipeThrough(new TextDecoderStream()).getReader(), seen = [];
        try {
            for (let read; !(read = await reader.read()).done;) {
                seen.push(read.value);
                // Only this lets the server go on.
                if (seen.length === 1) await (await fetch(`http://${server}/next`)).text();
            }
        } catch (error) {
            seen.push(error.name, error.cause.code);
        }
        return seen;
    };";
    let mut tool = js("listener", 0.0, source);
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    host.publish(&tool).await;
    let seen = host.call("listener", &json!({ "server": server, "path": "whole" })).await.is(200).json();
    assert_eq!(seen, json!(["data: 0\n\n", "data: 1\n\n"]));
    let seen = host.call("listener", &json!({ "server": server, "path": "cut" })).await.is(200).json();
    // The server may lose the event before the cut.
    assert!(seen[0] == "data: 0\n\n" && seen.as_array().unwrap().ends_with(&[json!("TypeError"), json!("unreachable")]), "{seen}");
}

#[tokio::test]
async fn a_handler_passes_a_response_on_and_gives_another_up() {
    let server = events().await;
    let host = Host::builder().flag("--guard-allow", &server).start().await;
    let source = "export default async ({ input: { server } }) => {
        const controller = new AbortController();
        const left = await fetch(`http://${server}/whole`, { signal: controller.signal });
        controller.abort('enough');
        const reason = await left.text().catch((error) => error);
        if (reason !== 'enough') throw new Error('it was read');
        const passed = await fetch(`http://${server}/next`);
        return new Response(passed.body, { headers: { 'content-type': 'text/plain' } });
    };";
    let mut tool = js("passer", 0.0, source);
    tool["capabilities"] = json!({ "fetch": true });
    tool["allowedHosts"] = json!(["127.0.0.1"]);
    host.publish(&tool).await;
    assert_eq!(host.call("passer", &json!({ "server": server })).await.is(200).body, "done");
}
