//! Every row of the error table, from outside.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Facilitator, Host, js};

const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

async fn with(draft: &Value) -> Host {
    let host = Host::start().await;
    host.publish(draft).await;
    host
}

fn free(slug: &str, source: &str) -> Value {
    js(slug, 0.0, source)
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_and_deleted_slugs_are_not_found() {
    let host = with(&free("gone", "export default () => 1")).await;
    host.post("/tools/never", &json!({})).await.is_error(404, "unknown_endpoint").uncharged();
    host.post("/ai/invoke", &json!({ "slug": "never" })).await.is_error(404, "unknown_endpoint");
    host.admin(Method::DELETE, "/ai/endpoints/gone", &json!({})).await.is_ok();
    host.post("/tools/gone", &json!({})).await.is_error(404, "unknown_endpoint");
    host.get("/ai/endpoints/gone").await.is_error(404, "unknown_endpoint");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_tool_conflicts() {
    let host = with(&free("rests", "export default () => 1")).await;
    host.admin(Method::PATCH, "/ai/endpoints/rests", &json!({ "status": "paused" })).await.is_ok();
    host.post("/tools/rests", &json!({})).await.is_error(409, "endpoint_paused").uncharged();
    host.admin(Method::PATCH, "/ai/endpoints/rests", &json!({ "status": "active" })).await.is_ok();
    host.post("/tools/rests", &json!({})).await.is_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_json_too_large_or_of_another_type_is_refused() {
    let mut draft = free("strict", "export default (req) => req.input");
    draft["limits"] = json!({ "inputBytes": 1000 });
    let host = with(&draft).await;
    let send = |kind: &'static str, body: String| {
        host.send(host.request(Method::POST, "/tools/strict").header("content-type", kind).body(body))
    };
    send("application/json", "{\"a\":".into()).await.is_error(400, "invalid_json").uncharged();
    send("application/json", format!("{}{}", "[".repeat(100), "]".repeat(100))).await.is_error(400, "invalid_json");
    send("application/json", format!("\"{}\"", "x".repeat(1000))).await.is_error(413, "body_too_large").uncharged();
    send("text/plain", "hi".into()).await.is_error(415, "unsupported_media_type").uncharged();
    send("application/vnd.tool+json; charset=utf-8", "{}".into()).await.is_ok();
    send("application/json", String::new()).await.is_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpaid_call_is_challenged_in_both_wires_before_its_input_is_looked_at() {
    let mut draft = js("paid", 0.001, "export default () => 1");
    draft["inputSchema"] = json!({ "type": "object", "required": ["q"] });
    draft["description"] = json!("d".repeat(1500));
    let host = with(&draft).await;
    let requests = [
        host.request(Method::POST, "/tools/paid"),
        host.request(Method::POST, "/tools/paid").body("not json"),
        host.request(Method::GET, "/tools/paid"),
        host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "paid" })),
    ];
    for request in requests {
        let reply = host.send(request).await;
        assert_eq!(reply.status, 402, "{}", reply.text);
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let header = reply.header("payment-required").unwrap();
        assert!(header.len() < 8192);
        let v2: Value = serde_json::from_slice(&base64(header)).unwrap();
        assert_eq!((&v2["x402Version"], &v2["accepts"][0]["amount"]), (&json!(2), &json!("1000")));
        assert_eq!(v2["resource"]["url"], format!("{}/tools/paid", host.url));
        assert!(v2["resource"]["description"].as_str().unwrap().len() <= 500);
        let v1 = &reply.body["accepts"][0];
        assert_eq!((&reply.body["x402Version"], &v1["maxAmountRequired"], &v1["network"]), (&json!(1), &json!("1000"), &json!("base-sepolia")));
        assert!(v1["mimeType"].is_string() && v1["description"].is_string() && v1["outputSchema"].is_object());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_payment_is_a_fresh_challenge_with_the_reason() {
    let host = with(&js("paid", 0.01, "export default () => 1")).await;
    let payer = host.payer(1.0).await;
    let good = host.signed("paid", &payer).await;
    let poor = crate::harness::Payer::new();
    let broken = [
        (good.altered(|p| p["payload"]["signature"] = json!(format!("0x{}1b", "22".repeat(64)))), "invalid_exact_evm_signature"),
        (good.altered(|p| p["payload"]["authorization"]["value"] = json!("1")), "invalid_exact_evm_signature"),
        (good.altered(|p| p["accepted"]["amount"] = json!("1")), "invalid_payment_requirements"),
        (good.altered(|p| p["accepted"]["payTo"] = json!(PAY_TO)), "invalid_payment_requirements"),
        (good.altered(|p| p["x402Version"] = json!(7)), "invalid_x402_version"),
        (good.altered(|p| p["payload"] = json!(null)), "invalid_payload"),
        (host.signed("paid", &poor).await, "invalid_exact_evm_insufficient_balance"),
    ];
    for (payment, reason) in broken {
        let reply = host.pay("paid", &json!({}), &payment).await;
        assert_eq!((reply.status, reply.body["error"].as_str()), (402, Some(reason)), "{}", reply.text);
        assert!(reply.header("payment-required").is_some());
    }
    for header in ["%%%", "", "e30=", "bnVsbA==", &"A".repeat(20_000)] {
        let reply = host.send(host.request(Method::POST, "/tools/paid").header("payment-signature", header).json(&json!({}))).await;
        assert_eq!(reply.status, 402, "`{header}` {}", reply.text);
    }
    let unknown = host.send(host.request(Method::POST, "/tools/paid").header("x-developer-credit", "dc_nobody_x").json(&json!({}))).await;
    assert_eq!(unknown.status, 402);
    assert!((host.balance(&payer).await - 1.0).abs() < 1e-9);
}

#[tokio::test(flavor = "multi_thread")]
async fn input_outside_the_schema_is_named_and_not_charged() {
    let mut draft = js("asks", 0.01, "export default () => 1");
    draft["inputSchema"] = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let host = with(&draft).await;
    let payer = host.payer(1.0).await;
    let payment = host.signed("asks", &payer).await;
    let reply = host.pay("asks", &json!({ "city": 7 }), &payment).await;
    reply.is_error(422, "invalid_input").uncharged();
    assert_eq!(reply.body["error"]["problems"][0]["pointer"], "/city");
    // Released: the same authorisation pays for the corrected call.
    host.pay("asks", &json!({ "city": "Oslo" }), &payment).await.is_ok();
    assert!((host.balance(&payer).await - 0.99).abs() < 1e-9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_says_when_to_come_back() {
    let host = Host::with(&[("TOLLHOUSE_SANDBOX_RUNNING", "1"), ("TOLLHOUSE_SANDBOX_PROCESSES", "4")]).await;
    let mut draft = free("busy", "export default () => { for (;;) {} }");
    draft["limits"] = json!({ "cpuMs": 1500 });
    host.publish(&draft).await;
    let replies = join_all((0..6).map(|_| host.post("/tools/busy", &json!({})))).await;
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status == 503).collect();
    assert!(!refused.is_empty(), "{:?}", replies.iter().map(|reply| reply.status).collect::<Vec<_>>());
    for reply in refused {
        reply.is_error(503, "busy").uncharged();
        assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_asks_too_often_is_told_when_to_come_back() {
    let host = Host::with(&[("TOLLHOUSE_RATE_LIMIT", "5")]).await;
    let replies = join_all((0..20).map(|_| host.get("/health/live"))).await;
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status == 429).collect();
    assert!((5..=10).contains(&refused.len()), "{}", refused.len());
    let reply = refused[0].is_error(429, "rate_limited").uncharged();
    assert!(reply.header("retry-after").is_some() && reply.header("ratelimit").is_some() && reply.header("ratelimit-policy").is_some());
}

/// Handlers, and how their calls end.
const FAULTS: &[(&str, &str, u16, &str)] = &[
    ("throws", "export default () => { throw new Error('no') }", 502, "handler_failed"),
    ("rejects", "export default async () => { await null; throw { odd: 1 } }", 502, "handler_failed"),
    ("hangs", "export default () => new Promise(() => {})", 502, "handler_failed"),
    ("pretends", "export default () => new Response('', { status: 402 })", 502, "handler_failed"),
    ("lies", "export default () => 'text'", 502, "invalid_output"),
    ("sleeps", "export default () => new Promise((done) => setTimeout(done, 60000))", 504, "wall_time_exceeded"),
    ("loops", "export default () => { for (;;) {} }", 504, "cpu_time_exceeded"),
    ("wedges", "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)", 504, "cpu_time_exceeded"),
    ("hoards", "export default () => { const a = []; for (;;) a.push(new Array(1e5).fill(a.length)) }", 502, "memory_exceeded"),
    ("shouts", "export default () => ({ a: 'x'.repeat(300000) })", 502, "output_too_large"),
    ("floods", "export default async (req, ctx) => { for (;;) await ctx.kv.get('k') }", 502, "op_limit_exceeded"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_handler_has_its_row() {
    let host = Host::start().await;
    for (slug, source, status, code) in FAULTS {
        let mut draft = free(slug, source);
        draft["outputSchema"] = json!({ "type": "object" });
        draft["limits"] = json!({ "cpuMs": 400, "wallMs": 900, "ops": 50 });
        host.publish(&draft).await;
        let reply = host.post(&format!("/tools/{slug}"), &json!({})).await;
        reply.is_error(*status, code).uncharged();
        assert_eq!(reply.body["error"]["fault"], "tool", "{slug}");
        assert!(!reply.text.contains("/work/") && !reply.text.contains(".rs:"), "nothing of the host's inside: {}", reply.text);
    }
}

async fn with_facilitator(answer: Answer) -> (Host, Facilitator) {
    let facilitator = Facilitator::start(answer).await;
    let env = [("TOLLHOUSE_FACILITATOR", "http"), ("X402_FACILITATOR_URL", &facilitator.url), ("TOLLHOUSE_PAY_TO", PAY_TO)];
    let host = Host::with(&env).await;
    host.publish(&js("paid", 0.01, "export default () => ({ secret: 42 })")).await;
    (host, facilitator)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_settlement_withholds_the_output() {
    let (host, facilitator) = with_facilitator(Answer::Refuses).await;
    let payment = host.signed("paid", &crate::harness::Payer::new()).await;
    let reply = host.pay("paid", &json!({}), &payment).await;
    assert_eq!((reply.status, reply.body["error"].as_str()), (402, Some("invalid_exact_evm_transaction_failed")), "{}", reply.text);
    assert!(!reply.text.contains("secret"));
    assert_eq!(facilitator.settlements(), 0);
    assert_eq!(host.get(&format!("/ai/payments/{}", payment.id())).await.body["payment"]["state"], "refused");
    // Nothing was taken, so it may be tried again.
    facilitator.answers(Answer::Settles);
    host.pay("paid", &json!({}), &payment).await.is_ok();
    assert_eq!(facilitator.settlements(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unheard_settlement_is_unknown_until_it_is_resolved_and_never_made_twice() {
    let (host, facilitator) = with_facilitator(Answer::SettlesUnheard).await;
    let payment = host.signed("paid", &crate::harness::Payer::new()).await;
    let reply = host.pay("paid", &json!({}), &payment).await;
    reply.is_error(502, "settlement_unknown");
    assert_eq!((&reply.body["error"]["charged"], &reply.body["error"]["paymentId"]), (&json!("unknown"), &json!(payment.id())));
    assert!(!reply.text.contains("secret"));
    facilitator.answers(Answer::Settles);
    let place = format!("/ai/payments/{}", payment.id());
    while host.get(&place).await.body["payment"]["state"] != "settled" {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(host.pay("paid", &json!({}), &payment).await.is_ok().body["secret"], 42);
    assert_eq!(facilitator.settlements(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_facilitator_that_is_away_admits_nobody() {
    let env = [("TOLLHOUSE_FACILITATOR", "http"), ("X402_FACILITATOR_URL", "http://127.0.0.1:9"), ("TOLLHOUSE_PAY_TO", PAY_TO)];
    let host = Host::with(&env).await;
    host.publish(&js("paid", 0.01, "export default () => 1")).await;
    let payment = host.signed("paid", &crate::harness::Payer::new()).await;
    host.pay("paid", &json!({}), &payment).await.is_error(502, "facilitator_unavailable").uncharged();
}

#[tokio::test(flavor = "multi_thread")]
async fn management_without_the_right_token_learns_nothing() {
    let host = with(&free("mine", "export default () => 1")).await;
    let draft = free("yours", "export default () => 1");
    host.post("/ai/endpoints/create", &draft).await.is_error(401, "unauthorized").uncharged();
    for token in ["", "wrong", "adm_of-the-integration-test"] {
        let send = |method: Method, path: &str, body: &Value| {
            host.send(host.request(method, path).header("x-admin-token", token).json(body))
        };
        send(Method::POST, "/ai/endpoints/create", &draft).await.is_error(401, "unauthorized");
        send(Method::PATCH, "/ai/endpoints/mine", &json!({})).await.is_error(401, "unauthorized");
        send(Method::DELETE, "/ai/endpoints/mine", &json!({})).await.is_error(401, "unauthorized");
        send(Method::POST, "/ai/credits", &json!({ "amountUsd": 1 })).await.is_error(401, "unauthorized");
    }
    host.post("/tools/mine", &json!({})).await.is_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_have_the_envelope() {
    let host = Host::start().await;
    host.get("/nowhere").await.is_error(404, "not_found").uncharged();
    let reply = host.send(host.request(Method::DELETE, "/ai/invoke")).await;
    reply.is_error(405, "method_not_allowed");
    assert_eq!(reply.header("allow"), Some("POST"));
    host.get("/ai/receipts/rcpt_nope").await.is_error(404, "unknown_receipt");
    host.get("/ai/payments/pmt_nope").await.is_error(404, "unknown_payment");
    host.get("/ai/endpoints?form=oldest").await.is_error(400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_may_pay() {
    let host = with(&js("paid", 0.01, "export default () => 1")).await;
    let preflight = host
        .request(Method::OPTIONS, "/tools/paid")
        .header("origin", "https://agent.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "payment-signature,content-type");
    let reply = host.send(preflight).await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("*")));
    assert!(reply.header("access-control-allow-headers").unwrap().contains("payment-signature"));
    let challenge = host.send(host.request(Method::POST, "/tools/paid").header("origin", "https://agent.example")).await;
    let exposed = challenge.header("access-control-expose-headers").unwrap();
    assert!(["payment-required", "payment-response", "x-payment-response", "x-receipt-id"].iter().all(|name| exposed.contains(name)));
}

fn base64(text: &str) -> Vec<u8> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.decode(text).unwrap()
}
