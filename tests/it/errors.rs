//! Every way in which a call can fail: the status, the code, the fault, and that nothing was
//! charged.
//!
//! Errors of handlers in paid calls are in `payments`.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};

use crate::harness::{Host, PAY_TO, Payer, eventually, js, tollhouse, within};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

async fn host_with(tools: &[Value]) -> Host {
    let host = Host::start().await;
    for tool in tools {
        host.publish(tool).await;
    }
    host
}

#[tokio::test]
async fn an_unknown_slug_is_not_found_at_every_door() {
    let host = Host::start().await;
    host.call("nobody", &json!({})).await.fails(404, "unknown_endpoint", "caller");
    host.get("/tools/nobody").await.fails(404, "unknown_endpoint", "caller");
    host.get("/tools/nobody?inspect").await.fails(404, "unknown_endpoint", "caller");
    host.get("/ai/endpoints/nobody").await.fails(404, "unknown_endpoint", "caller");
    host.post("/ai/invoke", &json!({ "slug": "nobody" })).await.fails(404, "unknown_endpoint", "caller");
    host.manage(Method::PATCH, "/ai/endpoints/nobody", &json!({})).await.fails(404, "unknown_endpoint", "caller");
    assert_eq!(host.send(host.request(Method::HEAD, "/tools/nobody")).await.status, 404);
}

#[tokio::test]
async fn a_deleted_tool_is_not_found_and_its_receipts_stay() {
    let host = host_with(&[js("gone", 0.0, ECHO)]).await;
    let receipt = host.call("gone", &json!({})).await.is(200).receipt_id();
    host.manage(Method::DELETE, "/ai/endpoints/gone", &json!({})).await.is(200);
    host.call("gone", &json!({})).await.fails(404, "unknown_endpoint", "caller");
    assert_eq!(host.receipt(&receipt).await["slug"], "gone");
}

#[tokio::test]
async fn a_paused_tool_takes_no_calls_and_no_money() {
    let host = host_with(&[js("resting", 0.01, ECHO)]).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("resting").await);
    host.change("resting", &json!({ "status": "paused" })).await;
    host.call("resting", &json!({})).await.fails(409, "endpoint_paused", "tool");
    host.call_paid("resting", &json!({}), &payment).await.fails(409, "endpoint_paused", "tool");
    assert_eq!(host.payment(&payment.id()).await, None);
    assert_eq!(host.balance(&payer.address).await, 1_000_000);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let host = host_with(&[js("echo", 0.0, ECHO), js("paid-echo", 0.01, ECHO)]).await;
    let post = |path: &str, body: &str| host.request(Method::POST, path).header("content-type", "application/json").body(body.to_owned());
    for body in ["{", "{'a':1}", "nothing", "{} {}", "{}\u{feff}", "{\"a\":NaN}", "[1,]"] {
        host.send(post("/tools/echo", body)).await.fails(400, "invalid_json", "caller");
    }
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    host.send(post("/tools/echo", &deep)).await.fails(400, "invalid_json", "caller");
    host.send(post("/ai/invoke", "{")).await.fails(400, "invalid_json", "caller");
    // An empty body counts as an empty object.
    assert_eq!(host.send(host.request(Method::POST, "/tools/echo")).await.is(200).json(), json!({ "echo": {} }));
    // An invalid request does not use up a payment.
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("paid-echo").await);
    let paid = post("/tools/paid-echo", "{").header(payment.header, payment.encoded());
    host.send(paid).await.fails(400, "invalid_json", "caller");
    assert_eq!(host.balance(&payer.address).await, 1_000_000);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let mut small = js("small", 0.0, ECHO);
    small["limits"] = json!({ "inputBytes": 100 });
    let host = host_with(&[js("echo", 0.0, ECHO), small]).await;
    host.call("echo", &json!({ "text": "x".repeat(256 << 10) })).await.fails(413, "body_too_large", "caller");
    host.call("echo", &json!({ "text": "x".repeat(255 << 10) })).await.is(200);
    host.call("small", &json!({ "text": "x".repeat(100) })).await.fails(413, "body_too_large", "caller");
    let invoke = json!({ "slug": "small", "input": { "text": "x".repeat(100) } });
    host.post("/ai/invoke", &invoke).await.fails(413, "body_too_large", "caller");
    host.call("small", &json!({ "text": "x" })).await.is(200);
}

#[tokio::test]
async fn a_media_type_other_than_json_is_refused() {
    let host = host_with(&[js("echo", 0.0, ECHO)]).await;
    let post = |media: &str| host.request(Method::POST, "/tools/echo").header("content-type", media).body("{}");
    for media in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx"] {
        host.send(post(media)).await.fails(415, "unsupported_media_type", "caller");
    }
    for media in ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/ld+json"] {
        host.send(post(media)).await.is(200);
    }
}

#[tokio::test]
async fn an_unpaid_call_is_challenged_on_both_wires() {
    let mut tool = js("echo", 0.0125, ECHO);
    tool["description"] = json!("Says it again");
    let host = host_with(&[tool]).await;
    // The challenge comes before the validation of the input, because indexers probe with an empty
    // body.
    for request in [
        host.request(Method::POST, "/tools/echo").json(&json!({})),
        host.request(Method::POST, "/tools/echo").body("no json"),
        host.request(Method::GET, "/tools/echo"),
        host.request(Method::POST, "/ai/invoke").json(&json!({ "slug": "echo" })),
    ] {
        let answer = host.send(request).await.is(402);
        assert_eq!(answer.has("cache-control"), "no-store");
        let url = format!("{}/tools/echo", host.url);
        let (v2, v1) = (answer.decoded("payment-required"), answer.json());
        assert_eq!((&v2["x402Version"], &v1["x402Version"]), (&json!(2), &json!(1)));
        assert!(v2["error"].is_string() && v1["error"].is_string());
        assert_eq!((&v2["resource"]["url"], &v2["resource"]["description"]), (&json!(url), &json!("Says it again")));
        let (accepts, accepts_v1) = (&v2["accepts"], &v1["accepts"]);
        assert_eq!((accepts.as_array().map(Vec::len), accepts_v1.as_array().map(Vec::len)), (Some(1), Some(1)));
        let (two, one) = (&accepts[0], &accepts_v1[0]);
        assert_eq!((&two["scheme"], &two["network"], &two["amount"]), (&json!("exact"), &json!("eip155:84532"), &json!("12500")));
        assert_eq!(two["asset"], "0x036CbD53842c5426634e7929541eC2318f3dCF7e");
        assert_eq!(two["extra"], json!({ "name": "USDC", "version": "2" }));
        assert!(two["maxTimeoutSeconds"].as_u64() >= Some(60) && two["payTo"].is_string());
        assert_eq!(
            (&one["scheme"], &one["network"], &one["maxAmountRequired"]),
            (&json!("exact"), &json!("base-sepolia"), &json!("12500"))
        );
        assert_eq!(
            (&one["resource"], &one["description"], &one["mimeType"]),
            (&json!(url), &json!("Says it again"), &json!("application/json"))
        );
        assert!(one["outputSchema"].is_object());
        assert_eq!((&one["asset"], &one["payTo"], &one["extra"]), (&two["asset"], &two["payTo"], &two["extra"]));
    }
}

#[tokio::test]
async fn wrong_payment_is_rejected_with_its_reason() {
    let host = host_with(&[js("echo", 0.01, ECHO)]).await;
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.challenge("echo").await;
    let good = payer.pay(&challenge);
    let accepted = &challenge["accepts"][0];
    // Change a field of the authorization and sign it again.
    let signed = |field: &str, value: &str| {
        let mut authorization = good.payload["payload"]["authorization"].clone();
        authorization[field] = json!(value);
        let signature = payer.sign(&authorization, accepted, 84_532);
        good.altered("/payload", json!({ "signature": signature, "authorization": authorization }))
    };
    let foreign = payer.sign(&good.payload["payload"]["authorization"], accepted, 1);
    let stranger = Payer::new().sign(&good.payload["payload"]["authorization"], accepted, 84_532);
    let of = "/payload/authorization";
    for (payment, reason) in [
        (good.altered("/x402Version", json!(1)), "invalid_x402_version"),
        (good.altered("/accepted/amount", json!("1")), "invalid_payment_requirements"),
        (good.altered("/accepted/payTo", json!(payer.address)), "invalid_payment_requirements"),
        (good.altered("/accepted/network", json!("eip155:1")), "invalid_payment_requirements"),
        (good.altered("/resource/url", json!("https://example.com/tools/echo")), "invalid_payment_requirements"),
        (good.altered("/payload/signature", json!(stranger)), "invalid_exact_evm_signature"),
        (good.altered("/payload/signature", json!(foreign)), "invalid_exact_evm_signature"),
        (good.altered("/payload/signature", json!("0x")), "invalid_exact_evm_signature"),
        (good.altered(&format!("{of}/value"), json!("1")), "invalid_exact_evm_signature"),
        (good.altered(&format!("{of}/nonce"), json!(format!("0x{:064x}", 7))), "invalid_exact_evm_signature"),
        (good.altered(&format!("{of}/from"), json!("me")), "invalid_payload"),
        (good.altered("/payload", json!({})), "invalid_payload"),
        (signed("value", "9999"), "invalid_exact_evm_payload_authorization_value_mismatch"),
        (signed("to", &payer.address), "invalid_exact_evm_recipient_mismatch"),
        (signed("validBefore", "1700000000"), "invalid_exact_evm_payload_authorization_valid_before"),
        (signed("validAfter", "32503680000"), "invalid_exact_evm_payload_authorization_valid_after"),
        (Payer::new().pay(&challenge), "invalid_exact_evm_insufficient_balance"),
    ] {
        let answer = host.call_paid("echo", &json!({}), &payment).await.is(402);
        assert_eq!(answer.json()["error"], reason, "{payment:?}");
        assert_eq!(answer.decoded("payment-required")["error"], reason);
        assert!(answer.json()["message"].as_str().is_some_and(|words| words.contains(' ')), "{reason}: {answer:?}");
        assert_eq!(answer.json()["accepts"][0]["network"], "base-sepolia");
    }
    for garbage in ["", "%%%", "e30=", "bnVsbA==", "W10=", &"A".repeat(20_000)] {
        let request = host.request(Method::POST, "/tools/echo").header("payment-signature", garbage).json(&json!({}));
        host.send(request).await.is(402).decoded("payment-required");
    }
    assert_eq!(host.balance(&payer.address).await, 1_000_000);
    host.call_paid("echo", &json!({}), &good).await.is(200);
}

#[tokio::test]
async fn input_that_does_not_fit_is_refused_with_its_places_and_not_charged() {
    let mut tool = js("strict", 0.01, ECHO);
    tool["inputSchema"] = json!({
        "type": "object",
        "properties": { "n": { "type": "integer" }, "list": { "type": "array", "items": { "type": "string" } } },
        "required": ["n"],
        "additionalProperties": false,
    });
    let host = host_with(&[tool]).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("strict").await);
    let input = json!({ "n": "three", "list": ["a", 2] });
    let error = host.call_paid("strict", &input, &payment).await.fails(422, "invalid_input", "caller");
    let problems = error["problems"].as_array().unwrap();
    let positions: Vec<_> = problems.iter().filter_map(|problem| problem["pointer"].as_str()).collect();
    assert!(positions.contains(&"/n") && positions.contains(&"/list/1"), "{error}");
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
    assert_eq!(host.balance(&payer.address).await, 1_000_000);
    host.call_paid("strict", &json!({ "n": 3 }), &payment).await.is(200);
}

#[tokio::test]
async fn a_full_host_says_when_to_come_again() {
    let host = Host::builder().flag("--sandbox-running", 1).flag("--sandbox-processes", 2).flag("--sandbox-spares", 1).start().await;
    let mut tool = js(
        "spin",
        0.0,
        "export default async () => { const until = performance.now() + 1e6; while (performance.now() < until); return {}; };",
    );
    tool["limits"] = json!({ "cpuMs": 2_500 });
    host.publish(&tool).await;
    let input = json!({});
    let answers = join_all((0..4).map(|_| host.call("spin", &input))).await;
    let busy: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert!(!busy.is_empty(), "{answers:?}");
    for answer in busy {
        answer.fails(503, "busy", "host");
        assert!(answer.has("retry-after").parse::<u64>().unwrap() >= 1);
    }
}

#[tokio::test]
async fn workers_killed_from_outside_count_against_nobody() {
    let mut tool = js("spin", 0.0, "export default async (req) => { if (req.input.spin) for (;;) {} return {}; };");
    tool["limits"] = json!({ "cpuMs": 5_000 });
    let host = host_with(&[tool]).await;
    for _ in 0..5 {
        let kill = eventually("a worker computes", Duration::from_secs(30), || async {
            host.kill_busy_worker(Duration::from_millis(500)).then_some(())
        });
        let input = json!({ "spin": true });
        let (answer, ()) = tokio::join!(host.call("spin", &input), kill);
        answer.fails(502, "sandbox_crashed", "tool");
    }
    host.call("spin", &json!({})).await.is(200);
}

#[tokio::test]
async fn broken_endpoint_is_held_only_for_callers_it_stopped() {
    let host =
        host_with(&[js("stuck", 0.0, "export default ({ input }) => input.answer ? 1 : new Promise(() => {});"), js("other", 0.0, ECHO)])
            .await;
    let from = async |address: u8, input: Value| {
        let client = reqwest::Client::builder().no_proxy().local_address(Some([127, 0, 0, address].into())).build().unwrap();
        host.send(client.post(format!("{}/tools/stuck", host.url)).json(&input)).await
    };
    for call in 0..5 {
        from(2 + call % 3, json!({})).await.fails(502, "handler_failed", "tool");
    }
    from(9, json!({})).await.fails(502, "handler_failed", "tool");
    for address in [2, 3, 4, 9] {
        let held = from(address, json!({ "answer": true })).await;
        held.fails(503, "busy", "host");
        assert!(held.has("retry-after").parse::<u64>().unwrap() > 1);
    }
    host.call("other", &json!({})).await.is(200);
    from(8, json!({ "answer": true })).await.is(200);
    from(2, json!({ "answer": true })).await.is(200);
}

#[tokio::test]
async fn an_address_that_asks_too_often_learns_when_to_come_again() {
    let host = Host::builder().flag("--rate-limit", 2).start().await;
    let answers = join_all((0..12).map(|_| host.get("/ai/endpoints"))).await;
    let limited: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!limited.is_empty() && limited.len() < answers.len());
    for answer in limited {
        answer.fails(429, "rate_limited", "caller");
        assert!(answer.has("retry-after").parse::<u64>().unwrap() >= 1);
        assert!(answer.has("ratelimit").contains("r=0") && answer.has("ratelimit-policy").contains("q=2"));
    }
    // Nobody has looked up whether the payment was charged before.
    let shown = || host.request(Method::POST, "/tools/none").header("payment-signature", "e30=").json(&json!({}));
    let answers = join_all((0..12).map(|_| host.send(shown()))).await;
    let limited: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!limited.is_empty());
    for answer in limited {
        answer.fails_unsure(429, "rate_limited", "caller");
    }
}

#[tokio::test]
async fn a_handler_that_fails_is_distinguished_from_one_that_is_stopped() {
    let source = "export default async (req, ctx) => {
        if (req.input.how === 'throw') throw new RangeError('too far');
        if (req.input.how === 'reject') await Promise.reject(new Error('too late'));
        if (req.input.how === 'nothing') return undefined;
        if (req.input.how === 'cycle') { const a = {}; a.a = a; return a; }
        if (req.input.how === 'deadlock') await new Promise(() => {});
        if (req.input.how === 'response') return new Response('text', { status: 402 });
    };";
    let host = host_with(&[js("fails", 0.0, source)]).await;
    for (how, message) in [("throw", "too far"), ("reject", "too late"), ("cycle", ""), ("deadlock", ""), ("response", "402")] {
        let error = host.call("fails", &json!({ "how": how })).await.fails(502, "handler_failed", "tool");
        assert!(error["message"].as_str().unwrap().contains(message), "{how}: {error}");
    }
}

#[tokio::test]
async fn management_requires_the_admin_token() {
    let host = host_with(&[js("echo", 0.0, ECHO)]).await;
    let tool = js("mine", 0.0, ECHO);
    let sent = |token: Option<&str>, method: Method, path: &str| {
        let request = host.request(method, path).json(&tool);
        host.send(match token {
            Some(token) => request.header("x-admin-token", token),
            None => request,
        })
    };
    let almost = format!("{}x", host.admin);
    for token in [None, Some(""), Some("adm_wrong"), Some(almost.as_str())] {
        for (method, path) in [
            (Method::POST, "/ai/endpoints/create"),
            (Method::PATCH, "/ai/endpoints/echo"),
            (Method::DELETE, "/ai/endpoints/echo"),
            (Method::POST, "/ai/credits"),
        ] {
            sent(token, method, path).await.fails(401, "unauthorized", "caller");
        }
    }
    host.get("/ai/credits").await.fails(401, "unauthorized", "caller");
    host.call("mine", &json!({})).await.fails(404, "unknown_endpoint", "caller");
    host.call("echo", &json!({})).await.is(200);
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_have_the_envelope() {
    let host = host_with(&[js("echo", 0.0, ECHO)]).await;
    for path in ["/tools", "/tools/", "/ai", "/ai/nothing", "/tools/echo/more", "/../etc/passwd"] {
        host.get(path).await.fails(404, "not_found", "caller");
    }
    for (method, path, allowed) in [
        (Method::DELETE, "/tools/echo", ["GET", "POST"]),
        (Method::PUT, "/ai/endpoints/echo", ["PATCH", "DELETE"]),
        (Method::PATCH, "/dev/faucet", ["GET", "POST"]),
    ] {
        let answer = host.send(host.request(method, path)).await;
        answer.fails(405, "method_not_allowed", "caller");
        let allow = answer.has("allow").to_owned();
        assert!(allowed.iter().all(|method| allow.split(',').any(|one| one.trim() == *method)), "{path}: {allow}");
    }
    host.get("/ai/receipts/rcpt_nothing").await.fails(404, "unknown_receipt", "caller");
    host.get("/ai/receipts/rcpt_01ARZ3NDEKTSV4RRFFQ69G5FAV").await.fails(404, "unknown_receipt", "caller");
    host.get("/ai/payments/pmt_nothing").await.fails_unsure(404, "unknown_payment", "caller");
    host.get("/ai/endpoints?form=oldest").await.fails(400, "invalid_request", "caller");
}

#[tokio::test]
async fn a_browser_may_ask_and_pay_from_another_origin() {
    let host = host_with(&[js("echo", 0.01, ECHO)]).await;
    let asks = [
        ("origin", "https://app.example.com"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,payment-signature,x-payment"),
    ];
    let headers: HeaderMap = asks.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    let answer = host.preflight("/tools/echo", headers).await.is(200);
    assert_eq!(answer.has("access-control-allow-origin"), "*");
    let allowed = answer.has("access-control-allow-headers").to_ascii_lowercase();
    assert!(["content-type", "payment-signature", "x-payment"].iter().all(|name| allowed.contains(name)), "{allowed}");
    assert!(answer.has("access-control-allow-methods").contains("POST"));
    // The challenge itself can be read by pages of other origins.
    let request = host.request(Method::POST, "/tools/echo").header("origin", "https://app.example.com").json(&json!({}));
    let challenge = host.send(request).await.is(402);
    let exposed = challenge.has("access-control-expose-headers").to_ascii_lowercase();
    for name in ["payment-required", "payment-response", "x-payment-response", "x-receipt-id", "x-request-id"] {
        assert!(exposed.contains(name), "{name} is not in {exposed}");
    }
}

#[tokio::test]
async fn a_host_with_settings_that_cannot_work_says_why_and_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let refuses_with = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = tollhouse();
        command.args(["serve", "--data"]).arg(folder.path().join("data")).args(args).envs(env.iter().copied()).current_dir(folder.path());
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let refuses = |args: &[&str]| refuses_with(args, &[]);
    assert!(refuses(&["--listen", "0.0.0.0:0"]).contains("loopback"));
    let ranges = [("running", "0", "1"), ("processes", "0", "1"), ("processes", "4194305", "1"), ("spares", "1000000000", "0")];
    let more = [("memory", "0", "67108864"), ("bytes", "0", "8388608"), ("pipeline", "100000", "0")];
    for (name, given, least) in ranges.into_iter().chain(more) {
        let refused = refuses(&[&format!("--sandbox-{name}"), given]);
        assert!(refused.contains(&format!("`--sandbox-{name}` is {given}, but must be from {least}")), "{refused}");
    }
    assert!(refuses(&["--facilitator", "http", "--pay-to", PAY_TO]).contains("X402_FACILITATOR_URL"));
    assert!(refuses(&["--facilitator", "http", "--facilitator-url", "https://facilitator.example.com"]).contains("TOLLHOUSE_PAY_TO"));
    assert!(refuses(&["--worker", "nowhere/tollhouse-worker"]).contains("no worker at"));
    assert!(refuses(&["--listen", "127.0.0.1:0", "--network", "eip155:999"]).contains("is unknown"));
    let short = refuses_with(&["--listen", "127.0.0.1:0"], &[("TOLLHOUSE_ADMIN_TOKEN", "test")]);
    assert!(short.contains("admin token is invalid: it has 4 bytes, but needs at least 16") && !short.contains("folder"), "{short}");
    for wrong in ["tools.example.com", "ftp://tools.example.com", "https://", "https://tools.example.com/?a=b"] {
        assert!(refuses(&["--listen", "127.0.0.1:0", "--base-url", wrong]).contains("TOLLHOUSE_BASE_URL"), "{wrong}");
    }
    assert!(refuses(&["--listen", "127.0.0.1:0", "--log", "["]).contains("log filter"));
    let mut few = within("sh", &["-c", "ulimit -n 24 && exec \"$0\" serve --listen 127.0.0.1:0"], &tollhouse());
    let text = String::from_utf8(few.current_dir(folder.path()).output().unwrap().stderr).unwrap();
    assert!(text.contains("can open 24 files, but a host needs at least 64"), "{text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(refuses(&["--listen", &address]).contains(&address));
}

#[tokio::test]
async fn a_query_of_too_many_fields_is_refused_as_input_and_beside_it() {
    let host = Host::start().await;
    host.publish(&js("asked", 0.0, "export default async (req) => ({ a: req.query.a })")).await;
    let query = (0..300).map(|n| format!("f{n}={n}")).collect::<Vec<_>>().join("&");
    for method in [Method::GET, Method::POST] {
        let request = host.request(method, &format!("/tools/asked?{query}"));
        let error = host.send(request).await.fails(422, "invalid_input", "caller");
        assert!(error["message"].as_str().unwrap().contains("256"), "{error}");
    }
    assert_eq!(host.get("/tools/asked?a=1&a=2").await.status, 200);
}

#[tokio::test]
async fn unknown_query_value_is_rejected_with_the_known_ones() {
    let host = host_with(&[js("asked", 0.0, ECHO)]).await;
    let (builder, _) = host.register("Asked").await;
    for (path, known) in [
        ("GET /ai/endpoints", "`maxPriceUsd`"),
        ("GET /ai/endpoints/asked/calls", "`since`, `until`, `outcome`, `limit`, `cursor`"),
        ("GET /ai/endpoints/asked/metrics", "`since`, `until`, `step`"),
        ("GET /ai/endpoints/asked/logs", "`callId`"),
        ("GET /ai/endpoints/asked/source", "`version`"),
        ("GET /ai/builders/me", "`builderId`"),
        ("POST /ai/builders/keys", "`builderId`"),
        ("GET /ai/builders/endpoints", "`state`"),
        ("GET /ai/builders/revenue", "`builderId`, `since`"),
        ("GET /ai/builders/events", "`endpointSlug`"),
        ("GET /ai/builders/payout-settings", "`builderId`"),
        ("POST /ai/builders/payouts", "`builderId`"),
        ("GET /ai/builders/payouts", "`builderId`, `limit`, `cursor`"),
        ("GET /ai/builders/payouts/none", "`cursor`"),
        ("GET /ai/admin/builders", "`cursor`"),
        ("GET /ai/admin/endpoints", "`owner`"),
        ("GET /ai/admin/reviews", "`cursor`"),
        ("GET /ai/admin/audit", "`actor`"),
        ("GET /ai/admin/revenue", "`since`"),
        ("GET /ai/admin/ledger", "`cursor`"),
        ("GET /ai/admin/payouts", "`status`"),
        ("GET /ai/credits", "`creditId`"),
        ("PUT /ai/credits/budget", "`creditId`"),
        ("GET /dev/faucet", "`address`"),
    ] {
        let (method, path) = path.split_once(' ').unwrap();
        let of_builder = path.starts_with("/ai/builders");
        let request = if of_builder { format!("{path}?builderId={builder}&foo=1") } else { format!("{path}?foo=1") };
        let error = host.manage(method.parse().unwrap(), &request, &Value::Null).await.fails(400, "invalid_request", "caller");
        let expected = format!("{}{}", error["message"], error["hint"]);
        assert!(expected.contains("`foo`") && expected.contains(known), "{path}: {error}");
    }
    // A stranger does not learn which query parameters a route takes.
    host.get("/ai/builders/payouts?foo=1").await.fails(401, "unauthorized", "caller");
}

#[tokio::test]
async fn empty_variables_are_unset_and_unknown_ones_reported() {
    let empty =
        ["TOLLHOUSE_ADMIN_TOKEN", "TOLLHOUSE_SANDBOX_MEMORY", "TOLLHOUSE_GUARD_ALLOW", "TOLLHOUSE_BASE_URL", "X402_FACILITATOR_URL"];
    let builder = empty.into_iter().fold(Host::builder(), |builder, name| builder.env(name, ""));
    let host = builder.env("TOLLHOUSE_LISTN", "127.0.0.1:1").start().await;
    host.get("/health").await.is(200);
    let reported = host.log();
    assert!(reported.contains("the environment variable `TOLLHOUSE_LISTN` is not a setting"), "{reported}");
}
