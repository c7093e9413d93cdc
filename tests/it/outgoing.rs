//! Requests of a handler to another server, which can answer anything.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::harness::{Host, js};

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
