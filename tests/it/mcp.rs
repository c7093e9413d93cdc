//! The MCP front: revisions, lists, payments in every dialect, errors. The clients of the field are in `cargo xtask conformance`.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Facilitator, Host, Payer, Payment, Replied, Settles, eventually, js};

const FUNDS: u64 = 1_000_000;
const MICROS: u64 = 10_000;
const PRICE: f64 = 0.01;

/// Counts its runs, and takes its time if told to.
const COUNTER: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    if (req.input.ms) await new Promise((done) => setTimeout(done, req.input.ms));
    return { runs };
};";

/// Ends as its input says.
const MOODY: &str = "export default async (req, ctx) => {
    ctx.log.info('begun');
    switch (req.input.mood) {
        case 'throws': throw new TypeError('no more');
        case 'wrong': return { answered: 'yes' };
        case 'polite': return Response.json({ error: { code: 'no_such_thing' } }, { status: 422 });
        case 'list': return [1, 2];
        case 'text': return new Response('words', { headers: { 'content-type': 'text/plain' } });
        case 'picture': return new Response(new Uint8Array([1, 2, 3]), { headers: { 'content-type': 'image/png' } });
        case 'headers': return { headers: req.headers, path: req.path, method: req.method };
    }
    await new Promise((done) => setTimeout(done, req.input.ms ?? 0));
    return { answered: 1 };
};";

fn paid_in_meta(payment: &Payment) -> Value {
    json!({ "x402/payment": payment.payload })
}

/// The challenge in a result, which must stand everywhere that a client looks for it.
#[track_caller]
fn challenge(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    let told = &result["structuredContent"];
    assert!(told["accepts"].is_array(), "{result}");
    assert_eq!(&serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap(), told);
    let dialect = &result["_meta"]["x402/error"];
    assert_eq!((&dialect["accepts"], &dialect["resource"]["url"]), (&told["accepts"], &told["resource"]["url"]));
    assert!(told["x402Version"] == 1 || dialect.to_string().is_ascii(), "Cloudflare's client sends it through `btoa`: {dialect}");
    told.clone()
}

/// The error envelope of a tool's error.
#[track_caller]
fn refusal(result: &Value, code: &str) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result.get("structuredContent"), None, "clients hold it against the outputSchema: {result}");
    let error = &result["_meta"]["tollhouse/error"];
    assert_eq!(error["code"], code, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with(code), "{result}");
    error.clone()
}

#[tokio::test]
async fn both_eras_are_spoken_on_one_url() {
    let host = Host::start().await;
    host.publish(&js("count", 0.0, COUNTER)).await;

    for (asked, answered) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let greeted = host.mcp_legacy().ask("initialize", params).await.result();
        assert_eq!(greeted["protocolVersion"], answered, "asked for {asked}");
        assert_eq!(greeted["serverInfo"]["name"], "tollhouse");
        assert_eq!(greeted["capabilities"], json!({ "tools": {} }), "there is no stream to hear of changes on");
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
async fn whatever_is_wrong_with_a_request_is_told_in_json_rpc() {
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
    // A header that says another thing than the body.
    let crossed = host.mcp().request("tools/list", json!({})).header("mcp-method", "tools/call");
    reply(crossed).await.fails(400, -32020);
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
async fn tools_are_listed_with_their_prices() {
    let host = Host::start().await;
    let mut tool = js("count", PRICE, COUNTER);
    tool["description"] = json!("Counts.");
    tool["outputSchema"] =
        json!({ "type": "object", "properties": { "runs": { "$ref": "#/$defs/n" } }, "$defs": { "n": { "type": "integer" } } });
    host.publish(&tool).await;
    host.publish(&js("free", 0.0, MOODY)).await;

    let listed = host.mcp().ask("tools/list", json!({})).await.result();
    assert!(listed["ttlMs"].is_u64() && listed["cacheScope"] == "public", "{listed}");
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["count", "free", "get_receipt", "search_tools"]);

    let paid = host.mcp().tool("count").await.unwrap();
    assert!(paid["description"].as_str().unwrap().contains("0.01 USD"), "{paid}");
    assert_eq!(paid["inputSchema"]["type"], "object");
    assert_eq!(paid["annotations"]["readOnlyHint"], false, "spending money is nothing to do unasked");
    let meta = &paid["_meta"];
    assert_eq!((&meta["agents-x402/paymentRequired"], &meta["agents-x402/priceUSD"]), (&json!(true), &json!(PRICE)));
    let terms = host.challenge("count").await["accepts"][0].clone();
    assert_eq!(meta["x402"], terms);
    // A challenge fits the schema that its structured content is held against, and so does a result.
    let schema = jsonschema::validator_for(&paid["outputSchema"]).unwrap();
    let unpaid = host.mcp().call("count", json!({}), json!({})).await;
    assert!(schema.is_valid(&unpaid["structuredContent"]));
    assert!(schema.is_valid(&json!({ "runs": 1 })) && !schema.is_valid(&json!({ "runs": "one" })));

    let free = host.mcp().tool("free").await.unwrap();
    assert_eq!(free["_meta"]["tollhouse/priceUsd"], 0);
    assert_eq!(free["_meta"].get("x402"), None);

    let mut narrowed = host.mcp();
    narrowed.query = "?tools=free,search_tools";
    let names: Vec<_> = narrowed.tools().await.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["free", "search_tools"]);
    narrowed.ask("tools/call", json!({ "name": "count", "arguments": {} })).await.fails(200, -32602);
    let found = narrowed.call("search_tools", json!({ "query": "counts" }), json!({})).await;
    assert_eq!(found["structuredContent"]["total"], 0);
    let found = host.mcp().call("search_tools", json!({ "query": "Counts please" }), json!({})).await;
    assert_eq!(found["structuredContent"]["tools"][0]["name"], "count");
}

/// Without what differs from call to call.
fn said(replied: &Replied) -> Value {
    let mut said = replied.response.clone();
    for pointer in ["/result/_meta/tollhouse~1error/requestId", "/error/data/requestId"] {
        if let Some(id) = said.pointer_mut(pointer) {
            *id = json!("one");
        }
    }
    said
}

#[tokio::test]
async fn a_plain_call_goes_past_rmcp_and_is_answered_the_same() {
    let host = Host::builder().flag("--log", "info,rmcp=info").start().await;
    let mut paid = js("count", PRICE, COUNTER);
    paid["inputSchema"] = json!({ "type": "object", "properties": { "ms": { "type": "integer" } } });
    host.publish(&paid).await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let mut region = js("region", 0.0, MOODY);
    region["inputSchema"] = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    host.publish(&region).await;
    host.publish(&slow("slow", 0.0)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let asked = host.challenge("count").await;
    let through_rmcp = || host.log().matches("Service initialized as server").count();

    for revision in ["", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let (v2, v1) = (payer.pay(&asked), payer.pay_v1(&host.mcp().call("count", json!({}), json!({})).await["_meta"]["x402/v1"]));
        let failing = payer.pay(&asked);
        for (name, arguments, meta) in [
            ("moody", json!({}), json!({})),
            ("moody", json!({ "mood": "list" }), json!({})),
            ("moody", json!({ "mood": "picture" }), json!({})),
            ("moody", json!({ "mood": "throws" }), json!({})),
            ("moody", json!({ "mood": "polite" }), json!({})),
            ("moody", json!({ "mood": "headers" }), json!({ "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" })),
            ("search_tools", json!({ "query": "count" }), json!({})),
            ("search_tools", json!({ "words": 1 }), json!({})),
            ("get_receipt", json!({ "receiptId": "none" }), json!({})),
            ("count", json!({}), json!({})),
            ("count", json!({}), json!({ "x402/payment": "%%%" })),
            ("count", json!({ "ms": "no number" }), paid_in_meta(&failing)),
            ("count", json!({ "ms": 1 }), paid_in_meta(&v2)),
            ("count", json!({ "ms": 1 }), json!({ "x402/payment": v1.encoded() })),
            ("count", json!({ "ms": 2 }), paid_in_meta(&v2)),
        ] {
            let mut client = host.mcp();
            client.revision = revision;
            let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
            let before = through_rmcp();
            let direct = client.ask("tools/call", params.clone()).await;
            assert_eq!((through_rmcp(), direct.streamed), (before, false), "{revision}: {params}");
            client.accept = "text/event-stream";
            let mut theirs = client.ask("tools/call", params.clone()).await;
            assert_eq!((through_rmcp(), theirs.streamed), (before + 1, true), "{revision}: {params}");
            if name == "moody" {
                // Each run has a receipt of its own.
                let receipt = &direct.response["result"]["_meta"]["tollhouse/receipt"];
                if receipt.is_object() {
                    theirs.response["result"]["_meta"]["tollhouse/receipt"] = receipt.clone();
                }
            }
            assert_eq!((direct.status, said(&direct)), (theirs.status, said(&theirs)), "{revision}: {params}");
        }
        let mut client = host.mcp();
        client.revision = revision;
        // Whatever is not in order, or asks for more than a result, is rmcp's.
        let mut tasks_taker = client.clone();
        tasks_taker.capabilities = tasks();
        let before = through_rmcp();
        client.ask("tools/call", json!({ "name": "none", "arguments": {} })).await.fails(200, -32602);
        client.ask("tools/call", json!({ "name": "moody", "arguments": {}, "_meta": { "progressToken": 1 } })).await.result();
        client.ask("tools/call", json!({ "name": "moody", "arguments": {}, "requestState": "s" })).await.result();
        client.ask("tools/call", json!({ "name": "moody", "arguments": null })).await.result();
        assert_eq!(through_rmcp(), before + 3, "{revision}");
        let long = tasks_taker.ask("tools/call", json!({ "name": "slow", "arguments": {} })).await;
        let modern = revision == "2026-07-28";
        assert_eq!((long.result()["resultType"] == "task", through_rmcp()), (modern, before + 3 + usize::from(modern)));
        let with_header = client.clone().with_header("mcp-param-region", "eu");
        with_header.ask("tools/call", json!({ "name": "region", "arguments": { "region": "eu" } })).await.result();
        assert_eq!(through_rmcp(), before + 3 + 2 * usize::from(modern), "{revision}");
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_call_is_refused_by_the_rules_of_its_revision() {
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
        // A second value is one too many, even if it is the same.
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

/// What a client declares that knows x402's extension.
fn payments() -> Value {
    json!({ "extensions": { "org.x402/payment": {} } })
}

/// The challenge in a result of the extension's own kind.
#[track_caller]
fn extension_challenge(result: &Value) -> Value {
    assert_eq!(result["resultType"], "payment_required", "{result}");
    for absent in ["content", "structuredContent", "isError"] {
        assert_eq!(result.get(absent), None, "{result}");
    }
    assert!(result["paymentRequired"]["accepts"].is_array(), "{result}");
    result["paymentRequired"].clone()
}

#[tokio::test]
async fn the_payment_extension_is_spoken_with_who_declares_it_alone() {
    let facilitator = Facilitator::start(Settles::Refused("insufficient_funds")).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::new();
    let discovered = host.mcp().ask("server/discover", json!({})).await.result();
    assert_eq!(discovered["capabilities"]["extensions"]["org.x402/payment"], json!({}));
    let usual = challenge(&host.mcp().call("count", json!({}), json!({})).await);

    let mut client = host.mcp();
    client.capabilities = payments();
    let mut streaming = client.clone();
    streaming.accept = "text/event-stream";
    let progress = json!({ "progressToken": "p" });
    for (client, meta) in [(&client, json!({})), (&streaming, json!({})), (&client, progress.clone()), (&streaming, progress)] {
        let unpaid = client.call("count", json!({}), meta.clone()).await;
        let asked = extension_challenge(&unpaid);
        assert_eq!(asked, usual);
        // A payment that is refused is told in the version that it spoke.
        facilitator.tell(Settles::Refused("insufficient_funds"));
        for payment in [payer.pay(&asked), payer.pay_v1(&unpaid["_meta"]["x402/v1"])] {
            let mut meta = meta.clone();
            meta["x402/payment"] = payment.payload.clone();
            let told = extension_challenge(&client.call("count", json!({}), meta).await);
            assert_eq!((&told["error"], &told["x402Version"]), (&json!("insufficient_funds"), &payment.payload["x402Version"]));
        }
        // One that is good is answered as everybody's.
        facilitator.tell(Settles::Well);
        for payment in [payer.pay(&asked), payer.pay_v1(&unpaid["_meta"]["x402/v1"])] {
            let mut meta = meta.clone();
            meta["x402/payment"] = payment.payload.clone();
            let result = client.call("count", json!({}), meta).await;
            assert_eq!((&result["resultType"], &result["_meta"]["x402/payment-response"]["success"]), (&json!("complete"), &json!(true)));
        }
    }
    // A result that looks like a challenge, and an older revision: nothing is told anew.
    let lying = js("liar", 0.0, "export default () => ({ x402Version: 2, accepts: [], _meta: { 'x402/error': {} } });");
    host.publish(&lying).await;
    for client in [&client, &streaming] {
        assert_eq!(client.call("liar", json!({}), json!({})).await["resultType"], "complete");
    }
    let mut legacy = client.clone();
    legacy.revision = "2025-11-25";
    challenge(&legacy.call("count", json!({}), json!({})).await);
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
        assert_eq!(ids, [json!(1), json!("two"), json!(3), Value::Null, json!(5), Value::Null], "{text}");
        assert_eq!(answers[0]["result"]["structuredContent"], json!({ "answered": 1 }));
        // One payment is one run, whether the second member shows it or a later batch.
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
async fn changes_show_at_once_and_are_told_to_who_listens() {
    let host = Host::start().await;
    let params = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
    let mut stream = host.mcp().request("subscriptions/listen", params).send().await.unwrap();
    assert!(stream.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let mut text = String::new();
    let mut next = async || loop {
        if let Some((event, rest)) = text.split_once("\n\n").map(|(event, rest)| (event.to_owned(), rest.to_owned())) {
            text = rest;
            if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data:")) {
                return serde_json::from_str::<Value>(data.trim()).unwrap();
            }
            continue;
        }
        let chunk = tokio::time::timeout(Duration::from_secs(10), stream.chunk()).await.expect("nothing was told").unwrap().unwrap();
        text += std::str::from_utf8(&chunk).unwrap();
    };
    let acknowledged = next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));
    let mut told = async || {
        let told = next().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    };

    host.publish(&js("count", PRICE, COUNTER)).await;
    told().await;
    assert_eq!(host.mcp().tool("count").await.unwrap()["_meta"]["tollhouse/priceUsd"], PRICE);
    host.change("count", &json!({ "priceUsd": 0.5 })).await;
    told().await;
    assert_eq!(host.mcp().tool("count").await.unwrap()["_meta"]["tollhouse/priceUsd"], 0.5);
    host.change("count", &json!({ "status": "paused" })).await;
    told().await;
    assert!(host.mcp().tool("count").await.is_none());
    refusal(&host.mcp().call("count", json!({}), json!({})).await, "endpoint_paused");
    // Told to end, the host ends the stream as it should.
    host.terminate();
    assert_eq!(next().await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn each_dialect_of_payment_pays() {
    let host = Host::start().await;
    let mut tool = js("count", PRICE, COUNTER);
    tool["description"] = json!("Zählt – 数える");
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let mut runs = 0;
    for client in [host.mcp(), host.mcp_legacy()] {
        let unpaid = client.call("count", json!({}), json!({})).await;
        let asked = challenge(&unpaid);
        assert_eq!(asked["x402Version"], 2);
        let asked_v1 = &unpaid["_meta"]["x402/v1"];
        let (v2, v1) = (|| payer.pay(&asked), || payer.pay_v1(asked_v1));
        let offers = [
            (2, paid_in_meta(&v2())),
            (2, json!({ "x402/payment": v2().encoded() })),
            (1, paid_in_meta(&v1())),
            (1, json!({ "x402/payment": v1().encoded() })),
        ];
        for (version, meta) in offers {
            let result = client.call("count", json!({}), meta).await;
            runs += 1;
            assert_eq!((&result["isError"], &result["structuredContent"]), (&json!(false), &json!({ "runs": runs })), "{result}");
            let settled = &result["_meta"]["x402/payment-response"];
            let network = if version == 1 { "base-sepolia" } else { "eip155:84532" };
            assert_eq!((&settled["success"], &settled["network"]), (&json!(true), &json!(network)), "{result}");
            assert_eq!(settled["payer"].as_str().unwrap().to_lowercase(), payer.address.to_lowercase());
            let id = result["_meta"]["tollhouse/receipt"]["receiptId"].as_str().unwrap();
            let receipt = client.call("get_receipt", json!({ "receiptId": id }), json!({})).await["structuredContent"]["receipt"].clone();
            assert_eq!((&receipt["x402Version"], &receipt["transaction"]), (&json!(version), &settled["transaction"]));
            assert_eq!(receipt, host.receipt(id).await);
        }
        for payment in [v2(), v1()] {
            let with_header = client.clone().with_header(payment.header, payment.encoded());
            runs += 1;
            assert_eq!(with_header.call("count", json!({}), json!({})).await["structuredContent"], json!({ "runs": runs }));
        }
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - runs * MICROS);
}

#[tokio::test]
async fn developer_credit_pays_in_meta_and_in_the_clients_configuration() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let credit = host.mint(0.03).await;
    let once = json!({ "tollhouse/credit": credit, "tollhouse/idempotencyKey": "once" });
    for _ in 0..2 {
        let result = host.mcp().call("count", json!({}), once.clone()).await;
        assert_eq!(result["structuredContent"], json!({ "runs": 1 }), "{result}");
    }
    let configured = host.mcp_legacy().with_header("x-developer-credit", &credit);
    assert_eq!(configured.call("count", json!({}), json!({})).await["structuredContent"], json!({ "runs": 2 }));
    assert_eq!(host.credit_balance(&credit).await, 10_000);
    let wrong = host.mcp().call("count", json!({}), json!({ "tollhouse/credit": "dc_nobody" })).await;
    assert!(challenge(&wrong)["error"].as_str().unwrap().contains("credit"));
}

/// The answer of one call, whichever front gave it: result, receipt, settlement.
fn bought(answer: &Answer) -> (Value, Value, Value) {
    (answer.json(), json!(answer.receipt_id()), answer.decoded("payment-response"))
}

fn bought_over_mcp(result: &Value) -> (Value, Value, Value) {
    let meta = &result["_meta"];
    (result["structuredContent"].clone(), meta["tollhouse/receipt"]["receiptId"].clone(), meta["x402/payment-response"].clone())
}

#[tokio::test]
async fn one_payment_over_http_and_mcp_at_once_is_one_run_and_one_settlement() {
    let facilitator = Facilitator::start(Settles::Well).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::new();
    for round in 1..=4 {
        let payment = payer.pay(&host.challenge("count").await);
        let input = json!({ "ms": 60, "b": 1.0, "a": [round] });
        let same = json!({ "a": [round], "b": 1, "ms": 60 });
        let http = join_all((0..4).map(|_| async { bought(&host.call_paid("count", &input, &payment).await.is(200)) }));
        let (modern, legacy) = (host.mcp(), host.mcp_legacy());
        let mcp = join_all((0..4).map(|n| {
            let client = if n % 2 == 0 { modern.clone() } else { legacy.clone() };
            let meta = if n < 2 { paid_in_meta(&payment) } else { json!({ "x402/payment": payment.encoded() }) };
            let same = same.clone();
            async move { bought_over_mcp(&client.call("count", same, meta).await) }
        }));
        let (mut answers, over_mcp) = tokio::join!(http, mcp);
        answers.extend(over_mcp);
        answers.push(bought_over_mcp(&host.mcp().call("count", input.clone(), paid_in_meta(&payment)).await));
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        assert_eq!(answers[0].0, json!({ "runs": round }));
        assert_eq!(facilitator.asked(), round);
        let other = host.mcp().call("count", json!({ "ms": 0 }), paid_in_meta(&payment)).await;
        assert_eq!(refusal(&other, "payment_reused")["charged"], false);
    }
}

#[tokio::test]
async fn a_refused_settlement_withholds_the_content() {
    let facilitator = Facilitator::start(Settles::Refused("insufficient_funds")).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::new();
    let unpaid = host.mcp().call("count", json!({}), json!({})).await;
    for payment in [payer.pay(&challenge(&unpaid)), payer.pay_v1(&unpaid["_meta"]["x402/v1"])] {
        let result = host.mcp().call("count", json!({}), paid_in_meta(&payment)).await;
        let told = challenge(&result);
        assert_eq!((&told["error"], &told["x402Version"]), (&json!("insufficient_funds"), &payment.payload["x402Version"]));
        assert!(!result.to_string().contains("runs\\\":"), "{result}");
    }
    facilitator.tell(Settles::Unanswered);
    let payment = payer.pay(&challenge(&unpaid));
    let result = host.mcp().call("count", json!({}), paid_in_meta(&payment)).await;
    let error = refusal(&result, "settlement_unknown");
    assert_eq!((&error["charged"], &error["paymentId"]), (&json!("unknown"), &json!(payment.id())));
}

#[tokio::test]
async fn a_payment_that_is_refused_says_why() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let poor = Payer::new();
    let asked = challenge(&host.mcp().call("count", json!({}), json!({})).await);
    let payment = poor.pay(&asked);
    let cheaper = payment.altered("/accepted/amount", json!("1"));
    for (meta, reason) in [
        (json!({ "x402/payment": "%%%" }), "invalid_payload"),
        (json!({ "x402/payment": 7 }), "invalid_payload"),
        (json!({ "x402/payment": {} }), "invalid_x402_version"),
        (paid_in_meta(&cheaper), "invalid_payment_requirements"),
        (paid_in_meta(&payment), "invalid_exact_evm_insufficient_balance"),
    ] {
        assert_eq!(challenge(&host.mcp().call("count", json!({}), meta).await)["error"], reason);
    }
}

#[tokio::test]
async fn what_a_model_can_mend_is_a_tools_error() {
    let host = Host::start().await;
    let mut tool = js("moody", PRICE, MOODY);
    tool["inputSchema"] = json!({ "type": "object", "properties": { "mood": { "type": "string" }, "ms": { "type": "integer" } } });
    tool["outputSchema"] = json!({ "type": "object", "properties": { "answered": { "type": "integer" } } });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let asked = host.challenge("moody").await;
    for (input, code) in [
        (json!({ "mood": 1 }), "invalid_input"),
        (json!({ "mood": "throws" }), "handler_failed"),
        (json!({ "mood": "wrong" }), "invalid_output"),
    ] {
        let payment = payer.pay(&asked);
        let result = host.mcp().call("moody", input.clone(), paid_in_meta(&payment)).await;
        let error = refusal(&result, code);
        assert_eq!(error["charged"], false);
        assert!(error["requestId"].as_str().unwrap().starts_with("req_"), "{error}");
        assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
        // The same table as over HTTP.
        let http = host.call_paid("moody", &input, &payer.pay(&asked)).await.json()["error"].clone();
        assert_eq!((&error["code"], &error["fault"], &error["message"]), (&http["code"], &http["fault"], &http["message"]));
    }
    let result = host.mcp().call("moody", json!({ "mood": "polite" }), paid_in_meta(&payer.pay(&asked))).await;
    assert_eq!((&result["isError"], &result["_meta"]["tollhouse/status"]), (&json!(true), &json!(422)));
    assert_eq!(result["content"][0]["text"], r#"{"error":{"code":"no_such_thing"}}"#);
    assert_eq!(host.balance(&payer.address).await, FUNDS);
}

#[tokio::test]
async fn results_that_are_no_objects_have_their_own_blocks() {
    let host = Host::start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let call = async |mood: &str| host.mcp().call("moody", json!({ "mood": mood }), json!({})).await;
    let list = call("list").await;
    assert_eq!((&list["content"][0]["text"], list.get("structuredContent")), (&json!("[1,2]"), None));
    assert_eq!(call("text").await["content"][0], json!({ "type": "text", "text": "words" }));
    assert_eq!(call("picture").await["content"][0], json!({ "type": "image", "data": "AQID", "mimeType": "image/png" }));
}

#[tokio::test]
async fn a_trace_is_carried_into_the_handler() {
    let host = Host::start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for client in [host.mcp(), host.mcp_legacy()] {
        let in_meta = client.call("moody", json!({ "mood": "headers" }), json!({ "traceparent": trace })).await;
        let traced = json!(["traceparent", trace]);
        assert!(in_meta["structuredContent"]["headers"].as_array().unwrap().contains(&traced), "{in_meta}");
        let with_header = client.clone().with_header("traceparent", trace).with_header("x-payment-secret", "s");
        let seen = with_header.call("moody", json!({ "mood": "headers" }), json!({})).await["structuredContent"].clone();
        assert!(seen["headers"].as_array().unwrap().contains(&traced), "{seen}");
        assert_eq!((&seen["path"], &seen["method"]), (&json!("/tools/moody"), &json!("POST")));
        assert!(!seen.to_string().contains("x-payment-secret"));
    }
}

#[tokio::test]
async fn progress_is_told_to_who_asks_for_it() {
    let host = Host::builder().flag("--mcp-progress-ms", 100).start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    for client in [host.mcp(), host.mcp_legacy()] {
        let params = json!({ "name": "moody", "arguments": { "ms": 450 }, "_meta": { "progressToken": "p1" } });
        let replied = client.ask("tools/call", params.clone()).await;
        assert_eq!(replied.result()["structuredContent"], json!({ "answered": 1 }));
        let told: Vec<_> = replied.notifications.iter().map(|note| &note["params"]).collect();
        assert!(
            replied.notifications.iter().all(|note| note["method"] == "notifications/progress" && note["params"]["progressToken"] == "p1")
        );
        assert!(told.len() >= 4, "{told:?}");
        assert!(told.windows(2).all(|pair| pair[0]["progress"].as_f64() < pair[1]["progress"].as_f64()), "{told:?}");
        assert_eq!(told.iter().filter(|note| note["message"] == "begun").count(), 1, "log lines are told: {told:?}");
        // One that takes JSON alone gets JSON alone.
        let mut plain = client.clone();
        plain.accept = "application/json";
        let replied = plain.ask("tools/call", params).await;
        assert!(!replied.streamed && replied.notifications.is_empty());
    }
    let silent = host.mcp().ask("tools/call", json!({ "name": "moody", "arguments": { "ms": 250 } })).await;
    assert!(!silent.streamed);
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_not_charged() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let params = json!({ "name": "count", "arguments": { "ms": 8_000 }, "_meta": paid_in_meta(&payment) });
    let hang_up = async |client: crate::harness::Mcp<'_>| {
        let asking = client.request("tools/call", params.clone()).send();
        assert!(tokio::time::timeout(Duration::from_millis(400), asking).await.is_err());
    };
    // Closing the connection takes a call back in 2026-07-28.
    hang_up(host.mcp()).await;
    let line = async || host.log().lines().find(|line| line.contains("a tool was called over MCP")).map(str::to_owned);
    let line = eventually("the call has its line in the log", Duration::from_secs(4), line).await;
    assert!(line.contains("\"cancelled\"") && line.contains("\"unknown\""), "{line}");
    let state = async |wanted: &'static str| {
        eventually(wanted, Duration::from_secs(4), || async {
            host.payment(&payment.id()).await.filter(|payment| payment["state"] == wanted)
        })
        .await
    };
    state("released").await;
    assert_eq!(host.balance(&payer.address).await, FUNDS);
    // The payment is as good as before: and one that another front waits for is not taken back.
    let input = json!({ "ms": 1_500 });
    let params = json!({ "name": "count", "arguments": input, "_meta": paid_in_meta(&payment) });
    let client = host.mcp();
    let leader = async { tokio::time::timeout(Duration::from_millis(700), client.request("tools/call", params).send()).await.is_err() };
    let joined = async {
        state("reserved").await;
        host.call_paid("count", &input, &payment).await.is(200)
    };
    let (hung_up, answer) = tokio::join!(leader, joined);
    assert!(hung_up);
    assert_eq!(answer.json(), json!({ "runs": 2 }));
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn a_broken_connection_of_an_older_revision_loses_nothing() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let params = json!({ "name": "count", "arguments": { "ms": 900 }, "_meta": paid_in_meta(&payment) });
    let asking = host.mcp_legacy().request("tools/call", params.clone()).send();
    assert!(tokio::time::timeout(Duration::from_millis(300), asking).await.is_err());
    eventually("the call settles", Duration::from_secs(5), || async {
        host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
    })
    .await;
    let again = host.mcp_legacy().ask("tools/call", params).await.result();
    assert_eq!(again["structuredContent"], json!({ "runs": 1 }));
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn one_address_calls_one_tool_only_so_often() {
    let host = Host::builder().flag("--mcp-rate-limit", 2).start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let mut last = Value::Null;
    for _ in 0..12 {
        last = host.mcp().call("moody", json!({}), json!({})).await;
    }
    assert_eq!(refusal(&last, "rate_limited")["fault"], "caller");
    assert_eq!(host.mcp().call("search_tools", json!({ "query": "moody" }), json!({})).await["isError"], false);
    let log = host.log();
    let audited: Vec<_> = log.lines().filter(|line| line.contains("a tool was called over MCP")).collect();
    assert_eq!(audited.len(), 13, "{log}");
    assert!(audited.iter().any(|line| line.contains("moody") && line.contains("rate_limited")), "{log}");
}

/// What a client declares that takes tasks.
fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

/// A tool that is long-running, and so a task.
fn slow(slug: &str, price: f64) -> Value {
    let mut tool = js(slug, price, COUNTER);
    tool["limits"] = json!({ "wallMs": 20_000 });
    tool
}

async fn task(client: &crate::harness::Mcp<'_>, id: &str) -> Value {
    client.ask("tasks/get", json!({ "taskId": id })).await.result()
}

/// The task once it has ended.
async fn ended(client: &crate::harness::Mcp<'_>, id: &str) -> Value {
    eventually("the task ends", Duration::from_secs(20), || async {
        Some(task(client, id).await).filter(|task| task["status"] != "working")
    })
    .await
}

#[tokio::test]
async fn a_long_running_call_is_a_task_for_who_takes_tasks() {
    let host = Host::start().await;
    host.publish(&slow("count", PRICE)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let mut client = host.mcp();
    client.capabilities = tasks();
    // Before it is a task it is paid for, and its input fits.
    let asked = challenge(&client.call("count", json!({}), json!({})).await);
    let payment = payer.pay(&asked);
    let created = client.call("count", json!({ "ms": 700 }), paid_in_meta(&payment)).await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
    assert!(created["ttlMs"].is_u64() && created["pollIntervalMs"].is_u64(), "{created}");
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(task(&client, id).await["status"], "working");
    let done = ended(&client, id).await;
    assert_eq!((&done["status"], &done["result"]["structuredContent"]), (&json!("completed"), &json!({ "runs": 1 })), "{done}");
    let settled = &done["result"]["_meta"]["x402/payment-response"];
    assert_eq!(settled["success"], true);
    // The same payment again is the same answer, over HTTP too.
    let again = host.call_paid("count", &json!({ "ms": 700 }), &payment).await.is(200);
    assert_eq!(bought(&again), bought_over_mcp(&done["result"]));
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);

    // Nobody else's id is guessed, and who does not take tasks sees none.
    client.ask("tasks/get", json!({ "taskId": format!("{}x", &id[..id.len() - 1]) })).await.fails(200, -32602);
    client.ask("tasks/cancel", json!({ "taskId": "task_none" })).await.fails(200, -32602);
    host.mcp().ask("tasks/get", json!({ "taskId": id })).await.fails(400, -32021);
    for method in ["tasks/list", "tasks/result"] {
        client.ask(method, json!({ "taskId": id })).await.fails(404, -32601);
    }
    let plain = host.mcp().call("count", json!({}), paid_in_meta(&payer.pay(&asked))).await;
    assert_eq!((&plain["resultType"], &plain["structuredContent"]), (&json!("complete"), &json!({ "runs": 2 })));
}

#[tokio::test]
async fn a_task_that_is_cancelled_is_not_charged() {
    let host = Host::start().await;
    host.publish(&slow("count", PRICE)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let mut client = host.mcp();
    client.capabilities = tasks();
    let payment = payer.pay(&host.challenge("count").await);
    let created = client.call("count", json!({ "ms": 15_000 }), paid_in_meta(&payment)).await;
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(client.ask("tasks/cancel", json!({ "taskId": id })).await.result()["resultType"], "complete");
    assert_eq!(ended(&client, id).await["status"], "cancelled");
    assert_eq!(client.ask("tasks/cancel", json!({ "taskId": id })).await.result()["resultType"], "complete");
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
    assert_eq!(host.balance(&payer.address).await, FUNDS);
}

#[tokio::test]
async fn a_task_outlives_the_host_that_is_killed() {
    // The port changes from start to start; payments name the tool by its public address.
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").flag("--mcp-hosts", "*").start().await;
    host.publish(&slow("count", PRICE)).await;
    host.publish(&slow("free", 0.0)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let asked = host.challenge("count").await;
    let (settled, cut_off) = (payer.pay(&asked), payer.pay(&asked));
    let mut ids = vec![];
    for (name, ms, meta) in [("count", 50, paid_in_meta(&settled)), ("count", 15_000, paid_in_meta(&cut_off)), ("free", 15_000, json!({}))]
    {
        let mut client = host.mcp();
        client.capabilities = tasks();
        let created = client.call(name, json!({ "ms": ms }), meta).await;
        ids.push(created["taskId"].as_str().unwrap().to_owned());
    }
    let before = {
        let mut client = host.mcp();
        client.capabilities = tasks();
        ended(&client, &ids[0]).await
    };
    host.restart().await;
    let mut client = host.mcp();
    client.capabilities = tasks();
    assert_eq!(task(&client, &ids[0]).await["result"], before["result"]);
    for id in &ids[1..] {
        let failed = ended(&client, id).await;
        assert_eq!((&failed["status"], failed.get("result")), (&json!("failed"), None), "{failed}");
        assert!(failed["error"]["message"].as_str().unwrap().contains("restarted"), "{failed}");
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS, "one was settled, the other was not");
    assert_eq!(host.payment(&cut_off.id()).await.unwrap()["state"], "released");
    // The payment that was cut off is good for another call, and the settled one buys the same answer.
    let created = client.call("count", json!({ "ms": 20 }), paid_in_meta(&cut_off)).await;
    let done = ended(&client, created["taskId"].as_str().unwrap()).await;
    assert_eq!(done["status"], "completed", "{done}");
    let again = client.call("count", json!({ "ms": 50 }), paid_in_meta(&settled)).await;
    assert_eq!(bought_over_mcp(&again), bought_over_mcp(&before["result"]));
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
}

#[tokio::test]
async fn a_task_killed_between_settling_and_answering_has_its_answer() {
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").flag("--mcp-hosts", "*").start().await;
    host.publish(&slow("count", PRICE)).await;
    let payer = Payer::funded(&host, 10.0).await;
    let asked = host.challenge("count").await;
    let mut charged = 0;
    for round in 0..4_u64 {
        let payment = payer.pay(&asked);
        let id = {
            let mut client = host.mcp();
            client.capabilities = tasks();
            let created = client.call("count", json!({ "ms": 30, "round": round }), paid_in_meta(&payment)).await;
            created["taskId"].as_str().unwrap().to_owned()
        };
        // The kill falls somewhere around the end of the run, its settlement and its last commit.
        tokio::time::sleep(Duration::from_millis(15 + 18 * round)).await;
        host.restart().await;
        let mut client = host.mcp();
        client.capabilities = tasks();
        let end = ended(&client, &id).await;
        let state = host.payment(&payment.id()).await.map(|payment| payment["state"].clone());
        match end["status"].as_str() {
            Some("completed") => {
                charged += 1;
                assert_eq!(state, Some(json!("settled")));
                assert_eq!(end["result"]["isError"], false, "{end}");
            }
            Some("failed") => assert_eq!(state, Some(json!("released")), "{end}"),
            other => panic!("{other:?}: {end}"),
        }
        assert_eq!(host.balance(&payer.address).await, 10 * FUNDS - charged * MICROS);
    }
}
