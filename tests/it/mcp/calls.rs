//! Calls: answers, progress, and ends.

use std::time::Duration;

use regex::Regex;
use reqwest::Method;
use serde_json::{Value, json};

use super::{COUNTER, FUNDS, MICROS, MOODY, PRICE, paid_in_meta, refusal, slow, takes_tasks};
use crate::harness::{Host, Mcp, Payer, Payment, Replied, eventually, js};

/// Returns a reply without the parts that differ between calls.
fn message(replied: &Replied) -> Value {
    // Each challenge has its own token.
    let token = Regex::new(r#"token(\\*":\\*")[\w-]{22}"#).unwrap();
    let mut text: Value = serde_json::from_str(&token.replace_all(&replied.response.to_string(), "token${1}one")).unwrap();
    for pointer in ["/result/_meta/tollhouse~1error/requestId", "/error/data/requestId"] {
        if let Some(id) = text.pointer_mut(pointer) {
            *id = json!("one");
        }
    }
    text
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
    let request = host.challenge("count").await;
    let through_rmcp = || host.log().matches("Service initialized as server").count();

    for revision in ["", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let (v2, v1) = (payer.pay(&request), payer.pay_v1(&host.mcp().call("count", json!({}), json!({})).await["_meta"]["x402/v1"]));
        let failing = payer.pay(&request);
        for (name, arguments, meta) in [
            ("moody", json!({}), json!({})),
            ("moody", json!({ "mood": "list" }), json!({})),
            ("moody", json!({ "mood": "picture" }), json!({})),
            ("moody", json!({ "mood": "throws" }), json!({})),
            ("moody", json!({ "mood": "polite" }), json!({})),
            ("moody", json!({ "mood": "headers" }), json!({ "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" })),
            ("search_tools", json!({ "query": "count" }), json!({})),
            ("search_tools", json!({ "words": 1 }), json!({})),
            ("quote_tool", json!({ "name": "nothing" }), json!({})),
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
                // Each run has its own receipt.
                let receipt = &direct.response["result"]["_meta"]["tollhouse/receipt"];
                if receipt.is_object() {
                    theirs.response["result"]["_meta"]["tollhouse/receipt"] = receipt.clone();
                }
            }
            assert_eq!((direct.status, message(&direct)), (theirs.status, message(&theirs)), "{revision}: {params}");
        }
        let mut client = host.mcp();
        client.revision = revision;
        // Invalid messages, and those that need more than a result, are handled by rmcp.
        let mut tasks_taker = client.clone();
        tasks_taker.capabilities = takes_tasks();
        let before = through_rmcp();
        client.ask("tools/call", json!({ "name": "none", "arguments": {} })).await.fails(200, -32602);
        client.ask("tools/call", json!({ "name": "moody", "arguments": {}, "_meta": { "progressToken": 1 } })).await.result();
        client.ask("tools/call", json!({ "name": "moody", "arguments": {}, "requestState": "s" })).await.result();
        client.ask("tools/call", json!({ "name": "moody", "arguments": null })).await.result();
        assert_eq!(through_rmcp(), before + 2, "{revision}");
        let long = tasks_taker.ask("tools/call", json!({ "name": "slow", "arguments": {} })).await;
        let modern = revision == "2026-07-28";
        assert_eq!((long.result()["resultType"] == "task", through_rmcp()), (modern, before + 2 + usize::from(modern)));
        let with_header = client.clone().with_header("mcp-param-region", "eu");
        with_header.ask("tools/call", json!({ "name": "region", "arguments": { "region": "eu" } })).await.result();
        assert_eq!(through_rmcp(), before + 2 + 2 * usize::from(modern), "{revision}");
    }
}

#[tokio::test]
async fn errors_a_model_can_fix_are_tool_errors() {
    let host = Host::start().await;
    let mut tool = js("moody", PRICE, MOODY);
    tool["inputSchema"] = json!({ "type": "object", "properties": { "mood": { "type": "string" }, "ms": { "type": "integer" } } });
    tool["outputSchema"] = json!({ "type": "object", "properties": { "answered": { "type": "integer" } } });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let request = host.challenge("moody").await;
    for (input, code) in [
        (json!({ "mood": 1 }), "invalid_input"),
        (json!({ "mood": "throws" }), "handler_failed"),
        (json!({ "mood": "wrong" }), "invalid_output"),
    ] {
        let payment = payer.pay(&request);
        let result = host.mcp().call("moody", input.clone(), paid_in_meta(&payment)).await;
        let error = refusal(&result, code);
        assert_eq!(error["charged"], false);
        assert!(error["requestId"].as_str().unwrap().starts_with("req_"), "{error}");
        assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
        // The same errors as over HTTP.
        let http = host.call_paid("moody", &input, &payer.pay(&request)).await.json()["error"].clone();
        assert_eq!((&error["code"], &error["fault"], &error["message"]), (&http["code"], &http["fault"], &http["message"]));
    }
    let result = host.mcp().call("moody", json!({ "mood": "polite" }), paid_in_meta(&payer.pay(&request))).await;
    assert_eq!((&result["isError"], &result["_meta"]["tollhouse/status"]), (&json!(true), &json!(422)));
    assert_eq!(result["content"][0]["text"], r#"{"error":{"code":"no_such_thing"}}"#);
    assert_eq!(host.balance(&payer.address).await, FUNDS);
}

#[tokio::test]
async fn results_that_are_no_json_have_their_own_blocks() {
    let host = Host::start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let call = async |mood: &str| host.mcp().call("moody", json!({ "mood": mood }), json!({})).await;
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
        assert_eq!(in_meta["structuredContent"]["headers"]["traceparent"], trace, "{in_meta}");
        let with_header = client.clone().with_header("traceparent", trace).with_header("x-payment-secret", "s");
        let seen = with_header.call("moody", json!({ "mood": "headers" }), json!({})).await["structuredContent"].clone();
        assert_eq!(seen["headers"]["traceparent"], trace, "{seen}");
        assert_eq!((&seen["path"], &seen["method"]), (&json!("/tools/moody"), &json!("POST")));
        assert!(!seen.to_string().contains("x-payment-secret"));
    }
}

#[tokio::test]
async fn progress_is_sent_on_request() {
    let host = Host::builder().flag("--mcp-progress-ms", 100).start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    for client in [host.mcp(), host.mcp_legacy()] {
        let params = json!({ "name": "moody", "arguments": { "ms": 450 }, "_meta": { "progressToken": "p1" } });
        let replied = client.ask("tools/call", params.clone()).await;
        assert_eq!(replied.result()["structuredContent"], json!({ "answered": 1 }));
        let listed: Vec<_> = replied.notifications.iter().map(|note| &note["params"]).collect();
        assert!(
            replied.notifications.iter().all(|note| note["method"] == "notifications/progress" && note["params"]["progressToken"] == "p1")
        );
        assert!(listed.len() >= 4, "{listed:?}");
        assert!(listed.windows(2).all(|pair| pair[0]["progress"].as_f64() < pair[1]["progress"].as_f64()), "{listed:?}");
        assert_eq!(listed.iter().filter(|note| note["message"] == "begun").count(), 1, "{listed:?}");
        assert!(listed.iter().all(|note| note["message"] != "for the owner"), "the log is for the owner alone: {listed:?}");
        assert!(listed.iter().all(|note| note.get("total").is_none()), "{listed:?}");

        // A client that accepts only JSON gets only JSON.
        let mut plain = client.clone();
        plain.accept = "application/json";
        let replied = plain.ask("tools/call", params).await;
        assert!(!replied.streamed && replied.notifications.is_empty());
    }
    let silent = host.mcp().ask("tools/call", json!({ "name": "moody", "arguments": { "ms": 250 } })).await;
    assert!(!silent.streamed);
}

#[tokio::test]
async fn long_progress_token_gets_no_progress() {
    let host = Host::builder().flag("--mcp-progress-ms", 100).start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    for (bytes, has_progress) in [(128, true), (129, false)] {
        let meta = json!({ "progressToken": "p".repeat(bytes) });
        let replied = host.mcp().ask("tools/call", json!({ "name": "moody", "arguments": { "ms": 250 }, "_meta": meta })).await;
        assert_eq!(replied.result()["structuredContent"], json!({ "answered": 1 }));
        assert_eq!(!replied.notifications.is_empty(), has_progress, "{bytes} bytes");
    }
}

#[tokio::test]
async fn fractions_of_a_call_rise_to_a_total_of_one() {
    let host = Host::builder().flag("--mcp-progress-ms", 100).start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let params =
        |fractions: Value| json!({ "name": "moody", "arguments": { "ms": 250, "fractions": fractions }, "_meta": { "progressToken": 7 } });
    for client in [host.mcp(), host.mcp_legacy()] {
        let replied = client.ask("tools/call", params(json!([0.0, 0.25, 0.2, 0.75, 1]))).await;
        let listed: Vec<_> = replied.notifications.iter().map(|note| &note["params"]).collect();
        assert!(listed.iter().all(|note| note["total"] == 1.0), "{listed:?}");
        let progress: Vec<_> = listed.iter().map(|note| note["progress"].as_f64().unwrap()).collect();
        assert!(progress.len() >= 7 && progress.windows(2).all(|pair| pair[0] < pair[1]), "{progress:?}");
        assert_eq!([progress[0], progress[1], progress[3], progress[4]], [0.0, 0.25, 0.75, 1.0]);
        assert!((progress[2] - 0.25).abs() < 0.001 && progress.last().unwrap() - 1.0 < 0.001, "{progress:?}");
    }
}

#[tokio::test]
async fn canceled_call_is_not_charged() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let params = json!({ "name": "count", "arguments": { "ms": 8_000 }, "_meta": paid_in_meta(&payment) });
    let hang_up = async |client: Mcp<'_>| {
        let asking = client.request("tools/call", params.clone()).send();
        assert!(tokio::time::timeout(Duration::from_millis(400), asking).await.is_err());
    };
    // In 2026-07-28, closing the connection cancels a call.
    hang_up(host.mcp()).await;
    let line = async || host.log().lines().find(|line| line.contains("a tool was called over MCP")).map(str::to_owned);
    let line = eventually("the call has its line in the log", Duration::from_secs(4), line).await;
    assert!(line.contains("\"cancelled\"") && line.contains("\"unknown\""), "{line}");
    let state = async |requested: &'static str| {
        eventually(requested, Duration::from_secs(4), || async {
            host.payment(&payment.id()).await.filter(|payment| payment["state"] == requested)
        })
        .await
    };
    state("released").await;
    assert_eq!(host.balance(&payer.address).await, FUNDS);
    // The payment can be used again. A call for which another front end waits is not canceled.
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

/// Regression test: a credit has many runs in flight, and all of them could be canceled at once.
#[tokio::test]
async fn canceled_calls_beyond_the_limit_on_unpaid_runs_go_on_and_are_charged() {
    let host = Host::builder().flag("--payer-failures", 2).start().await;
    host.publish(&slow("count", PRICE)).await;
    let token = host.mint(1.0).await;
    let calls = (0..5).map(|call| {
        let params = json!({ "name": "count", "arguments": { "ms": 4_000, "call": call }, "_meta": { "tollhouse/credit": token } });
        let asking = host.mcp().request("tools/call", params).send();
        async move { tokio::time::timeout(Duration::from_millis(1_500), asking).await.is_err() }
    });
    assert_eq!(futures_util::future::join_all(calls).await, [true; 5], "all hang up");
    let charged = async || (host.credit_balance(&token).await == FUNDS - 3 * MICROS).then_some(());
    eventually("all but two are charged", Duration::from_secs(30), charged).await;
    assert_eq!(host.get("/health").await.is(200).json()["unpaid"]["runsLastMinute"], 2);
}

/// Returns the session id that a client of an older version gets from `initialize`.
async fn session(host: &Host) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let greeted = host.send(host.mcp_legacy().request("initialize", params)).await.is(200);
    assert!(greeted.has("access-control-expose-headers").contains("mcp-session-id"), "pages read it too: {greeted:?}");
    greeted.has("mcp-session-id").to_owned()
}

#[tokio::test]
async fn a_canceled_call_of_an_older_revision_stops_and_is_not_charged() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let (own, strange) = (session(&host).await, session(&host).await);
    assert!(own != strange && own.len() == 32, "{own}");
    let cancel = async |session: Option<&str>, id: Value| {
        let request = host.request(Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream");
        let request = session
            .into_iter()
            .fold(request.header("mcp-protocol-version", "2025-11-25"), |request, session| request.header("mcp-session-id", session));
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": "enough" } });
        assert!(host.send(request.json(&body)).await.is(202).body.is_empty());
    };
    let state = async |payment: &Payment, requested: &'static str| {
        let id = payment.id();
        eventually(requested, Duration::from_secs(4), async || host.payment(&id).await.filter(|payment| payment["state"] == requested))
            .await
    };
    for progress in [false, true] {
        let payment = payer.pay(&host.challenge("count").await);
        let mut meta = paid_in_meta(&payment);
        if progress {
            meta["progressToken"] = json!("p");
        }
        let client = host.mcp_legacy().with_header("mcp-session-id", &own);
        let called = client.ask("tools/call", json!({ "name": "count", "arguments": { "ms": 9_000 }, "_meta": meta }));
        let canceled = async {
            state(&payment, "reserved").await;
            // A cancellation from another session, or of another call, has no effect.
            for (session, id) in
                [(None, json!(1)), (Some(strange.as_str()), json!(1)), (Some(own.as_str()), json!(2)), (Some(own.as_str()), json!("1"))]
            {
                cancel(session, id).await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            state(&payment, "reserved").await;
            cancel(Some(&own), json!(1)).await;
        };
        let (replied, ()) = tokio::join!(called, canceled);
        assert_eq!(refusal(&replied.result(), "cancelled")["charged"], false);
        state(&payment, "released").await;
    }
    // A client may close the connection before it cancels.
    let payment = payer.pay(&host.challenge("count").await);
    let client = host.mcp_legacy().with_header("mcp-session-id", &own);
    let params = json!({ "name": "count", "arguments": { "ms": 9_000 }, "_meta": paid_in_meta(&payment) });
    assert!(tokio::time::timeout(Duration::from_millis(400), client.request("tools/call", params).send()).await.is_err());
    state(&payment, "reserved").await;
    cancel(Some(&own), json!(1)).await;
    state(&payment, "released").await;
    assert_eq!(host.balance(&payer.address).await, FUNDS);
    // A late cancellation has no effect.
    let payment = payer.pay(&host.challenge("count").await);
    assert_eq!(client.call("count", json!({}), paid_in_meta(&payment)).await["isError"], false);
    cancel(Some(&own), json!(1)).await;
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn a_cancellation_in_a_batch_counts_too() {
    let host = Host::start().await;
    host.publish(&js("count", 0.0, COUNTER)).await;
    let own = session(&host).await;
    let mut client = host.mcp().with_header("mcp-session-id", &own);
    client.revision = "2025-03-26";
    let called = client.call("count", json!({ "ms": 9_000 }), json!({}));
    let canceled = async {
        host.wait_for_calls(1).await;
        let request = host.request(Method::POST, "/ai/mcp").header("mcp-session-id", &own);
        let batch = json!([{ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }]);
        host.send(request.json(&batch)).await.is(202);
    };
    let (result, ()) = tokio::join!(called, canceled);
    refusal(&result, "cancelled");
}

#[tokio::test]
async fn the_newest_revision_has_no_sessions_and_names_the_server_in_each_result() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    host.publish(&slow("slow", 0.0)).await;
    let named = "io.modelcontextprotocol/serverInfo";
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let task = client.call("slow", json!({}), json!({})).await;
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "count", "arguments": {} })),
        ("tools/call", json!({ "name": "search_tools", "arguments": { "query": "count" } })),
        ("tools/call", json!({ "name": "count", "arguments": {}, "_meta": { "progressToken": 1 } })),
        ("tasks/get", json!({ "taskId": task["taskId"] })),
    ] {
        let answer = host.send(client.request(method, params.clone())).await;
        assert_eq!(answer.header("mcp-session-id"), None, "{method}");
        let server = &Replied::read(&answer).result()["_meta"][named];
        assert_eq!((&server["name"], &server["version"]), (&json!("tollhouse"), &json!(env!("CARGO_PKG_VERSION"))), "{method}");
        if !method.contains("server/") && !method.contains("tasks/") {
            let legacy = host.mcp_legacy().ask(method, params).await.result();
            assert_eq!(legacy["_meta"].get(named), None, "{method}");
        }
    }
    assert_eq!(task["_meta"][named]["name"], "tollhouse");
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
    let error = refusal(&last, "rate_limited");
    assert_eq!((&error["fault"], error["retryAfterSeconds"].as_u64() > Some(0)), (&json!("caller"), true), "{error}");
    assert_eq!(host.mcp().call("search_tools", json!({ "query": "moody" }), json!({})).await["isError"], false);
    let log = host.log();
    let audited: Vec<_> = log.lines().filter(|line| line.contains("a tool was called over MCP")).collect();
    assert_eq!(audited.len(), 13, "{log}");
    assert!(audited.iter().any(|line| line.contains("moody") && line.contains("rate_limited")), "{log}");
}

/// Returns MCP content blocks, as its input says.
const BLOCKS: &str = "export default async (req) =>
    new Response(JSON.stringify(req.input.envelope), { headers: { 'content-type': 'application/vnd.mcp.tool-result+json' } });";

#[tokio::test]
async fn of_answers_made_of_blocks_the_structured_content_fits_the_listed_schema() {
    let host = Host::start().await;
    let schema =
        json!({ "type": "object", "properties": { "count": { "type": "integer" } }, "required": ["count"], "additionalProperties": false });
    for (slug, schema) in [("told", schema.clone()), ("known", json!({ "type": "object" }))] {
        let mut tool = js(slug, 0.0, BLOCKS);
        tool["outputSchema"] = schema;
        host.publish(&tool).await;
    }
    let mcp = host.mcp();
    let listed = mcp.ask("tools/list", json!({})).await.response["result"]["tools"].clone();
    let listed = listed.as_array().unwrap().iter().find(|tool| tool["name"] == "told").unwrap()["outputSchema"].clone();
    let text = json!({ "type": "text", "text": "three" });
    let envelope = json!({ "content": [text], "structuredContent": { "count": 3 } });
    // Over HTTP the answer is the handler's result.
    assert_eq!(host.call("told", &json!({ "envelope": envelope })).await.is(200).json(), envelope);
    let call = async |slug: &str, envelope: &Value| {
        let params = json!({ "name": slug, "arguments": { "envelope": envelope } });
        mcp.ask("tools/call", params).await.response["result"].clone()
    };
    let result = call("told", &envelope).await;
    assert_eq!((&result["structuredContent"], &result["content"]), (&envelope["structuredContent"], &envelope["content"]));
    assert!(jsonschema::is_valid(&listed, &result["structuredContent"]), "as stock clients check it: {listed}");
    for (slug, envelope, pointer) in [
        ("told", json!({ "content": [text], "structuredContent": { "count": "3" } }), "/structuredContent/count"),
        ("told", json!({ "content": [text] }), "/structuredContent"),
        // These match the schema of the envelope, but not that of the result.
        ("known", json!({ "content": [text] }), "/structuredContent"),
        ("known", json!({ "content": [text], "structuredContent": [] }), "/structuredContent"),
        ("known", json!({ "content": [{ "type": "image" }], "structuredContent": {} }), "/content/0"),
        ("known", json!({ "structuredContent": {} }), "/content"),
    ] {
        let error = host.call(slug, &json!({ "envelope": envelope })).await.fails(502, "invalid_output", "tool");
        assert_eq!(error["problems"][0]["pointer"], pointer, "{envelope}");
        refusal(&call(slug, &envelope).await, "invalid_output");
    }
}

#[tokio::test]
async fn a_name_that_no_tool_can_have_is_refused_before_anything_keeps_it() {
    let host = Host::builder().flag("--mcp-rate-limit", 5).start().await;
    // Byte 64 is in the middle of a character.
    let name = format!("a{}", "é".repeat(1 << 20));
    let message = json!({ "name": name, "arguments": {} });
    let answer = host.send(host.mcp_legacy().request("tools/call", message)).await;
    let error = Replied::read(&answer).fails(200, -32602);
    let reported = error["message"].as_str().unwrap();
    assert!(reported.contains("the maximum is 64") && reported.len() < 300, "{reported}");
    assert!(answer.body.len() < 2_048, "{}", answer.body.len());
    let log = host.log();
    let line = log.lines().find(|line| line.contains("a tool was called over MCP")).unwrap();
    assert!(line.len() < 1_000, "{} bytes", line.len());
    // A name that a tool could have is quoted completely.
    let known = host.mcp_legacy().ask("tools/call", json!({ "name": "n".repeat(64) })).await;
    assert!(known.fails(200, -32602)["message"].as_str().unwrap().contains(&"n".repeat(64)));
}
