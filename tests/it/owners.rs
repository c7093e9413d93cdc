//! Owners call their own tools: free of charge, marked as such, and not counted as sales.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::{
    harness::{Host, Replied, eventually, js},
    revenue::{events, tool},
};

const CREATE: &str = "/ai/endpoints/create";
const MESSAGE: &str = "export default (req, ctx) => {
    ctx.log.info('called');
    if (req.input.fail) throw new Error('as told');
    return { free: req.caller.free, payer: req.caller.payer ?? null };
};";

fn call_paths(host: &Host, slug: &str) -> [(&'static str, RequestBuilder); 3] {
    [
        ("tools", host.request(Method::POST, &format!("/tools/{slug}")).json(&json!({}))),
        ("invoke", host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": slug }))),
        ("mcp", host.mcp().request("tools/call", json!({ "name": slug, "arguments": {} }))),
    ]
}

#[tokio::test]
async fn an_owner_calls_for_nothing_over_every_way_and_it_is_no_sale() {
    let host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Owner").await, host.register("Other").await);
    host.as_builder(&key, Method::POST, CREATE, &tool("sold", 0.25, MESSAGE)).await.is(200);
    let credit = host.mint(1.0).await;
    let mut receipts = vec![];
    for (method, request) in call_paths(&host, "sold") {
        // An offered payment is not charged.
        let answer = host.send(request.header("x-builder-key", &key).header("x-developer-credit", &credit)).await.is(200);
        let (result, receipt) = match method {
            "tools" => (answer.json(), answer.receipt_id()),
            "invoke" => (answer.json()["result"].clone(), answer.receipt_id()),
            _ => {
                let result = Replied::read(&answer).result();
                let receipt = result["_meta"]["tollhouse/receipt"]["receiptId"].as_str().unwrap().to_owned();
                (result["structuredContent"].clone(), receipt)
            }
        };
        assert_eq!(result, json!({ "free": true, "payer": null }), "{method}");
        assert_eq!(answer.header("x-payment-id"), None, "{method}");
        let receipt = host.receipt(&receipt).await;
        assert_eq!((&receipt["kind"], &receipt["owner"], &receipt["priceUsd"]), (&json!("free"), &json!(true), &json!(0)), "{method}");
        host.verify_receipt(&receipt).unwrap();
        receipts.push(receipt["receiptId"].clone());
    }
    let streamed = host.request(Method::POST, "/tools/sold").header("accept", "text/event-stream").header("x-builder-key", &key);
    let streamed = host.send(streamed.json(&json!({}))).await.is(200).events();
    assert_eq!(streamed.last().unwrap().name, "result");
    receipts.push(streamed.last().unwrap().data["receipt"]["receiptId"].clone());
    let failing = host.as_builder(&key, Method::POST, "/tools/sold", &json!({ "fail": true })).await;
    failing.fails(502, "handler_failed", "tool");
    assert_eq!(host.credit_balance(&credit).await, 1_000_000);

    // Everybody else pays the price, including other builders.
    host.as_builder(&other, Method::POST, "/tools/sold", &json!({})).await.is(402);
    host.manage(Method::POST, "/tools/sold", &json!({})).await.is(402);
    let paid = host.request(Method::POST, "/tools/sold").header("x-builder-key", &other).header("x-developer-credit", &credit);
    let paid = host.send(paid.json(&json!({}))).await.is(200);
    assert_eq!((paid.json()["free"].clone(), host.receipt(&paid.receipt_id()).await.get("owner")), (json!(false), None));

    let response = eventually("the calls are reported", Duration::from_secs(5), || async {
        let response = events(&host, &key, "&endpointSlug=sold").await;
        (response.iter().filter(|event| event["kind"].as_str().unwrap().starts_with("call.")).count() == 6).then_some(response)
    })
    .await;
    let own: Vec<_> = response.iter().filter(|event| event["data"]["owner"] == true).collect();
    assert_eq!(own.iter().filter(|event| event["kind"] == "call.failed").count(), 1);
    for receipt in &receipts {
        assert!(own.iter().any(|event| event["data"]["receiptId"] == *receipt && event["data"]["priceUsd"] == 0), "{receipt}: {own:?}");
    }
    let lines = eventually("the lines are stored", Duration::from_secs(5), || async {
        let lines = host.as_builder(&key, Method::GET, "/ai/endpoints/sold/logs", &Value::Null).await.is(200).json();
        lines["logs"].as_array().filter(|lines| lines.len() == 7).cloned()
    })
    .await;
    assert_eq!(lines.iter().filter(|line| line["owner"] == true).count(), 6, "{lines:?}");
    let revenue = host.as_builder(&key, Method::GET, "/ai/builders/revenue", &Value::Null).await.is(200).json();
    let totals = &revenue["totals"];
    assert_eq!([&totals["calls"], &totals["paidCalls"], &totals["failedCalls"]], [1, 1, 0].map(|n| json!(n)).each_ref());
}

#[tokio::test]
async fn owner_can_call_a_paused_tool_but_not_a_held_one() {
    let host = Host::start().await;
    let (_, key) = host.register("Owner").await;
    let mut paused = tool("paused", 0.25, MESSAGE);
    paused["status"] = json!("paused");
    host.as_builder(&key, Method::POST, CREATE, &paused).await.is(200);
    host.as_builder(&key, Method::POST, CREATE, &tool("held", 0.25, "export default () => eval('1');")).await.is(200);
    for (method, request) in call_paths(&host, "paused") {
        host.send(request.header("x-builder-key", &key)).await.is(200);
        assert!(!method.is_empty());
    }
    assert!(host.mcp().tool("paused").await.is_none(), "it is listed to nobody");
    host.call("paused", &json!({})).await.fails(409, "endpoint_paused", "tool");
    host.as_builder(&key, Method::POST, "/tools/held", &json!({})).await.fails(409, "endpoint_paused", "tool");
    host.publish(&js("platforms", 0.25, MESSAGE)).await;
    assert_eq!(host.manage(Method::POST, "/tools/platforms", &json!({})).await.is(200).json()["free"], true);
    host.as_builder(&key, Method::POST, "/tools/platforms", &json!({})).await.is(402);
}

#[tokio::test]
async fn a_wrong_key_on_a_call_is_a_wrong_credential_and_counts() {
    for method in 0..3 {
        let host = Host::builder().flag("--auth-failures", 2).start().await;
        host.publish(&js("free", 0.0, MESSAGE)).await;
        let send = |key: &str| host.send(call_paths(&host, "free")[method].1.try_clone().unwrap().header("x-builder-key", key));
        for _ in 0..2 {
            let answer = send("bk_wrong").await;
            assert_ne!(answer.header("x-receipt-id").map(str::to_owned), Some(String::new()));
            if method < 2 {
                answer.fails(401, "unauthorized", "caller");
            } else {
                assert!(answer.json().to_string().contains("unauthorized"), "{answer:?}");
            }
        }
        let answer = send("bk_wrong").await;
        assert!(answer.json().to_string().contains("rate_limited"), "{answer:?}");
        host.call("free", &json!({})).await.is(200);
    }
}
