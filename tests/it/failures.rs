//! Wrong credentials: what is told of them, and how many an address may show.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, js};

const ECHO: &str = "export default (req) => req.input;";

async fn with(host: &Host, header: &str, value: &str, method: Method, path: &str) -> Answer {
    host.send(host.request(method, path).header(header, value)).await
}

/// A refusal, but for the request that it is of.
fn told(answer: &Answer) -> Value {
    let mut body = answer.json();
    body["error"].as_object_mut().unwrap().remove("requestId").unwrap();
    body
}

#[tokio::test]
async fn a_refusal_does_not_say_what_is_wrong_with_a_credential() {
    let host = Host::start().await;
    let (_, key) = host.register("Toolsmith").await;
    let credit = host.mint(1.0).await;
    let wrong = |token: &str| {
        let (id, secret) = token.split_at(30);
        let unknown = format!("{}01ARZ3NDEKTSV4RRFFQ69G5FAV_{secret}", &token[..3]);
        ["", "x", &token[..3], &id[..29], &format!("{token}x"), &format!("{id}{}", "A".repeat(43)), &unknown].map(str::to_owned)
    };
    for (path, header, token) in [("/ai/builders/me", "x-builder-key", &key), ("/ai/credits", "x-developer-credit", &credit)] {
        with(&host, header, token, Method::GET, path).await.is(200);
        let missing = host.get(path).await;
        missing.fails(401, "unauthorized", "caller");
        for wrong in wrong(token) {
            let answer = with(&host, header, &wrong, Method::GET, path).await.is(401);
            assert_eq!(told(&answer), told(&missing), "{path} with `{wrong}`");
        }
        let answer = with(&host, "x-admin-token", "adm_wrong", Method::GET, path).await.is(401);
        assert_eq!(told(&answer), told(&missing), "{path} with a wrong admin token");
    }
}

/// Requests with a wrong credential of every kind, and how each of them is refused while the address may still ask.
const WRONG: [(&str, &str, Method, &str, u16); 5] = [
    ("x-admin-token", "adm_wrong", Method::GET, "/ai/admin/builders", 401),
    ("x-builder-key", "bk_01ARZ3NDEKTSV4RRFFQ69G5FAV_wrong", Method::POST, "/ai/builders/keys", 401),
    ("x-builder-key", "bk_wrong", Method::DELETE, "/ai/endpoints/echo", 401),
    ("x-developer-credit", "dc_wrong", Method::GET, "/ai/credits", 401),
    ("x-developer-credit", "dc_01ARZ3NDEKTSV4RRFFQ69G5FAV_wrong", Method::POST, "/tools/echo", 402),
];

#[tokio::test]
async fn an_address_that_guesses_is_refused_with_right_credentials_too() {
    for (header, wrong, method, path, refused) in WRONG {
        let host = Host::builder().flag("--auth-failures", 3).start().await;
        host.publish(&js("echo", 0.01, ECHO)).await;
        host.publish(&js("free", 0.0, ECHO)).await;
        let credit = host.mint(1.0).await;
        for _ in 0..3 {
            assert_eq!(with(&host, header, wrong, method.clone(), path).await.status, refused, "{header}: {wrong}");
        }
        let answer = with(&host, header, wrong, method.clone(), path).await;
        answer.fails(429, "rate_limited", "caller");
        let wait: u64 = answer.has("retry-after").parse().unwrap();
        assert!((1..=20).contains(&wait), "{wait}");
        with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await.fails(429, "rate_limited", "caller");
        host.call_credit("echo", &json!({}), &credit).await.fails(429, "rate_limited", "caller");
        // Who shows no credential is nobody who guesses.
        host.call("free", &json!({})).await.is(200);
        host.call("echo", &json!({})).await.is(402);
        host.get("/ai/builders/me").await.fails(401, "unauthorized", "caller");
    }
}

#[tokio::test]
async fn right_and_missing_credentials_use_nothing_up() {
    let host = Host::builder().flag("--auth-failures", 1).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    host.publish(&js("says-401", 0.01, "export default () => new Response('{}', { status: 401 });")).await;
    let (_, key) = host.register("Toolsmith").await;
    let credit = host.mint(0.015).await;
    host.call_credit("echo", &json!({}), &credit).await.is(200);
    for _ in 0..5 {
        host.get("/ai/builders/me").await.fails(401, "unauthorized", "caller");
        with(&host, "x-builder-key", &key, Method::GET, "/ai/builders/me").await.is(200);
        // Known, and not allowed or not enough: no guess.
        with(&host, "x-builder-key", &key, Method::GET, "/ai/admin/builders").await.fails(403, "not_owner", "caller");
        host.call_credit("echo", &json!({}), &credit).await.is(402);
        // What a handler answers is no word of the host's.
        let other = host.mint(0.01).await;
        host.call_credit("says-401", &json!({}), &other).await;
    }
    with(&host, "x-builder-key", "bk_wrong", Method::GET, "/ai/builders/me").await.fails(401, "unauthorized", "caller");
    with(&host, "x-builder-key", &key, Method::GET, "/ai/builders/me").await.fails(429, "rate_limited", "caller");
}

#[tokio::test]
async fn guesses_over_mcp_and_in_streams_count_too() {
    let host = Host::builder().flag("--auth-failures", 3).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let mcp = host.mcp_legacy();
    let guess = || mcp.call("echo", json!({}), json!({ "tollhouse/credit": "dc_wrong" }));
    for _ in 0..2 {
        let refused = guess().await;
        assert_eq!((&refused["isError"], refused["_meta"].get("tollhouse/error")), (&json!(true), None), "a challenge: {refused}");
    }
    let streamed = host.request(Method::POST, "/ai/invoke").header("x-developer-credit", "dc_wrong");
    let streamed = host.send(streamed.json(&json!({ "slug": "echo", "input": {}, "stream": true }))).await;
    assert_ne!(streamed.status, 429, "{streamed:?}");
    let refused = guess().await;
    assert_eq!(refused["_meta"]["tollhouse/error"]["code"], "rate_limited", "{refused}");
    with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await.fails(429, "rate_limited", "caller");
}

#[tokio::test]
async fn a_host_may_count_no_failures() {
    let host = Host::builder().flag("--auth-failures", 0).start().await;
    for _ in 0..100 {
        with(&host, "x-admin-token", "adm_wrong", Method::GET, "/ai/admin/builders").await.fails(401, "unauthorized", "caller");
    }
}
