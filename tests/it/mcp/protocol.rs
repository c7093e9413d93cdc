//! The protocol before a tool is called: versions, invalid requests, batches.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{COUNTER, FUNDS, MICROS, MOODY, PRICE, bought_over_mcp, paid_in_meta};
use crate::harness::{Answer, Host, Payer, Replied, js};

#[tokio::test]
async fn both_eras_are_spoken_on_one_url() {
    let host = Host::start().await;
    host.publish(&js("count", 0.0, COUNTER)).await;

    for (request, answered) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let params = json!({ "protocolVersion": request, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let greeted = host.mcp_legacy().ask("initialize", params).await.result();
        assert_eq!(greeted["protocolVersion"], answered, "asked for {request}");
        assert_eq!(greeted["serverInfo"]["name"], "tollhouse");
        assert_eq!(greeted["capabilities"], json!({ "tools": {} }), "there is no stream for changes");
    }
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = host.mcp();
        client.revision = revision;
        let result = client.call("count", json!({}), json!({})).await;
        assert!(result["structuredContent"]["runs"].is_u64(), "{result}");
        assert_eq!(result.get("resultType"), None, "{revision}");
        assert_eq!(client.ask("ping", json!({})).await.result(), json!({}));
    }

    let discovered = host.mcp().ask("server/discover", json!({})).await.result();
    assert_eq!(discovered["supportedVersions"], json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]));
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true);
    assert!(discovered["ttlMs"].is_u64() && discovered["cacheScope"] == "public", "{discovered}");
    let result = host.mcp().call("count", json!({}), json!({})).await;
    assert_eq!((&result["resultType"], &result["structuredContent"]), (&json!("complete"), &json!({ "runs": 4 })));
    assert_eq!(result["content"][0]["text"], r#"{"runs":4}"#);
}

#[tokio::test]
async fn answers_come_as_the_client_accepts_them() {
    let host = Host::start().await;
    for (accept, streamed) in [
        ("application/json, text/event-stream", false),
        ("*/*", false),
        ("application/json", false),
        ("text/event-stream", true),
        ("text/event-stream, application/json;q=0", true),
    ] {
        for mut client in [host.mcp(), host.mcp_legacy()] {
            client.accept = accept;
            let replied = client.ask("tools/list", json!({})).await;
            assert_eq!(replied.streamed, streamed, "{accept}");
            assert!(replied.result()["tools"].is_array());
        }
    }
    let mut client = host.mcp();
    client.accept = "text/html";
    client.ask("tools/list", json!({})).await.fails(406, -32600);
}

#[tokio::test]
async fn every_request_error_is_a_json_rpc_error() {
    let host = Host::start().await;
    let post = |body: &'static str| {
        let request = host.request(Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream");
        request.header("content-type", "application/json").body(body)
    };
    let reply = async |request| Replied::read(&host.send(request).await);
    reply(post("{")).await.fails(400, -32700);
    reply(post("[]")).await.fails(400, -32600);
    reply(post(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#)).await.fails(400, -32600);
    reply(post(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#)).await.fails(400, -32600);
    reply(post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#)).await.fails(200, -32602);
    reply(post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).header("mcp-protocol-version", "1999-01-01")).await.fails(400, -32022);

    let accepted = host.send(post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await.is(202);
    assert!(accepted.body.is_empty());
    for method in [Method::GET, Method::DELETE] {
        let answer = host.send(host.request(method, "/ai/mcp").header("accept", "text/event-stream")).await.is(405);
        assert_eq!(answer.has("allow"), "POST");
    }
    host.mcp().ask("tools/bake", json!({})).await.fails(404, -32601);
    host.mcp().ask("prompts/list", json!({})).await.fails(404, -32601);
    host.mcp_legacy().ask("resources/list", json!({})).await.fails(200, -32601);
    host.mcp().ask("tools/call", json!({ "name": "none", "arguments": {} })).await.fails(200, -32602);
    host.mcp().ask("tools/list", json!({ "cursor": "!" })).await.fails(200, -32602);
    // A header that contradicts the body.
    let crossed = host.mcp().request("tools/list", json!({})).header("mcp-method", "tools/call");
    reply(crossed).await.fails(400, -32020);
}

#[tokio::test]
async fn middleware_rejects_in_json_rpc() {
    let host = Host::builder().flag("--auth-failures", 1).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let reply = async |request| host.send(request).await;
    // The answer to an unread message has no id, not even `null`.
    let describe = |answer: &Answer, status: u16, code: &str| {
        let error = Replied::read(answer).fails(status, -32600);
        assert_eq!(answer.json().get("id"), None, "{answer:?}");
        assert_eq!((&error["data"]["code"], &error["data"]["fault"]), (&json!(code), &json!("caller")));
        assert!(error["data"]["requestId"].is_string() && error["message"] == error["data"]["message"], "{error}");
    };
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let answer = reply(host.request(method, "/ai/mcp")).await;
        describe(&answer, 405, "method_not_allowed");
        assert_eq!(answer.has("allow"), "POST");
    }
    let guess =
        || host.mcp().with_header("x-developer-credit", "dc_wrong").request("tools/call", json!({ "name": "count", "arguments": {} }));
    assert_eq!(reply(guess()).await.status, 200);
    let guessed = reply(guess()).await;
    describe(&guessed, 429, "rate_limited");
    assert!(guessed.has("retry-after").parse::<u64>().unwrap() > 0);
    let large = host.request(Method::POST, "/ai/mcp").header("content-type", "application/json").body(" ".repeat((4 << 20) + 1));
    describe(&reply(large).await, 413, "body_too_large");
    describe(&reply(host.mcp().with_header("origin", "https://evil.example").request("tools/list", json!({}))).await, 403, "forbidden");
    describe(&reply(host.mcp().with_header("host", "evil.example").request("tools/list", json!({}))).await, 403, "forbidden");
    let mut picky = host.mcp();
    picky.accept = "text/html";
    describe(&reply(picky.request("tools/list", json!({}))).await, 406, "not_acceptable");
    let many = Value::Array(vec![json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }); 101]);
    describe(&reply(host.request(Method::POST, "/ai/mcp").json(&many)).await, 400, "invalid_request");
    let torn = host.request(Method::POST, "/ai/mcp").header("content-type", "application/json").body("{");
    assert_eq!(Replied::read(&reply(torn).await).fails(400, -32700)["data"]["code"], "invalid_json");
    // If the message was read, the answer has its id, whatever else is wrong.
    let body = r#"{"jsonrpc":"2.0","id":"mine","method":"tools/list"}"#;
    let post = |body: &'static str| host.request(Method::POST, "/ai/mcp").body(body);
    let typed = reply(post(body).header("content-type", "text/plain")).await;
    assert_eq!(Replied::read(&typed).fails(415, -32600)["data"]["code"], "unsupported_media_type");
    let dated = reply(post(body).header("content-type", "application/json").header("mcp-protocol-version", "1999-01-01")).await;
    let old = Replied::read(&dated).fails(400, -32022);
    assert_eq!((&old["data"]["requested"], old["data"]["supported"].as_array().map(Vec::len)), (&json!("1999-01-01"), Some(4)));
    assert_eq!((&typed.json()["id"], &dated.json()["id"]), (&json!("mine"), &json!("mine")));

    let host = Host::builder().flag("--rate-limit", 1).start().await;
    let answers = join_all((0..6).map(|_| host.send(host.mcp().request("tools/list", json!({}))))).await;
    let refused = answers.iter().find(|answer| answer.status == 429).expect("one too many");
    describe(refused, 429, "rate_limited");
    assert!(refused.has("ratelimit").starts_with("\"address\""));
    // On other paths, errors have the usual envelope.
    let answers = join_all((0..6).map(|_| host.get("/ai/manifest"))).await;
    assert!(answers.iter().any(|answer| answer.status == 429 && answer.json()["error"]["code"] == "rate_limited"));
}

#[tokio::test]
async fn a_page_of_another_origin_and_a_strange_name_are_kept_out() {
    let host = Host::start().await;
    for (name, value) in [("origin", "https://evil.example"), ("origin", "null"), ("host", "evil.example")] {
        host.mcp().with_header(name, value).ask("tools/list", json!({})).await.fails(403, -32600);
    }
    for (name, value) in [("origin", host.url.as_str()), ("origin", "http://localhost:6274"), ("host", "localhost:1")] {
        host.mcp().with_header(name, value).ask("tools/list", json!({})).await.result();
    }
    let host = Host::builder().flag("--mcp-origins", "https://app.example:443").flag("--mcp-hosts", "tools.example").start().await;
    let client = || host.mcp().with_header("host", "tools.example");
    client().with_header("origin", "https://app.example").ask("tools/list", json!({})).await.result();
    client().with_header("origin", "http://localhost:6274").ask("tools/list", json!({})).await.fails(403, -32600);
    host.mcp().ask("tools/list", json!({})).await.fails(403, -32600);
}

#[tokio::test]
async fn every_call_error_follows_its_mcp_revision() {
    let host = Host::start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let mut region = js("region", 0.0, MOODY);
    region["inputSchema"] = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    host.publish(&region).await;
    let call = json!({ "name": "moody", "arguments": {} });
    let region = json!({ "name": "region", "arguments": { "region": "eu" } });
    host.mcp().ask("tools/call", region.clone()).await.fails(400, -32020);
    host.mcp().with_header("mcp-param-region", "us").ask("tools/call", region).await.fails(400, -32020);
    for (name, value) in [("mcp-method", "tools/list"), ("mcp-name", "moody"), ("mcp-name", "count"), ("mcp-method", "tools/call")] {
        // A second value is an error, even if it is the same.
        host.mcp().with_header(name, value).ask("tools/call", call.clone()).await.fails(400, -32020);
    }
    let headers: [&[(&str, &str)]; 4] = [
        &[("mcp-method", "tools/call")],
        &[("mcp-name", "moody")],
        &[("mcp-method", "tools/call"), ("mcp-name", "other")],
        &[("mcp-method", "tools/list"), ("mcp-name", "moody")],
    ];
    let modern = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let post = async |revision: &str, headers: &[(&str, &str)], meta: &Value| {
        let mut params = call.clone();
        params["_meta"] = meta.clone();
        let request = host.request(Method::POST, "/ai/mcp").header("mcp-protocol-version", revision);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let body = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params });
        Replied::read(&host.send(request.json(&body)).await)
    };
    for headers in headers {
        post("2026-07-28", headers, &modern).await.fails(400, -32020);
    }
    let both = [("mcp-method", "tools/call"), ("mcp-name", "moody")];
    assert_eq!(post("2026-07-28", &both, &modern).await.result()["resultType"], "complete");
    for (pointer, value, code) in [
        ("/io.modelcontextprotocol~1protocolVersion", json!("2025-11-25"), -32020),
        ("/io.modelcontextprotocol~1protocolVersion", json!(7), -32602),
        ("/io.modelcontextprotocol~1clientCapabilities", json!("all"), -32602),
        ("/io.modelcontextprotocol~1clientCapabilities", json!(null), -32602),
    ] {
        let mut meta = modern.clone();
        *meta.pointer_mut(pointer).unwrap() = value;
        post("2026-07-28", &both, &meta).await.fails(400, code);
    }
    post("2026-07-28", &both, &json!({})).await.fails(400, -32602);
    post("2027-01-01", &both, &json!({})).await.fails(400, -32022);
    post("2025-11-25", &both, &modern).await.fails(400, -32020);
    for body in [
        r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"moody"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"moody"}}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"moody"}}"#,
    ] {
        let request = host.request(Method::POST, "/ai/mcp").header("content-type", "application/json").body(body);
        Replied::read(&host.send(request).await).fails(400, -32600);
    }
    let request = host.request(Method::POST, "/ai/mcp").header("content-type", "text/plain").body("{}");
    Replied::read(&host.send(request).await).fails(415, -32600);
}

#[tokio::test]
async fn batches_are_taken_in_the_one_revision_that_has_them() {
    let host = Host::builder().flag("--mcp-batch", 8).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    host.publish(&js("free", 0.0, MOODY)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let send = async |revision: Option<&str>, accept: &str, batch: &Value| {
        let request = host.request(Method::POST, "/ai/mcp").header("accept", accept);
        let request = revision.into_iter().fold(request, |request, revision| request.header("mcp-protocol-version", revision));
        host.send(request.json(batch)).await
    };
    let call = |id: Value, name: &str, arguments: Value, meta: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments, "_meta": meta } });
    let both = "application/json, text/event-stream";
    let batch = json!([
        call(json!(1), "free", json!({}), json!({ "progressToken": 1 })),
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        call(json!("two"), "count", json!({}), paid_in_meta(&payment)),
        { "jsonrpc": "2.0", "id": 9, "result": {} },
        call(json!(3), "count", json!({}), paid_in_meta(&payment)),
        { "jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {} },
        { "jsonrpc": "2.0", "id": 5, "method": "resources/list" },
        { "jsonrpc": "2.0", "id": null, "method": "ping" },
    ]);
    for (revision, accept) in [(None, both), (Some("2025-03-26"), "application/json"), (Some("2025-03-26"), "text/event-stream")] {
        let answer = send(revision, accept, &batch).await.is(200);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let streamed = accept == "text/event-stream";
        assert_eq!(answer.has("content-type"), if streamed { "text/event-stream" } else { "application/json" });
        let text = if streamed { text.strip_prefix("data: ").and_then(|text| text.strip_suffix("\n\n")).unwrap() } else { &text };
        let answers: Vec<Value> = serde_json::from_str(text).unwrap();
        let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!(ids, [json!(1), json!("two"), json!(3), json!(4), json!(5), Value::Null], "{text}");
        assert_eq!(answers[0]["result"]["structuredContent"], json!({ "answered": 1 }));
        // A payment buys one run, whether it is repeated in the same batch or in a later one.
        assert_eq!(answers[1]["result"]["structuredContent"], json!({ "runs": 1 }));
        assert_eq!(bought_over_mcp(&answers[1]["result"]), bought_over_mcp(&answers[2]["result"]));
        for (answer, code) in [(&answers[3], -32600), (&answers[4], -32601), (&answers[5], -32600)] {
            assert_eq!(answer["error"]["code"], code, "{answer}");
        }
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);

    let silent = json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }, { "jsonrpc": "2.0", "id": 1, "result": {} }]);
    assert!(send(None, both, &silent).await.is(202).body.is_empty());
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(send(None, both, &json!([ping])).await.is(200).json(), json!([{ "jsonrpc": "2.0", "id": 1, "result": {} }]));
    for refused in [json!([]), Value::Array(vec![ping.clone(); 9])] {
        Replied::read(&send(None, both, &refused).await).fails(400, -32600);
    }
    for later in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        Replied::read(&send(Some(later), both, &json!([ping])).await).fails(400, -32600);
    }
}

#[tokio::test]
async fn a_batch_counts_as_its_members_against_the_addresss_rate() {
    let host = Host::builder().flag("--rate-limit", 4).start().await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let statuses = join_all((0..4).map(|_| async {
        let batch = Value::Array(vec![ping.clone(); 4]);
        host.send(host.request(Method::POST, "/ai/mcp").json(&batch)).await.status
    }))
    .await;
    assert!(statuses.contains(&429) && statuses.contains(&200), "{statuses:?}");
}

#[tokio::test]
async fn initialize_negotiates_the_revision_of_its_header() {
    let host = Host::start().await;
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    for version in ["1900-01-01", "not-a-version", "", "2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28", "2025-11-25, 2025-06-18"] {
        let request = host.request(Method::POST, "/ai/mcp").header("mcp-protocol-version", version);
        let answer = host.send(request.header("accept", "application/json, text/event-stream").json(&greeting)).await;
        let greeted = Replied::read(&answer).result();
        assert_eq!(greeted["protocolVersion"], "2025-06-18", "{version}");
        assert!(!answer.has("mcp-session-id").is_empty(), "{version}");
    }
    // After the handshake, the header is validated.
    for version in ["1900-01-01", "not-a-version", ""] {
        let request = host.request(Method::POST, "/ai/mcp").header("mcp-protocol-version", version);
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        Replied::read(&host.send(request.json(&list)).await).fails(400, -32022);
    }
}

#[tokio::test]
async fn methods_of_another_revision_are_unknown() {
    let host = Host::start().await;
    let send = async |message: &Value, revision: Option<&str>| {
        let request = host.request(Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream").json(message);
        let request = if let Some(revision) = revision { request.header("mcp-protocol-version", revision) } else { request };
        Replied::read(&host.send(request).await)
    };
    let describe = |error: &Value, method: &str| {
        assert_eq!(error["message"], format!("There is no method `{method}`"), "{error}");
        assert_eq!((&error["data"]["code"], &error["data"]["charged"]), (&json!("not_found"), &json!(false)), "{error}");
        assert!(error["data"]["requestId"].is_string(), "{error}");
    };
    // A request that names 2026-07-28 does not get the older revisions' handshake.
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" }, "_meta": meta });
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    for revision in [None, Some("2025-11-25"), Some("2026-07-28")] {
        describe(&send(&greeting, revision).await.fails(404, -32601), "initialize");
    }
    host.mcp().ask("initialize", params).await.fails(404, -32601);
    // Only 2026-07-28 has the stream of changes.
    let listen =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": { "notifications": { "toolsListChanged": true } } });
    for revision in [None, Some("2025-03-26"), Some("2025-11-25")] {
        describe(&send(&listen, revision).await.fails(200, -32601), "subscriptions/listen");
    }
    // Invalid parameters do not change that.
    describe(
        &send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen" }), None).await.fails(200, -32601),
        "subscriptions/listen",
    );
}

#[tokio::test]
async fn params_that_do_not_read_are_named() {
    let host = Host::start().await;
    host.publish(&js("free", 0.0, MOODY)).await;
    let send = async |method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = host.request(Method::POST, "/ai/mcp").header("mcp-protocol-version", "2025-11-25");
        Replied::read(&host.send(request.json(&message)).await)
    };
    for (params, pointer, words) in [
        (json!({}), "/params/name", "`name` is missing"),
        (json!({ "name": 7 }), "/params/name", "`name`"),
        (json!({ "name": "free", "arguments": "{\"a\":1}" }), "/params/arguments", "`arguments` is"),
        (json!({ "name": "free", "arguments": [] }), "/params/arguments", "`arguments` is"),
        (Value::Null, "/params", "missing"),
    ] {
        let error = send("tools/call", params.clone()).await.fails(200, -32602);
        assert!(error["message"].as_str().unwrap().contains(words), "{params}: {error}");
        assert_eq!(error["data"]["pointer"], pointer, "{params}: {error}");
    }
    // A missing value and `null` are the same.
    for (method, params) in [("tools/list", Value::Null), ("ping", Value::Null), ("tools/call", json!({ "name": "free" }))] {
        send(method, params).await.result();
    }
    send("tools/call", json!({ "name": "free", "arguments": null, "_meta": null })).await.result();
}

#[tokio::test]
async fn a_batch_is_answered_member_by_member_as_its_client_takes_it() {
    let host = Host::start().await;
    host.publish(&js("count", 0.0, COUNTER)).await;
    let call = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "count", "arguments": { "ms": 400 } } });
    let batch = Value::Array((0..10).map(call).collect());
    let mut answer = host.request(Method::POST, "/ai/mcp").json(&batch).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut text = String::new();
    while !text.contains(r#""runs":1"#) {
        let chunk =
            tokio::time::timeout(std::time::Duration::from_secs(20), answer.chunk()).await.expect("the first one is answered alone");
        text += std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap();
    }
    assert!(!text.contains(r#""runs":10"#), "{text}");
    // If the client has gone, the remaining members are not run.
    drop(answer);
    let runs = host.mcp().call("count", json!({}), json!({})).await["structuredContent"]["runs"].as_u64().unwrap();
    assert!(runs < 10, "{runs}");
}

/// Regression: the parsed message can need many times its length. One with a million empty objects
/// took 100 MB and more.
#[tokio::test]
async fn a_message_has_so_many_values() {
    let host = Host::start().await;
    let before = host.resident();
    let request = |values: usize| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":[{}]}}}}"#, vec!["{}"; values].join(","));
        host.send(host.request(Method::POST, "/ai/mcp").header("content-type", "application/json").header("accept", "*/*").body(body))
    };
    request(50_000).await.is(200);
    for refused in join_all((0..8).map(|_| request(1_000_000))).await {
        let error = refused.is(400).json()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("the maximum is 200000"), "{error}");
    }
    let grown = host.resident().saturating_sub(before);
    assert!(grown < 150 << 20, "the process has grown by {grown} bytes");
    // A method name from a stranger must not get into the log.
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(100_000));
    let post = host.request(Method::POST, "/ai/mcp").header("content-type", "application/json").header("accept", "*/*").body(body);
    assert!(host.send(post).await.body.len() < 2_000);
    assert!(!host.log().contains("xxxx"), "{}", host.log().len());
}
