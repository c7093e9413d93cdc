//! Payments in every dialect, and refusals.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{COUNTER, FUNDS, MICROS, PRICE, bought, bought_over_mcp, challenge, paid_in_meta, refusal};
use crate::harness::{Facilitator, Host, Payer, Payment, SettleMode, js};

/// Returns the capabilities of a client with the x402 extension.
fn payments() -> Value {
    json!({ "extensions": { "org.x402/payment": {} } })
}

/// Returns the challenge in a result of the type that the extension defines.
#[track_caller]
fn extension_challenge(result: &Value) -> Value {
    assert_eq!(result["resultType"], "payment_required", "{result}");
    for absent in ["content", "structuredContent", "isError"] {
        assert_eq!(result.get(absent), None, "{result}");
    }
    assert!(result["paymentRequired"]["accepts"].is_array(), "{result}");
    result["paymentRequired"].clone()
}

/// Removes the signatures of the offers, which contain their expiry, and the token, which differs
/// each time.
fn unsigned(mut challenge: Value) -> Value {
    let mut inside = vec![&mut challenge];
    while let Some(value) = inside.pop() {
        match value {
            Value::Object(members) => {
                members.remove("signature");
                members.remove("replay-token");
                inside.extend(members.values_mut());
            }
            Value::Array(values) => inside.extend(values),
            _ => {}
        }
    }
    challenge
}

#[tokio::test]
async fn payment_extension_is_used_only_with_clients_that_declare_it() {
    let facilitator = Facilitator::start(SettleMode::Refused("insufficient_funds")).await;
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
        let request = extension_challenge(&unpaid);
        assert_eq!(unsigned(request.clone()), unsigned(usual.clone()));
        // The refusal of a payment is in the protocol version of the payment.
        facilitator.set_mode(SettleMode::Refused("insufficient_funds"));
        for payment in [payer.pay(&request), payer.pay_v1(&unpaid["_meta"]["x402/v1"])] {
            let mut meta = meta.clone();
            meta["x402/payment"] = payment.payload.clone();
            let body = extension_challenge(&client.call("count", json!({}), meta).await);
            assert_eq!((&body["error"], &body["x402Version"]), (&json!("insufficient_funds"), &payment.payload["x402Version"]));
        }
        // A good payment gets the same answer as from other clients.
        facilitator.set_mode(SettleMode::Well);
        for payment in [payer.pay(&request), payer.pay_v1(&unpaid["_meta"]["x402/v1"])] {
            let mut meta = meta.clone();
            meta["x402/payment"] = payment.payload.clone();
            let result = client.call("count", json!({}), meta).await;
            assert_eq!((&result["resultType"], &result["_meta"]["x402/payment-response"]["success"]), (&json!("complete"), &json!(true)));
        }
    }
    // A handler's result that looks like a challenge stays as it is, and so does the challenge for
    // an older version.
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
async fn each_dialect_of_payment_pays() {
    let host = Host::start().await;
    let mut tool = js("count", PRICE, COUNTER);
    tool["description"] = json!("Zählt – 数える");
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let mut runs = 0;
    for client in [host.mcp(), host.mcp_legacy()] {
        let unpaid = client.call("count", json!({}), json!({})).await;
        let request = challenge(&unpaid);
        assert_eq!(request["x402Version"], 2);
        let asked_v1 = &unpaid["_meta"]["x402/v1"];
        let (v2, v1) = (|| payer.pay(&request), || payer.pay_v1(asked_v1));
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
async fn vercels_dialect_pays_and_is_reported_in_its_own_words() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::new();
    let dotted = |payment: &Payment| json!({ "x402.payment": payment.encoded() });
    for client in [host.mcp(), host.mcp_legacy()] {
        facilitator.set_mode(SettleMode::Well);
        let request = client.call("count", json!({}), json!({})).await["_meta"]["x402/v1"].clone();
        let result = client.call("count", json!({}), dotted(&payer.pay_v1(&request))).await;
        assert!(result["structuredContent"]["runs"].is_u64(), "{result}");
        let settled = &result["_meta"]["x402.payment-response"];
        assert_eq!((&settled["success"], settled), (&json!(true), &result["_meta"]["x402/payment-response"]));
        // After a refusal, the client gets the terms again, in its own version.
        facilitator.set_mode(SettleMode::Refused("insufficient_funds"));
        let refused = client.call("count", json!({}), dotted(&payer.pay_v1(&request))).await;
        let reported = challenge(&refused);
        assert_eq!((&reported["x402Version"], &reported["error"]), (&json!(1), &json!("insufficient_funds")));
        assert_eq!(refused["_meta"]["x402.payment-response"]["success"], false);
        // Other clients do not get these fields.
        let usual = client.call("count", json!({}), paid_in_meta(&payer.pay_v1(&request))).await;
        assert_eq!(usual["_meta"].get("x402.payment-response"), None);
    }
}

#[tokio::test]
async fn every_payment_that_another_could_replace_is_asked_for_again() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    host.publish(&js("other", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let spent = payer.pay(&host.challenge("count").await);
    for client in [host.mcp(), host.mcp_legacy()] {
        client.call("count", json!({}), paid_in_meta(&spent)).await;
        let foreign = payer.pay(&host.challenge("count").await);
        let expired = payer.pay(&host.challenge("count").await).altered("/payload/authorization/validBefore", json!("1"));
        for (tool, arguments, meta, reason) in [
            ("count", json!({ "ms": 0 }), paid_in_meta(&spent), "payment_reused"),
            ("other", json!({}), paid_in_meta(&spent), "payment_reused"),
            ("other", json!({}), paid_in_meta(&foreign), "invalid_payment_requirements"),
            ("count", json!({}), paid_in_meta(&expired), "invalid_exact_evm"),
        ] {
            let answer = challenge(&client.call(tool, arguments, meta).await);
            assert!(answer["error"].as_str().unwrap().starts_with(reason), "{reason}: {answer}");
            // The new challenge is valid: a new payment for it is accepted.
            assert_eq!(answer["accepts"], host.challenge(tool).await["accepts"]);
        }
    }
    // Over HTTP the status distinguishes the cases.
    host.call_paid("count", &json!({ "ms": 0 }), &spent).await.fails(409, "payment_reused", "caller");
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
    refusal(&wrong, "wrong_credit");
}

/// A client with a wallet pays every challenge, even if its owner wants it to use the credit only.
#[tokio::test]
async fn credit_that_does_not_pay_gets_no_challenge() {
    let host = Host::builder().flag("--auth-failures", 0).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let (poor, rich, revoked) = (host.mint(0.001).await, host.mint(1.0).await, host.mint(1.0).await);
    let read = host.send(host.request(Method::GET, "/ai/credits").header("x-developer-credit", &revoked)).await.is(200).json();
    let path = format!("/ai/admin/credits/{}", read["creditId"].as_str().unwrap());
    host.manage(Method::POST, &path, &json!({ "decision": "revoke" })).await.is(200);
    host.mcp().call("count", json!({ "ms": 1 }), json!({ "tollhouse/credit": rich, "tollhouse/idempotencyKey": "once" })).await;
    for (credit, key, status, code) in [
        ("dc_nobody", None, 401, "wrong_credit"),
        ("no token at all", None, 401, "wrong_credit"),
        ("", None, 401, "wrong_credit"),
        (&*poor, None, 403, "insufficient_credit"),
        (&*revoked, None, 409, "credit_revoked"),
        (&*rich, Some("once"), 409, "payment_reused"),
        (&*rich, Some(""), 400, "invalid_request"),
    ] {
        let mut client = host.mcp_legacy().with_header("x-developer-credit", credit);
        let mut meta = json!({ "tollhouse/credit": credit });
        let mut request = host.request(Method::POST, "/tools/count").header("x-developer-credit", credit).json(&json!({}));
        if let Some(key) = key {
            meta["tollhouse/idempotencyKey"] = json!(key);
            client = client.with_header("idempotency-key", key);
            request = request.header("idempotency-key", key);
        }
        let answer = host.send(request).await;
        answer.fails(status, code, "caller");
        assert_eq!((answer.header("payment-required"), answer.json().get("accepts")), (None, None), "{answer:?}");
        refusal(&host.mcp().call("count", json!({}), meta).await, code);
        refusal(&client.call("count", json!({}), json!({})).await, code);
    }
    assert_eq!(host.credit_balance(&rich).await, FUNDS - MICROS);
}

#[tokio::test]
async fn key_and_credit_from_different_places_pay_once() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let credit = host.mint(0.05).await;
    for (n, client) in [host.mcp(), host.mcp_legacy()].into_iter().enumerate() {
        let key_in_meta = json!({ "tollhouse/idempotencyKey": format!("in-meta-{n}") });
        let credit_in_meta = json!({ "tollhouse/credit": credit });
        for (client, meta) in [
            (client.clone().with_header("x-developer-credit", &credit), key_in_meta),
            (client.with_header("idempotency-key", format!("in-header-{n}")), credit_in_meta),
        ] {
            let first = client.call("count", json!({}), meta.clone()).await;
            let again = client.call("count", json!({}), meta).await;
            assert_eq!((&first["isError"], &again["isError"]), (&json!(false), &json!(false)), "{first} {again}");
            assert_eq!(first["_meta"]["tollhouse/receipt"], again["_meta"]["tollhouse/receipt"]);
        }
    }
    let message = |id: u32| {
        let params = json!({ "name": "count", "arguments": {}, "_meta": { "tollhouse/idempotencyKey": "in-a-batch" } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let batch = host.request(Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream");
    let batch = batch.header("mcp-protocol-version", "2025-03-26").header("x-developer-credit", &credit);
    host.send(batch.json(&json!([message(1), message(2)]))).await.is(200);
    assert_eq!(host.credit_balance(&credit).await, 0, "five payments for ten calls");
}

#[tokio::test]
async fn different_values_in_meta_and_headers_are_refused() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let (credit, other) = (host.mint(1.0).await, host.mint(1.0).await);
    for client in [host.mcp(), host.mcp_legacy()] {
        let client = client.with_header("x-developer-credit", &credit).with_header("idempotency-key", "one");
        let client = client.with_header("x-quote-id", "quo_1");
        for (name, value) in [("tollhouse/credit", &*other), ("tollhouse/idempotencyKey", "two"), ("tollhouse/quoteId", "quo_2")] {
            let error = refusal(&client.call("count", json!({}), json!({ name: value })).await, "invalid_request");
            assert!(error["message"].as_str().unwrap().contains(name), "{error}");
            assert_eq!(error["charged"], false);
        }
    }
    assert_eq!((host.credit_balance(&credit).await, host.credit_balance(&other).await), (FUNDS, FUNDS));
}

#[tokio::test]
async fn one_payment_over_http_and_mcp_at_once_is_one_run_and_one_settlement() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
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
        assert_eq!(challenge(&other)["error"], "payment_reused");
    }
}

#[tokio::test]
async fn a_refused_settlement_withholds_the_content() {
    let facilitator = Facilitator::start(SettleMode::Refused("insufficient_funds")).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::new();
    let unpaid = host.mcp().call("count", json!({}), json!({})).await;
    for payment in [payer.pay(&challenge(&unpaid)), payer.pay_v1(&unpaid["_meta"]["x402/v1"])] {
        let result = host.mcp().call("count", json!({}), paid_in_meta(&payment)).await;
        let reported = challenge(&result);
        assert_eq!((&reported["error"], &reported["x402Version"]), (&json!("insufficient_funds"), &payment.payload["x402Version"]));
        let network = if reported["x402Version"] == 1 { "base-sepolia" } else { "eip155:84532" };
        let failed = &result["_meta"]["x402/payment-response"];
        assert_eq!(
            (&failed["success"], &failed["errorReason"], &failed["transaction"], &failed["network"]),
            (&json!(false), &json!("insufficient_funds"), &json!(""), &json!(network))
        );
        assert_eq!(failed["payer"].as_str().unwrap().to_lowercase(), payer.address.to_lowercase());
        // The same over HTTP.
        let http = host.call_paid("count", &json!({}), &payment).await.is(402);
        let name = if reported["x402Version"] == 1 { "x-payment-response" } else { "payment-response" };
        assert_eq!(&http.decoded(name), failed);
        assert!(!result.to_string().contains("runs\\\":"), "{result}");
    }
    facilitator.set_mode(SettleMode::Unanswered);
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
    let request = challenge(&host.mcp().call("count", json!({}), json!({})).await);
    let payment = poor.pay(&request);
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
