//! Tools that their builder changes between a charge and its retry. The payer still gets what was paid for.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Host, Payer, Payment, js};

const FUNDS: u64 = 1_000_000;
const PRICE: u64 = 10_000;

/// Fails at its first run.
const SECOND: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    if (runs < 2) throw new Error('not yet');
    return { runs };
};";

/// Returns an input that is 5 kB long and 3 levels deep.
fn input() -> Value {
    json!({ "a": "x".repeat(5_000), "b": { "c": [1] } })
}

fn paid(request: RequestBuilder, payment: &Payment) -> RequestBuilder {
    request.header(payment.header, payment.encoded())
}

/// Calls the tool with the same payment through `/ai/invoke`.
fn invoke(host: &Host, slug: &str, payment: &Payment) -> RequestBuilder {
    paid(host.request(Method::POST, "/ai/invoke"), payment).json(&json!({ "slug": slug, "input": input() }))
}

/// Calls the tool with the same payment over MCP.
async fn over_mcp(host: &Host, slug: &str, payment: &Payment) -> Value {
    host.mcp().call(slug, input(), json!({ "x402/payment": payment.payload })).await
}

/// Regression test: a builder who lowered a limit of the input hid answers that were paid for.
#[tokio::test]
async fn paid_answer_is_replayed_after_any_change_of_its_tool() {
    let host = Host::start().await;
    host.publish(&js("random", 0.01, "export default () => ({ r: Math.random() });")).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("random").await);
    let credit = host.mint(1.0).await;
    let by_credit = || {
        let request = host.request(Method::POST, "/tools/random").header("x-developer-credit", &credit);
        request.header("idempotency-key", "order-7").json(&input())
    };
    let first = host.call_paid("random", &input(), &payment).await.is(200).json();
    let first_by_credit = host.send(by_credit()).await.is(200).json();
    let is_same = async |story: &str| {
        assert_eq!(host.call_paid("random", &input(), &payment).await.is(200).json(), first, "{story}");
        assert_eq!(host.send(by_credit()).await.is(200).json(), first_by_credit, "{story}");
        let invoked = host.send(invoke(&host, "random", &payment)).await.is(200).json();
        assert_eq!(invoked["result"], first, "{story}");
        assert_eq!(over_mcp(&host, "random", &payment).await["structuredContent"], first, "{story}");
    };
    for change in [
        json!({ "limits": { "inputBytes": 1_024 } }),
        json!({ "limits": { "inputDepth": 1 } }),
        json!({ "limits": { "inputBytes": 1_024, "inputDepth": 1 }, "inputSchema": { "type": "object", "required": ["z"] } }),
        json!({ "priceUsd": 0 }),
        json!({ "priceUsd": 0.05, "settle": "before" }),
        json!({ "capabilities": { "kv": true } }),
        json!({ "limits": { "inputBytes": 1_024, "wallMs": 60_000 } }),
        json!({ "status": "paused" }),
    ] {
        host.change("random", &change).await;
        is_same(&change.to_string()).await;
    }
    host.manage(Method::DELETE, "/ai/endpoints/random", &Value::Null).await.is(200);
    is_same("deleted").await;
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE, "it was charged once");
}

/// Regression test: the payer got 413 with `"charged": false`, although the money had moved.
#[tokio::test]
async fn lowered_limit_does_not_deny_a_charge_before_the_run() {
    let host = Host::start().await;
    let mut tool = js("second", 0.01, SECOND);
    tool["settle"] = json!("before");
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("second").await);
    assert_eq!(host.call_paid("second", &input(), &payment).await.is(502).json()["error"]["charged"], true);
    let unused = payer.pay(&host.challenge("second").await);
    for (limits, status, code) in
        [(json!({ "inputBytes": 1_024 }), 413, "body_too_large"), (json!({ "inputDepth": 1 }), 400, "invalid_json")]
    {
        host.change("second", &json!({ "limits": limits })).await;
        let by_http = host.call_paid("second", &input(), &payment).await.is(502).json()["error"].clone();
        let invoked = host.send(invoke(&host, "second", &payment)).await.is(502).json()["error"].clone();
        let result = over_mcp(&host, "second", &payment).await;
        for error in [by_http, invoked, result["_meta"]["tollhouse/error"].clone()] {
            assert_eq!((&error["code"], &error["charged"]), (&json!("paid_run_failed"), &json!(true)), "{error}");
            assert_eq!((&error["cause"]["code"], &error["paymentId"]), (&json!(code), &json!(payment.id())), "{error}");
            assert!(error["hint"].as_str().unwrap().starts_with("The tool does not accept this input now"), "{error}");
        }
        // A payment that bought nothing is not charged.
        let error = host.call_paid("second", &input(), &unused).await.fails(status, code, "caller");
        let message = error["message"].as_str().unwrap();
        let expected =
            if status == 413 { "The body is larger than 1024 bytes" } else { "The nesting of the input exceeds its maximum depth of 1" };
        assert_eq!(message, expected);
    }
    host.change("second", &json!({ "limits": { "wallMs": 60_000 } })).await;
    // The payer learns of the charge and of the way to get the answer.
    let error = host.send(invoke(&host, "second", &payment)).await.is(409).json()["error"].clone();
    assert_eq!((&error["code"], &error["charged"]), (&json!("answer_owed"), &json!(true)), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("text/event-stream"), "{error}");
    assert_eq!(host.call_paid("second", &input(), &payment).await.is(200).json(), json!({ "runs": 2 }));
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
}
