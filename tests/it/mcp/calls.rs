//! Calls: their answers, their progress, their ends.

use std::time::Duration;

use serde_json::{Value, json};

use super::{COUNTER, FUNDS, MICROS, MOODY, PRICE, paid_in_meta, refusal, slow, takes_tasks};
use crate::harness::{Host, Mcp, Payer, Replied, eventually, js};

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
        tasks_taker.capabilities = takes_tasks();
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
        assert_eq!(in_meta["structuredContent"]["headers"]["traceparent"], trace, "{in_meta}");
        let with_header = client.clone().with_header("traceparent", trace).with_header("x-payment-secret", "s");
        let seen = with_header.call("moody", json!({ "mood": "headers" }), json!({})).await["structuredContent"].clone();
        assert_eq!(seen["headers"]["traceparent"], trace, "{seen}");
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
        assert_eq!(told.iter().filter(|note| note["message"] == "begun").count(), 1, "{told:?}");
        assert!(told.iter().all(|note| note["message"] != "for the owner"), "the log is for the owner alone: {told:?}");
        assert!(told.iter().all(|note| note.get("total").is_none()), "{told:?}");

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
async fn fractions_of_a_call_rise_to_a_total_of_one() {
    let host = Host::builder().flag("--mcp-progress-ms", 100).start().await;
    host.publish(&js("moody", 0.0, MOODY)).await;
    let params =
        |fractions: Value| json!({ "name": "moody", "arguments": { "ms": 250, "fractions": fractions }, "_meta": { "progressToken": 7 } });
    for client in [host.mcp(), host.mcp_legacy()] {
        let replied = client.ask("tools/call", params(json!([0.0, 0.25, 0.2, 0.75, 1]))).await;
        let told: Vec<_> = replied.notifications.iter().map(|note| &note["params"]).collect();
        assert!(told.iter().all(|note| note["total"] == 1.0), "{told:?}");
        let progress: Vec<_> = told.iter().map(|note| note["progress"].as_f64().unwrap()).collect();
        assert!(progress.len() >= 7 && progress.windows(2).all(|pair| pair[0] < pair[1]), "{progress:?}");
        assert_eq!([progress[0], progress[1], progress[3], progress[4]], [0.0, 0.25, 0.75, 1.0]);
        assert!((progress[2] - 0.25).abs() < 0.001 && progress.last().unwrap() - 1.0 < 0.001, "{progress:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_not_charged() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let params = json!({ "name": "count", "arguments": { "ms": 8_000 }, "_meta": paid_in_meta(&payment) });
    let hang_up = async |client: Mcp<'_>| {
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
