//! Developer credit as `Authorization: Bearer dc_…`, for clients that cannot set another header.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Answer, Host, Payer, js};

const ECHO: &str = "export default (req) => ({ input: req.input, headers: req.headers });";

async fn host() -> Host {
    let host = Host::builder().flag("--auth-failures", 3).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    host
}

fn call(host: &Host) -> RequestBuilder {
    host.request(Method::POST, "/tools/echo").json(&json!({ "n": 1 }))
}

async fn with_bearer(host: &Host, request: RequestBuilder, token: &str) -> Answer {
    host.send(request.header("authorization", format!("Bearer {token}"))).await
}

fn mcp_call(host: &Host) -> RequestBuilder {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "echo", "arguments": { "n": 1 } } });
    host.request(Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream").json(&message)
}

#[tokio::test]
async fn a_bearer_token_that_is_a_credit_pays_at_every_door() {
    let host = host().await;
    let credit = host.mint(5.0).await;
    let invoke = || host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "echo", "input": { "n": 1 } }));
    let called = with_bearer(&host, call(&host), &credit).await.is(200);
    assert!(!String::from_utf8_lossy(&called.body).contains("dc_"), "the handler sees the credit: {called:?}");
    assert_eq!(host.send(call(&host).header("authorization", format!("bearer  {credit}"))).await.status, 200, "however it is written");
    with_bearer(&host, invoke(), &credit).await.is(200);
    let streamed = with_bearer(&host, invoke().header("accept", "text/event-stream"), &credit).await.is(200);
    assert_eq!(streamed.events().last().unwrap().name, "result");
    let over_mcp = with_bearer(&host, mcp_call(&host), &credit).await.is(200);
    let over_mcp = String::from_utf8_lossy(&over_mcp.body).into_owned();
    assert!(over_mcp.contains("tollhouse/receipt"), "{over_mcp}");
    let body = with_bearer(&host, host.request(Method::GET, "/ai/credits"), &credit).await.is(200).json();
    assert_eq!((&body["balanceUsd"], body["movements"].as_array().map(Vec::len)), (&json!(4.95), Some(6)));
    let register = host.request(Method::POST, "/ai/builders/register").json(&json!({ "name": "Toolsmith" }));
    let registered = with_bearer(&host, register, &credit).await.is(200).json();
    assert!(registered["builderKey"].is_string(), "{registered}");
    assert_eq!(host.credit_balance(&credit).await, 3_950_000);
}

#[tokio::test]
async fn two_credits_on_one_request_are_refused_at_every_door() {
    let host = host().await;
    let (one, other) = (host.mint(1.0).await, host.mint(1.0).await);
    let doors = || {
        [
            call(&host),
            host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "echo" })),
            host.request(Method::GET, "/ai/credits"),
            host.request(Method::POST, "/ai/builders/register").json(&json!({ "name": "Toolsmith" })),
        ]
    };
    for request in doors() {
        let error = with_bearer(&host, request.header("x-developer-credit", &one), &other).await.fails(400, "invalid_request", "caller");
        assert!(error["message"].as_str().unwrap().contains("two different credits"), "{error}");
    }
    let over_mcp = with_bearer(&host, mcp_call(&host).header("x-developer-credit", &one), &other).await;
    assert_eq!(over_mcp.status, 400);
    assert_eq!((host.credit_balance(&one).await, host.credit_balance(&other).await), (1_000_000, 1_000_000));
    // The same credit in both headers counts once.
    with_bearer(&host, call(&host).header("x-developer-credit", &one), &one).await.is(200);
    assert_eq!(host.credit_balance(&one).await, 990_000);
}

#[tokio::test]
async fn a_foreign_bearer_token_means_nothing_where_no_credential_is_wanted() {
    let host = host().await;
    host.publish(&js("free", 0.0, ECHO)).await;
    let payer = Payer::funded(&host, 1.0).await;
    for _ in 0..6 {
        with_bearer(&host, host.request(Method::POST, "/tools/free").json(&json!({})), "sk-anything").await.is(200);
        with_bearer(&host, call(&host), "sk-anything").await.is(402).decoded("payment-required");
        host.send(call(&host).header("authorization", "Basic ZGNfOmRjXw==")).await.is(402);
        with_bearer(&host, host.request(Method::GET, "/ai/endpoints"), "sk-anything").await.is(200);
    }
    let payment = payer.pay(&host.challenge("echo").await);
    with_bearer(&host, host.paid_request("echo", &json!({}), &payment), "sk-anything").await.is(200);
    let credit = host.mint(1.0).await;
    with_bearer(&host, call(&host).header("x-developer-credit", &credit), "sk-anything").await.is(200);
}

#[tokio::test]
async fn wrong_bearer_tokens_are_counted_as_wrong_credentials() {
    // Where a credential is required, every bearer token counts as one. Where credit can pay, only
    // a token with the form of a credit does.
    type Door = fn(&Host) -> RequestBuilder;
    let doors: [(&str, u16, Door); 3] = [
        ("sk-anything", 401, |host| host.request(Method::GET, "/ai/credits")),
        ("dc_wrong", 401, |host| host.request(Method::GET, "/ai/credits")),
        ("dc_01ARZ3NDEKTSV4RRFFQ69G5FAV_wrong", 401, call),
    ];
    for (token, refused, request) in doors {
        let host = host().await;
        let credit = host.mint(1.0).await;
        for _ in 0..3 {
            assert_eq!(with_bearer(&host, request(&host), token).await.status, refused, "{token}");
        }
        let answer = with_bearer(&host, request(&host), &credit).await;
        answer.fails(429, "rate_limited", "caller");
        let wait: u64 = answer.has("retry-after").parse().unwrap();
        assert_eq!(answer.has("ratelimit-policy"), "\"credentials\";q=3;w=60");
        assert_eq!(answer.has("ratelimit"), format!("\"credentials\";r=0;t={wait}"));
        assert_ne!(host.send(call(&host)).await.json()["error"], Value::Null, "requests without a token are rejected");
    }
}
