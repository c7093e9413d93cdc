//! Unpaid work: a call that could not be settled is not started, and a payer whose calls fail
//! repeatedly must wait.

use std::time::{Duration, Instant, UNIX_EPOCH};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Facilitator, Host, Payer, Payment, SettleMode, eventually, js, postgres::Postgres};

const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;
const FUNDS: u64 = 1_000_000;
const EXPIRED: &str = "invalid_exact_evm_payload_authorization_valid_before";

/// Fails as its input says.
const MOODY: &str = "export default async (req) => {
    if (req.input.mood === 'throws') throw new Error('no more');
    if (req.input.mood === 'polite') return new Response('no', { status: 404 });
    return { answered: true };
};";

/// Is slow, and fails if its input says so.
const SLOW: &str = "export default async (req) => {
    await new Promise((resolve) => setTimeout(resolve, 500));
    if (req.input.fails) throw new Error('no more');
    return {};
};";

fn throws() -> Value {
    json!({ "mood": "throws" })
}

/// Signs a payment that is valid for this time from now on.
fn valid_for(payer: &Payer, challenge: &Value, time: Duration) -> Payment {
    let mut payment = payer.pay(challenge);
    payment.payload["payload"]["authorization"]["validBefore"] = json!((UNIX_EPOCH.elapsed().unwrap() + time).as_secs().to_string());
    let signature = payer.sign(&payment.payload["payload"]["authorization"], &challenge["accepts"][0], 84_532);
    payment.payload["payload"]["signature"] = json!(signature);
    payment
}

/// Checks that the call is refused because earlier runs of the payer or of the tool failed.
#[track_caller]
fn slowed(answer: &Answer) {
    answer.clone().fails(429, "rate_limited", "caller");
    let wait: u64 = answer.has("retry-after").parse().unwrap();
    assert!((1..=120).contains(&wait) && answer.has("ratelimit").contains("failed-runs"), "{answer:?}");
}

#[tokio::test]
async fn payment_that_expires_too_soon_is_rejected_before_the_run() {
    let host = Host::start().await;
    host.publish(&js("moody", PRICE, MOODY)).await;
    let payer = Payer::funded(&host, 1.0).await;
    // The validity must cover the wall time limit and half a minute.
    let challenge = host.challenge("moody").await;
    let payment = valid_for(&payer, &challenge, Duration::from_secs(30));
    let refused = host.call_paid("moody", &json!({}), &payment).await.is(402);
    assert_eq!(refused.json()["error"], EXPIRED);
    assert_eq!(refused.decoded("payment-required")["error"], EXPIRED);
    let text = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(text.contains("the tool can run for 10 s") && text.contains("maxTimeoutSeconds"), "{text}");
    let mcp = host.mcp().call("moody", json!({}), json!({ "x402/payment": payment.payload })).await;
    assert_eq!((&mcp["isError"], &mcp["structuredContent"]["error"]), (&json!(true), &json!(EXPIRED)));
    assert!(mcp["content"][1]["text"].as_str().unwrap().contains("the tool can run for 10 s"), "{mcp}");
    assert_eq!((host.payment(&payment.id()).await, host.balance(&payer.address).await), (None, FUNDS));

    // Long enough for this tool, but not for a slower one.
    let payment = valid_for(&payer, &challenge, Duration::from_secs(120));
    host.change("moody", &json!({ "limits": { "wallMs": 150_000 } })).await;
    assert_eq!(host.call_paid("moody", &json!({}), &payment).await.is(402).json()["error"], EXPIRED);
    host.change("moody", &json!({ "limits": { "wallMs": 10_000 } })).await;
    host.call_paid("moody", &json!({}), &payment).await.is(200);
    // The validity in the challenge is enough, whatever the limit of the tool.
    host.change("moody", &json!({ "limits": { "wallMs": 290_000 } })).await;
    let challenge = host.challenge("moody").await;
    let request = Duration::from_secs(challenge["accepts"][0]["maxTimeoutSeconds"].as_u64().unwrap());
    host.call_paid("moody", &json!({}), &valid_for(&payer, &challenge, request)).await.is(200);
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
}

/// Regression: one authorization ran a failing handler 300 times in less than a second, without
/// paying.
#[tokio::test]
async fn a_payment_whose_runs_fail_again_and_again_waits() {
    let host = Host::start().await;
    host.publish(&js("moody", PRICE, MOODY)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("moody").await);
    let (started, mut runs) = (Instant::now(), 0);
    for _ in 0..300 {
        let answer = host.call_paid("moody", &throws(), &payment).await;
        match answer.status {
            502 => runs += 1,
            _ => slowed(&answer),
        }
        // The count is per minute.
        if started.elapsed() > Duration::from_secs(50) {
            break;
        }
    }
    assert_eq!(runs, 30, "in {:?}", started.elapsed());
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
    assert_eq!(host.balance(&payer.address).await, FUNDS);
}

/// Regression: 57 concurrent payments ran 57 times, and one successful payment deleted the count of
/// all failures.
#[tokio::test]
async fn payments_at_once_run_no_more_often_than_the_balance_covers_or_than_may_fail() {
    let host = Host::builder().flag("--payer-failures", 4).start().await;
    host.publish(&js("slow", PRICE, SLOW)).await;
    let challenge = host.challenge("slow").await;
    for (funds, max) in [(0.02, 2), (1.0, 4)] {
        let payer = Payer::funded(&host, funds).await;
        let calls = (0..16).map(|n| {
            let request = host.paid_request("slow", &json!({ "n": n, "fails": true }), &payer.pay(&challenge));
            async { Host::try_send(request).await.unwrap() }
        });
        let answers = futures_util::future::join_all(calls).await;
        let ran = answers.iter().filter(|answer| answer.status == 502).count();
        assert_eq!(ran, max, "a payer with {funds} USD");
        for answer in answers.iter().filter(|answer| answer.status != 502) {
            answer.clone().fails(429, "rate_limited", "caller");
            let wait: u64 = answer.has("retry-after").parse().unwrap();
            assert!((1..=65).contains(&wait), "{answer:?}");
        }
    }
}

/// Regression: about a third of the calls were refused because a credit of 0.01 USD did not cover
/// 0.01 USD.
#[tokio::test]
async fn identical_keyed_calls_are_one_call_for_any_balance() {
    let host = Host::start().await;
    host.publish(&js("moody", PRICE, MOODY)).await;
    for round in 0..10 {
        let credit = host.mint(PRICE).await;
        let calls = (0..12).map(|_| {
            let request = host.request(Method::POST, "/tools/moody").header("x-developer-credit", &credit).json(&json!({}));
            let request = request.header("idempotency-key", format!("round-{round}"));
            async { Host::try_send(request).await.unwrap() }
        });
        let answers = futures_util::future::join_all(calls).await;
        let mut receipts: Vec<_> = answers.into_iter().map(|answer| answer.is(200).receipt_id()).collect();
        receipts.dedup();
        assert_eq!((receipts.len(), host.credit_balance(&credit).await), (1, 0), "round {round}");
    }
}

/// Covers the other ways to call a tool, and registrations. A second host of the same store is another process.
#[tokio::test]
async fn identical_keyed_calls_are_one_call_on_every_route_and_host() {
    const KEY: &str = "tollhouse/idempotencyKey";
    const CREDIT: &str = "tollhouse/credit";
    let server = Postgres::start();
    let how = Host::builder().env("TOLLHOUSE_STORE", server.url()).env("TOLLHOUSE_BASE_URL", "https://tools.example");
    let first = how.start().await;
    let second = first.second().await;
    first.publish(&js("moody", PRICE, MOODY)).await;
    for round in 0..6 {
        // A registration costs a dollar.
        let funds = if round % 3 == 2 { 1.0 } else { PRICE };
        let (credit, key) = (first.mint(funds).await, format!("round-{round}"));
        let calls = (0..12).map(|n| {
            let host = if n % 2 == 0 { &first } else { &second };
            let (credit, key) = (credit.clone(), key.clone());
            async move {
                let post = |path: &str, body: Value| {
                    let request = host.request(Method::POST, path).header("x-developer-credit", &credit);
                    Host::try_send(request.header("idempotency-key", &key).json(&body))
                };
                match round % 3 {
                    0 => return post("/ai/invoke", json!({ "slug": "moody", "input": {} })).await.unwrap().is(200).receipt_id(),
                    2 => {
                        let answer = post("/ai/builders/register", json!({ "name": "a builder" })).await.unwrap().is(200);
                        return answer.json()["builderId"].as_str().unwrap().to_owned();
                    }
                    _ => {}
                }
                let answer = host.mcp().call("moody", json!({}), json!({ CREDIT: credit, KEY: key })).await;
                answer["_meta"]["tollhouse/receipt"]["receiptId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
            }
        });
        let mut receipts = futures_util::future::join_all(calls).await;
        receipts.sort_unstable();
        receipts.dedup();
        assert_eq!((receipts.len(), first.credit_balance(&credit).await), (1, 0), "round {round}: {receipts:?}");
    }
}

#[tokio::test]
async fn identical_registrations_with_one_key_at_once_are_one_registration() {
    let host = Host::start().await;
    for round in 0..5 {
        let credit = host.mint(1.0).await;
        let calls = (0..12).map(|_| {
            let request = host.request(Method::POST, "/ai/builders/register").header("x-developer-credit", &credit);
            let request = request.header("idempotency-key", format!("round-{round}")).json(&json!({ "name": "a builder" }));
            async { Host::try_send(request).await.unwrap() }
        });
        let answers = futures_util::future::join_all(calls).await;
        let mut builders: Vec<_> = answers.into_iter().map(|answer| answer.is(200).json()["builderId"].clone()).collect();
        builders.dedup();
        assert_eq!((builders.len(), host.credit_balance(&credit).await), (1, 0), "round {round}");
    }
}

/// With a limit of one, a failure counts for a minute.
#[tokio::test]
async fn a_payer_whose_runs_fail_waits_at_every_tool_and_nobody_else_does() {
    let host = Host::builder().flag("--payer-failures", 1).start().await;
    for slug in ["moody", "other"] {
        host.publish(&js(slug, PRICE, MOODY)).await;
    }
    let (challenge, elsewhere) = (host.challenge("moody").await, host.challenge("other").await);
    for (input, status) in [(throws(), 502), (json!({ "mood": "polite" }), 404)] {
        let payer = Payer::funded(&host, 1.0).await;
        let bought = payer.pay(&challenge);
        let first = host.call_paid("moody", &json!({}), &bought).await.is(200);
        host.call_paid("moody", &input, &payer.pay(&challenge)).await.is(status);
        let waits = payer.pay(&elsewhere);
        slowed(&host.call_paid("other", &json!({}), &waits).await);
        let answer = host.mcp().call("other", json!({}), json!({ "x402/payment": waits.payload })).await;
        let error = &answer["_meta"]["tollhouse/error"];
        let wait = error["retryAfterSeconds"].as_u64().unwrap();
        assert_eq!((&error["code"], (1..=120).contains(&wait)), (&json!("rate_limited"), true), "{answer}");
        assert!(answer["content"][0]["text"].as_str().unwrap().contains(&format!("\nRetry in {wait} s.\n")), "{answer}");
        assert_eq!(host.payment(&waits.id()).await, None);
        // A repeated answer is not a run.
        assert_eq!(host.call_paid("moody", &json!({}), &bought).await.is(200).body, first.body);
    }
    // A credit counts as a payer too.
    let credit = host.mint(1.0).await;
    host.call_credit("moody", &throws(), &credit).await.fails(502, "handler_failed", "tool");
    slowed(&host.call_credit("other", &json!({}), &credit).await);
    // A stream has no header for the wait.
    let request = host.request(Method::POST, "/ai/invoke").header("x-developer-credit", &credit);
    let streamed = host.send(request.json(&json!({ "slug": "other", "input": {}, "stream": true }))).await.is(200);
    let last = streamed.events().pop().unwrap();
    let wait = last.data["error"]["retryAfterSeconds"].as_u64();
    assert_eq!((&*last.name, wait.is_some_and(|wait| (1..=120).contains(&wait))), ("error", true), "{last:?}");
    assert_eq!(host.credit_balance(&credit).await, 1_000_000);
}

#[tokio::test]
async fn tool_with_unpaid_runs_serves_earlier_customers() {
    let host = Host::builder().flag("--payer-failures", 0).flag("--tool-failures", 1).start().await;
    for slug in ["moody", "other"] {
        host.publish(&js(slug, PRICE, MOODY)).await;
    }
    let challenge = host.challenge("moody").await;
    let (customer, payer, fresh) = (Payer::funded(&host, 1.0).await, Payer::funded(&host, 1.0).await, Payer::funded(&host, 1.0).await);
    host.call_paid("moody", &json!({}), &customer.pay(&challenge)).await.is(200);
    host.call_paid("moody", &throws(), &payer.pay(&challenge)).await.fails(502, "handler_failed", "tool");
    // A new address does not help.
    for payer in [&payer, &fresh] {
        slowed(&host.call_paid("moody", &json!({}), &payer.pay(&challenge)).await);
    }
    host.call_paid("moody", &json!({}), &customer.pay(&challenge)).await.is(200);
    host.call_paid("other", &json!({}), &fresh.pay(&host.challenge("other").await)).await.is(200);
    let credit = host.mint(1.0).await;
    host.call_credit("moody", &json!({}), &credit).await.is(200);
}

#[tokio::test]
async fn rejected_settlement_counts_as_an_unpaid_run() {
    let facilitator = Facilitator::start(SettleMode::Refused("insufficient_funds")).await;
    let host = Host::builder().settled_by(&facilitator.url).flag("--payer-failures", 1).start().await;
    host.publish(&js("moody", PRICE, MOODY)).await;
    let payment = Payer::new().pay(&host.challenge("moody").await);
    host.call_paid("moody", &json!({}), &payment).await.is(402);
    slowed(&host.call_paid("moody", &json!({}), &payment).await);
    assert_eq!(facilitator.asked(), 1);
    // Invalid input is not a run, and the owner's failed runs do not count against payers.
    let host = Host::builder().flag("--payer-failures", 1).start().await;
    let mut tool = js("moody", PRICE, MOODY);
    tool["inputSchema"] = json!({ "type": "object", "properties": { "mood": { "type": "string" } } });
    host.publish(&tool).await;
    let credit = host.mint(1.0).await;
    for _ in 0..4 {
        host.call_credit("moody", &json!({ "mood": 1 }), &credit).await.fails(422, "invalid_input", "caller");
    }
    let free = host.request(Method::POST, "/tools/moody").header("x-admin-token", &host.admin).json(&throws());
    host.send(free).await.fails(502, "handler_failed", "tool");
    host.call_credit("moody", &json!({}), &credit).await.is(200);
}

#[tokio::test]
async fn refused_payments_of_an_address_get_429_beyond_their_limit() {
    let host = Host::builder().flag("--address-refused-payments", 2).start().await;
    host.publish(&js("moody", PRICE, MOODY)).await;
    let (payer, challenge) = (Payer::funded(&host, 1.0).await, host.challenge("moody").await);
    let bought = payer.pay(&challenge);
    host.call_paid("moody", &json!({}), &bought).await.is(200);
    for _ in 0..2 {
        host.call_paid("moody", &json!({}), &Payer::new().pay(&challenge)).await.is(402);
    }
    let refused = host.call_paid("moody", &json!({}), &payer.pay(&challenge)).await;
    refused.clone().fails(429, "rate_limited", "caller");
    assert!(refused.has("ratelimit").contains("refused-payments"), "{refused:?}");
    // An answer that was bought is served.
    host.call_paid("moody", &json!({}), &bought).await.is(200);
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

/// Regression test: a payment was verified for each input that did not match the schema, without limit.
#[tokio::test]
async fn payments_of_calls_that_do_not_run_count_as_refused() {
    let host = Host::builder().flag("--address-refused-payments", 2).start().await;
    let mut tool = js("moody", PRICE, MOODY);
    tool["inputSchema"] = json!({ "type": "object", "properties": { "mood": { "type": "string" } } });
    host.publish(&tool).await;
    let (payer, challenge) = (Payer::funded(&host, 1.0).await, host.challenge("moody").await);
    let (wrong, repeated) = (json!({ "mood": 1 }), payer.pay(&challenge));
    // A repeated payment is not verified again for some seconds.
    for payment in [&repeated, &repeated, &repeated, &payer.pay(&challenge)] {
        host.call_paid("moody", &wrong, payment).await.fails(422, "invalid_input", "caller");
    }
    let refused = host.call_paid("moody", &json!({}), &payer.pay(&challenge)).await;
    refused.fails(429, "rate_limited", "caller");
    assert!(refused.has("ratelimit").contains("refused-payments"), "{refused:?}");
    assert_eq!(host.balance(&payer.address).await, FUNDS);
}

/// Warnings were once only in `/health`, where operators had to look for them.
#[tokio::test]
async fn an_alarm_is_logged_once_when_it_begins() {
    let host = Host::builder().flag("--payer-failures", 0).flag("--tool-failures", 0).start().await;
    host.publish(&js("throws", 0.01, "export default () => { throw new Error('always'); };")).await;
    let credit = host.mint(5.0).await;
    for _ in 0..5 {
        let calls = (0..20).map(|_| async { host.call_credit("throws", &json!({}), &credit).await });
        futures_util::future::join_all(calls).await;
    }
    let warnings = host.get("/health").await.is(200).json()["unpaid"]["warnings"].clone();
    assert!(warnings[0].as_str().unwrap().contains("runs in the last minute were not paid for"), "{warnings}");
    const LOGGED: &str = "runs in the last minute were not paid for";
    eventually("the log says so", Duration::from_secs(20), async || host.log().contains(LOGGED).then_some(())).await;
    for _ in 0..20 {
        host.call_credit("throws", &json!({}), &credit).await;
    }
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(host.log().matches(LOGGED).count(), 1, "{}", host.log());
}
