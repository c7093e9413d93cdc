//! Wrong credentials: the refusals, and how many an address may try.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, eventually, js};

const ECHO: &str = "export default (req) => req.input;";

async fn with(host: &Host, header: &str, value: &str, method: Method, path: &str) -> Answer {
    host.send(host.request(method, path).header(header, value)).await
}

/// Returns a refusal without the request id.
fn reported(answer: &Answer) -> Value {
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
            assert_eq!(reported(&answer), reported(&missing), "{path} with `{wrong}`");
        }
        let answer = with(&host, "x-admin-token", "adm_wrong", Method::GET, path).await.is(401);
        assert_eq!(reported(&answer), reported(&missing), "{path} with a wrong admin token");
    }
}

/// A request with each kind of wrong credential, and the status of the refusal while the address
/// may still try.
const WRONG: [(&str, &str, Method, &str, u16); 5] = [
    ("x-admin-token", "adm_wrong", Method::GET, "/ai/admin/builders", 401),
    ("x-builder-key", "bk_01ARZ3NDEKTSV4RRFFQ69G5FAV_wrong", Method::POST, "/ai/builders/keys", 401),
    ("x-builder-key", "bk_wrong", Method::DELETE, "/ai/endpoints/echo", 401),
    ("x-developer-credit", "dc_wrong", Method::GET, "/ai/credits", 401),
    ("x-developer-credit", "dc_01ARZ3NDEKTSV4RRFFQ69G5FAV_wrong", Method::POST, "/tools/echo", 401),
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
        // With a key, an earlier call may have been charged.
        let repeatable =
            host.request(Method::POST, "/tools/echo").header("x-developer-credit", &credit).header("idempotency-key", "order-1");
        host.send(repeatable.json(&json!({}))).await.fails_unsure(429, "rate_limited", "caller");
        // A request without a credential is not a guess.
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
        // A valid credential that lacks a right or money is not a guess.
        with(&host, "x-builder-key", &key, Method::GET, "/ai/admin/builders").await.fails(403, "not_owner", "caller");
        host.call_credit("echo", &json!({}), &credit).await.fails(403, "insufficient_credit", "caller");
        // A status from a handler has no influence.
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
        assert_eq!(refused["_meta"]["tollhouse/error"]["code"], "wrong_credit", "{refused}");
    }
    let streamed = host.request(Method::POST, "/ai/invoke").header("x-developer-credit", "dc_wrong");
    let streamed = host.send(streamed.json(&json!({ "slug": "echo", "input": {}, "stream": true }))).await;
    assert_ne!(streamed.status, 429, "{streamed:?}");
    let refused = guess().await;
    assert_eq!(refused["_meta"]["tollhouse/error"]["code"], "rate_limited", "{refused}");
    with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await.fails(429, "rate_limited", "caller");
}

#[tokio::test]
async fn failure_limits_can_be_disabled() {
    let host = Host::builder().flag("--auth-failures", 0).start().await;
    for _ in 0..100 {
        with(&host, "x-admin-token", "adm_wrong", Method::GET, "/ai/admin/builders").await.fails(401, "unauthorized", "caller");
    }
}

#[tokio::test]
async fn a_foreign_token_is_refused_before_it_is_counted_beyond_the_limit() {
    let host = Host::builder().flag("--auth-failures", 60).start().await;
    host.publish(&js("free", 0.0, ECHO)).await;
    let wrong = || with(&host, "authorization", "Bearer x", Method::GET, "/ai/builders/me");
    let mut refused = 0;
    for _ in 0..300 {
        let answer = wrong().await;
        match answer.status {
            429 => refused += 1,
            _ => _ = answer.fails(401, "unauthorized", "caller"),
        }
    }
    assert!(refused > 200, "{refused} of 300 were refused for being too many");
    let answer = with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await;
    let wait: u64 = if answer.status == 429 { answer.has("retry-after").parse().unwrap() } else { 0 };
    assert!(wait <= 2, "rejected requests do not count against the address: {wait} s");
    // Where no credential is required, the token does not count as one.
    let free = host.request(Method::POST, "/tools/free").header("authorization", "Bearer x").json(&json!({}));
    host.send(free).await.is(200);
}

#[tokio::test]
async fn credentials_from_other_origins_lock_nobody_out() {
    let host = Host::builder().flag("--auth-failures", 3).start().await;
    let of_page = async |header: &str, value: &str, origin: &str| {
        host.send(host.request(Method::GET, "/ai/builders/me").header(header, value).header("origin", origin)).await.status
    };
    for (header, value) in [("authorization", "Bearer x"), ("x-builder-key", "bk_wrong"), ("x-admin-token", "wrong")] {
        for origin in ["https://evil.example", "null"] {
            of_page(header, value, origin).await;
        }
    }
    assert_eq!(of_page("x-builder-key", "bk_wrong", "https://evil.example").await, 429, "pages have their own limit");
    with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await.is(200);
    // A page of this host counts as its client's address.
    for _ in 0..3 {
        assert_eq!(of_page("x-builder-key", "bk_wrong", &host.url).await, 401);
    }
    with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await.fails(429, "rate_limited", "caller");
}

/// Separate tasks answer the messages of a batch and those that rmcp parses.
#[tokio::test]
async fn mcp_credentials_from_other_origins_lock_nobody_out() {
    let host = Host::builder().flag("--auth-failures", 3).start().await;
    host.publish(&js("paid", 0.01, ECHO)).await;
    let message = |id: u32, meta: Value| {
        let params = json!({ "name": "paid", "arguments": {}, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let send = async |body: Value, origin: &str| {
        let request = host.request(Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream");
        host.send(request.header("mcp-protocol-version", "2025-03-26").header("origin", origin).json(&body)).await.is(200)
    };
    let wrong = json!({ "tollhouse/credit": "dc_wrong" });
    let batch: Vec<_> = (0..10).map(|id| message(id, wrong.clone())).collect();
    send(json!(batch), "http://localhost:6274").await;
    for id in 0..10 {
        let progress = json!({ "tollhouse/credit": "dc_wrong", "progressToken": id });
        send(message(id, progress), "http://localhost:6274").await;
    }
    let refused = send(message(1, wrong.clone()), "http://localhost:6274").await;
    assert!(refused.words().contains("wrong credentials per minute"), "pages have their own limit: {refused:?}");
    with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await.is(200);
    // A page of this host counts as its address.
    send(json!(batch), &host.url).await;
    with(&host, "x-admin-token", &host.admin, Method::GET, "/ai/admin/builders").await.fails(429, "rate_limited", "caller");
}

#[tokio::test]
async fn clients_of_a_trusted_proxy_have_limits_of_their_own() {
    let host = Host::builder().flag("--auth-failures", 3).flag("--trusted-proxies", "127.0.0.1").start().await;
    let from = async |client: &str, token: &str| {
        let request = host.request(Method::GET, "/ai/admin/builders").header("x-admin-token", token);
        host.send(request.header("x-forwarded-for", client)).await.status
    };
    for _ in 0..3 {
        assert_eq!(from("192.0.2.1", "wrong").await, 401);
    }
    assert_eq!(from("192.0.2.1", &host.admin).await, 429);
    assert_eq!(from("192.0.2.2", &host.admin).await, 200);
    assert_eq!(from("192.0.2.2, 192.0.2.1", &host.admin).await, 429, "the proxy's word counts, and not the client's");
    assert_eq!(host.get("/health").await.is(200).json()["warnings"], json!([]));
}

#[tokio::test]
async fn clients_in_the_forwarded_header_have_own_limits() {
    let host = Host::builder()
        .flag("--auth-failures", 1)
        .flag("--trusted-proxies", "127.0.0.0/8")
        .flag("--forwarded-header", "forwarded")
        .start()
        .await;
    let from = async |client: &str, token: &str| {
        let request = host.request(Method::GET, "/ai/admin/builders").header("x-admin-token", token);
        host.send(request.header("forwarded", format!("for={client};proto=https"))).await.status
    };
    assert_eq!(from("192.0.2.1", "wrong").await, 401);
    assert_eq!((from("192.0.2.1", &host.admin).await, from("\"[2001:db8::1]:80\"", &host.admin).await), (429, 200));
}

#[tokio::test]
async fn untrusted_proxy_is_reported() {
    const REPORTED: &str = "a proxy forwards requests but is not trusted";
    let host = Host::start().await;
    assert_eq!(host.get("/health").await.is(200).json()["warnings"], json!([]));
    for _ in 0..3 {
        host.send(host.request(Method::GET, "/health/live").header("x-forwarded-for", "192.0.2.1")).await.is(200);
    }
    let warnings = host.get("/health").await.is(200).json()["warnings"].clone();
    assert_eq!((&warnings[0]["code"], warnings.as_array().unwrap().len()), (&json!("proxy_not_trusted"), 1), "{warnings}");
    assert!(warnings[0]["remedy"].as_str().unwrap().contains("TOLLHOUSE_TRUSTED_PROXIES"), "{warnings}");
    assert_eq!(host.log().matches(REPORTED).count(), 1, "{}", host.log());
    for trusted in ["", "127.0.0.1"] {
        let how = Host::builder();
        let host = if trusted.is_empty() { how } else { how.flag("--trusted-proxies", trusted) }.start().await;
        let get = || host.request(Method::GET, "/health/live").header("x-forwarded-proto", "https");
        host.send(get()).await.is(200);
        host.send(get()).await.is(200);
        let warnings = host.get("/health").await.is(200).json()["warnings"].clone();
        assert_eq!((&warnings[0]["code"], warnings.as_array().unwrap().len()), (&json!("base_url_missing"), 1), "{warnings}");
        assert!(warnings[0]["remedy"].as_str().unwrap().contains("TOLLHOUSE_BASE_URL"), "{warnings}");
        assert_eq!(host.log().matches("no https base URL is set").count(), 1, "{}", host.log());
    }
    let public = Host::builder().flag("--base-url", "https://tools.example").start().await;
    eventually("the log says so", std::time::Duration::from_secs(20), async || {
        public.log().contains("listens on loopback and has a public URL").then_some(())
    })
    .await;
    let answer = Host::builder().flag("--trusted-proxies", "here").fails().await;
    assert!(answer.contains("TOLLHOUSE_TRUSTED_PROXIES") && answer.contains("`here`"), "{answer}");
}
