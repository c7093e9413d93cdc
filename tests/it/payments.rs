//! Payments: each buys at most one run and one answer, and only a success is charged.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, Payer, Payment, eventually, js};

/// Price of the tools in these tests, in dollars and in micro-dollars.
const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;
const FUNDS: u64 = 1_000_000;

/// Counts its runs in kv, and can be slow, so that other requests come during the run.
const COUNTER: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    await new Promise((done) => setTimeout(done, req.input.ms ?? 0));
    return { runs };
};";

#[tokio::test]
async fn a_payment_sent_eight_times_at_once_and_again_later_runs_and_settles_once() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let input = json!({ "ms": 150 });

    let mut answers = join_all((0..8).map(|_| host.call_paid("count", &input, &payment))).await;
    answers.push(host.call_paid("count", &input, &payment).await);
    let first = answers[0].clone().is(200);
    assert_eq!(first.json(), json!({ "runs": 1 }));
    for answer in &answers {
        assert_eq!((answer.status, &answer.body, answer.receipt_id()), (200, &first.body, first.receipt_id()), "{answer:?}");
        assert_eq!(answer.has("payment-response"), first.has("payment-response"));
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
    let state = host.payment(&payment.id()).await.unwrap();
    assert_eq!((&state["state"], &state["receiptId"]), (&json!("settled"), &json!(first.receipt_id())));

    // Anyone can compute the id of a payment from public data of the chain.
    let shown = async |header: &str, value: &str| {
        let request = host.request(Method::GET, &format!("/ai/payments/{}", payment.id()));
        let request = if header.is_empty() { request } else { request.header(header, value) };
        let body = host.send(request).await.is(200).json()["payment"].clone();
        assert_eq!(body["state"], "settled");
        (body.get("receiptId").is_some(), body.get("transaction").is_some())
    };
    let forged = payment.altered("/payload/signature", json!(format!("0x{}1b", "11".repeat(64))));
    let (credit, other) = (host.mint(1.0).await, payer.pay(&host.challenge("count").await));
    let (_, key) = host.register("stranger").await;
    for (header, value) in [
        ("", ""),
        (payment.header, &*forged.encoded()),
        (payment.header, &*other.encoded()),
        ("x-developer-credit", &*credit),
        ("x-developer-credit", "dc_unknown"),
        ("x-builder-key", &*key),
    ] {
        assert_eq!(shown(header, value).await, (false, false), "{header} {value}");
    }
    for (header, value) in [(payment.header, &*payment.encoded()), ("x-admin-token", &*host.admin)] {
        assert_eq!(shown(header, value).await, (true, true), "{header}");
    }

    // A new payment is a new run.
    let again = payer.pay(&host.challenge("count").await);
    assert_eq!(host.call_paid("count", &input, &again).await.is(200).json(), json!({ "runs": 2 }));
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
}

#[tokio::test]
async fn a_payment_for_one_request_buys_no_other() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    host.publish(&js("count-too", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    host.call_paid("count", &json!({ "a": 1 }), &payment).await.is(200);

    host.call_paid("count", &json!({ "a": 2 }), &payment).await.fails(409, "payment_reused", "caller");
    // Even with the `resource.url` of the other tool, the payment is bound to the first request.
    let challenge = host.challenge("count-too").await;
    let elsewhere = payment.altered("/resource", challenge["resource"].clone());
    host.call_paid("count-too", &json!({ "a": 1 }), &elsewhere).await.fails(409, "payment_reused", "caller");
    host.call_paid("count-too", &json!({ "a": 1 }), &payment).await.fails(409, "payment_reused", "caller");
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
    // No tool ran for it.
    let fresh = payer.pay(&challenge);
    assert_eq!(host.call_paid("count-too", &json!({}), &fresh).await.is(200).json(), json!({ "runs": 1 }));
}

#[tokio::test]
async fn while_a_payment_runs_another_request_with_it_is_refused() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let inputs: Vec<_> = (0..4).map(|n| json!({ "ms": 200, "n": n })).collect();
    let answers = join_all(inputs.iter().map(|input| host.call_paid("count", input, &payment))).await;
    let (ran, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(ran.len(), 1, "{refused:?}");
    for answer in refused {
        answer.fails(409, "payment_reused", "caller");
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn a_v1_payment_learns_its_settlement_on_the_v1_wire() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay_v1(&host.challenge_v1("count").await);
    let answer = host.call_paid("count", &json!({}), &payment).await.is(200);
    let settled = answer.decoded("x-payment-response");
    assert_eq!((&settled["success"], &settled["network"]), (&json!(true), &json!("base-sepolia")));
    assert_eq!(answer.header("payment-response"), None);
    assert_eq!(answer.has("cache-control"), "private, no-store");
    let receipt = host.receipt(&answer.receipt_id()).await;
    assert_eq!(
        (&receipt["x402Version"], &receipt["network"], &receipt["transaction"]),
        (&json!(1), &json!("eip155:84532"), &settled["transaction"])
    );
}

#[tokio::test]
async fn two_payments_at_once_are_two_runs() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.challenge("count").await;
    let payments: Vec<_> = (0..8).map(|_| payer.pay(&challenge)).collect();
    let answers = join_all(payments.iter().map(|payment| async { host.call_paid("count", &json!({}), payment).await.is(200) })).await;
    let mut receipts: Vec<_> = answers.iter().map(Answer::receipt_id).collect();
    receipts.sort();
    receipts.dedup();
    assert_eq!(receipts.len(), 8);
    assert_eq!(host.balance(&payer.address).await, FUNDS - 8 * MICROS);
}

#[tokio::test]
async fn a_head_with_a_payment_is_the_challenge_and_never_runs() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let head = host.request(Method::HEAD, "/tools/count").header(payment.header, payment.encoded());
    let answer = host.send(head).await.is(402);
    assert!(answer.body.is_empty());
    assert_eq!(answer.decoded("payment-required")["x402Version"], 2);
    assert_eq!(host.payment(&payment.id()).await, None);
    assert_eq!(host.call_paid("count", &json!({}), &payment).await.is(200).json(), json!({ "runs": 1 }));
}

#[tokio::test]
async fn a_paid_get_takes_its_input_from_the_query() {
    let host = Host::start().await;
    let mut tool = js("add", PRICE, "export default async (req) => ({ sum: req.input.a + req.input.b });");
    tool["inputSchema"] =
        json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } }, "required": ["a", "b"] });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("add").await);
    let get = host.request(Method::GET, "/tools/add?a=2&b=40").header(payment.header, payment.encoded());
    assert_eq!(host.send(get).await.is(200).json(), json!({ "sum": 42 }));
}

/// Fails as its input says, and counts its answered calls.
const MOODY: &str = "export default async (req, ctx) => {
    switch (req.input.mood) {
        case 'throws': throw new TypeError('no more');
        case 'loops': for (;;) {}
        case 'sleeps': await new Promise((done) => setTimeout(done, 60_000)); break;
        case 'wrong': return { answered: 'yes' };
        case 'hungry': { const all = []; for (;;) all.push(new Array(1000).fill(Math.random())); }
        case 'huge': return { answered: 1, text: 'x'.repeat(300 * 1024) };
        case 'busy': for (let i = 0; i < 2000; i++) await ctx.kv.get('runs'); break;
        case 'polite': return Response.json({ error: { code: 'no_such_thing' } }, { status: 422 });
    }
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    return { answered: runs };
};";

fn moody() -> Value {
    let mut tool = js("moody", PRICE, MOODY);
    tool["outputSchema"] = json!({ "type": "object", "properties": { "answered": { "type": "integer" } }, "required": ["answered"] });
    tool["limits"] = json!({ "cpuMs": 400, "ops": 200 });
    tool
}

/// Checks the state after a failed call: nothing charged, the payment released and usable again,
/// and the host still running.
async fn nothing_was_taken(host: &Host, pid: u32, payer: &Payer, payment: &Payment) {
    assert_eq!(host.balance(&payer.address).await, FUNDS);
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
    assert!(host.lives() && host.pid() == pid);
    assert_eq!(host.call_paid("moody", &json!({}), payment).await.is(200).json(), json!({ "answered": 1 }));
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

async fn fails_uncharged(mood: &str, status: u16, code: &str) {
    let host = Host::start().await;
    let pid = host.pid();
    let mut tool = moody();
    if mood == "sleeps" {
        tool["limits"] = json!({ "wallMs": 600 });
    }
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("moody").await);
    let error = host.call_paid("moody", &json!({ "mood": mood }), &payment).await.fails(status, code, "tool");
    if mood == "throws" {
        assert!(error["message"].as_str().unwrap().contains("no more"), "{error}");
        assert!(!error.to_string().contains("tool:/"), "a stack is the builder's: {error}");
    }
    nothing_was_taken(&host, pid, &payer, &payment).await;
}

#[tokio::test]
async fn a_handler_that_throws_is_not_charged() {
    fails_uncharged("throws", 502, "handler_failed").await;
}

#[tokio::test]
async fn an_endless_loop_is_stopped_and_not_charged() {
    fails_uncharged("loops", 504, "cpu_time_exceeded").await;
}

#[tokio::test]
async fn a_handler_that_sleeps_too_long_is_not_charged() {
    fails_uncharged("sleeps", 504, "wall_time_exceeded").await;
}

#[tokio::test]
async fn an_answer_outside_its_schema_is_not_charged() {
    fails_uncharged("wrong", 502, "invalid_output").await;
}

#[tokio::test]
async fn an_exhausted_memory_is_not_charged() {
    let host = Host::start().await;
    let pid = host.pid();
    let mut tool = moody();
    // Enough time to fill the memory on a slow machine.
    tool["limits"] = json!({ "cpuMs": 10_000, "wallMs": 20_000, "heapBytes": 16 << 20 });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("moody").await);
    host.call_paid("moody", &json!({ "mood": "hungry" }), &payment).await.fails(502, "memory_exceeded", "tool");
    nothing_was_taken(&host, pid, &payer, &payment).await;
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_charged() {
    fails_uncharged("huge", 502, "output_too_large").await;
}

#[tokio::test]
async fn a_handler_that_asks_the_host_too_often_is_not_charged() {
    fails_uncharged("busy", 502, "op_limit_exceeded").await;
}

#[tokio::test]
async fn a_worker_that_is_killed_in_the_middle_of_a_call_costs_that_call_and_no_money() {
    let host = Host::start().await;
    let pid = host.pid();
    let mut tool = moody();
    tool["limits"] = json!({ "cpuMs": 10_000, "wallMs": 10_000 });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("moody").await);
    let kill = eventually("a worker computes", Duration::from_secs(9), || async {
        host.kill_busy_worker(Duration::from_millis(600)).then_some(())
    });
    let input = json!({ "mood": "loops" });
    let (answer, ()) = tokio::join!(host.call_paid("moody", &input, &payment), kill);
    answer.fails(502, "sandbox_crashed", "tool");
    nothing_was_taken(&host, pid, &payer, &payment).await;
}

#[tokio::test]
async fn a_refusal_of_the_tool_itself_passes_through_and_is_not_charged() {
    let host = Host::start().await;
    let pid = host.pid();
    host.publish(&moody()).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("moody").await);
    let answer = host.call_paid("moody", &json!({ "mood": "polite" }), &payment).await.is(422);
    assert_eq!(answer.json(), json!({ "error": { "code": "no_such_thing" } }));
    assert_eq!((answer.header("x-receipt-id"), answer.header("payment-response")), (None, None));
    nothing_was_taken(&host, pid, &payer, &payment).await;
}

#[tokio::test]
async fn a_caller_who_hangs_up_finds_the_answer_under_the_payment() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let input = json!({ "ms": 300 });
    let hasty = host.paid_request("count", &input, &payment).timeout(Duration::from_millis(100));
    assert!(Host::try_send(hasty).await.unwrap_err().is_timeout());
    eventually("the payment is settled", Duration::from_secs(5), || async {
        host.payment(&payment.id()).await.filter(|payment| payment["state"] == "settled")
    })
    .await;
    assert_eq!(host.call_paid("count", &input, &payment).await.is(200).json(), json!({ "runs": 1 }));
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn developer_credit_pays_and_an_idempotency_key_makes_a_repeated_call_one_call() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let credit = host.mint(0.035).await;
    let call = async |key: Option<&str>, input: &Value| {
        let mut request = host.request(Method::POST, "/tools/count").header("x-developer-credit", &credit).json(input);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        host.send(request).await
    };
    let first = call(Some("order-1"), &json!({})).await.is(200);
    assert_eq!(first.json(), json!({ "runs": 1 }));
    assert_eq!(host.credit_balance(&credit).await, 25_000);
    let receipt = host.receipt(&first.receipt_id()).await;
    assert_eq!((&receipt["kind"], &receipt["slug"]), (&json!("credit"), &json!("count")));

    let again = call(Some("order-1"), &json!({})).await.is(200);
    assert_eq!((&again.body, again.receipt_id()), (&first.body, first.receipt_id()));
    call(Some("order-1"), &json!({ "other": true })).await.fails(409, "payment_reused", "caller");
    assert_eq!(host.credit_balance(&credit).await, 25_000);

    // Without an idempotency key, each call is separate.
    assert_eq!(call(None, &json!({})).await.is(200).json(), json!({ "runs": 2 }));
    assert_eq!(call(None, &json!({})).await.is(200).json(), json!({ "runs": 3 }));
    assert_eq!(host.credit_balance(&credit).await, 5_000);
    // The rest of the credit is too small.
    call(None, &json!({})).await.fails(403, "insufficient_credit", "caller");
    assert_eq!(host.credit_balance(&credit).await, 5_000);
    let free_again = call(Some("order-1"), &json!({})).await.is(200);
    assert_eq!(free_again.body, first.body);
    // A wrong token gives no access.
    host.call_credit("count", &json!({}), &format!("{credit}x")).await.fails(401, "wrong_credit", "caller");
}

#[tokio::test]
async fn calls_on_one_credit_at_once_never_overdraw_it() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let credit = host.mint(0.03).await;
    let input = json!({ "ms": 50 });
    let answers = join_all((0..10).map(|_| host.call_credit("count", &input, &credit))).await;
    let paid = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 403)), "{answers:?}");
    assert_eq!((paid, host.credit_balance(&credit).await), (3, 0));
}

#[tokio::test]
async fn a_failed_call_on_credit_costs_nothing() {
    let host = Host::start().await;
    host.publish(&moody()).await;
    let credit = host.mint(0.01).await;
    host.call_credit("moody", &json!({ "mood": "throws" }), &credit).await.fails(502, "handler_failed", "tool");
    assert_eq!(host.credit_balance(&credit).await, MICROS);
    host.call_credit("moody", &json!({}), &credit).await.is(200);
    assert_eq!(host.credit_balance(&credit).await, 0);
}

#[tokio::test]
async fn invoke_answers_result_and_receipt_together() {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("count").await);
    let body = json!({ "slug": "count", "input": { "a": 1 } });
    let invoke = host.request(Method::POST, "/ai/invoke").header(payment.header, payment.encoded()).json(&body);
    let answer = host.send(invoke).await.is(200);
    let receipt = host.receipt(&answer.receipt_id()).await;
    assert_eq!(answer.json(), json!({ "ok": true, "result": { "runs": 1 }, "receipt": receipt }));
    assert_eq!(receipt["payer"].as_str().map(str::len), Some(13), "the payer is shortened: {receipt}");
    // The same request through another interface is the same call.
    assert_eq!(host.call_paid("count", &json!({ "a": 1 }), &payment).await.is(200).receipt_id(), answer.receipt_id());
}
