//! The payment id that a handler gets, so that it can recognize a repeated run.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, Payer, eventually, js, stream::Stream};

const PRICE: f64 = 0.01;

/// Returns the payment ids of all of its runs. The first runs are slow.
const NAMES: &str = "export default async (req, ctx) => {
    const names = [...((await ctx.kv.get('names')) ?? []), req.caller.paymentId ?? null];
    await ctx.kv.set('names', names);
    ctx.progress('begun');
    if (names.length <= (req.input.cut ?? 0)) await new Promise((done) => setTimeout(done, 50_000));
    return { names };
};";

#[tokio::test]
async fn a_run_that_a_crash_cut_off_and_the_one_after_it_are_reported_one_payment_id() {
    // Payments name the tool by its public address.
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").start().await;
    let mut tool = js("names", PRICE, NAMES);
    tool["limits"] = json!({ "wallMs": 60_000 });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("names").await);
    let input = json!({ "cut": 1 });
    let mut stream = Stream::open(host.paid_request("names", &input, &payment)).await;
    while stream.next().await.unwrap().data["message"] != "begun" {}
    // This durable write puts everything before it on disk too.
    host.mint(1.0).await;
    host.restart().await;
    let released = async || host.payment(&payment.id()).await.filter(|payment| payment["state"] == "released");
    eventually("nothing was taken", Duration::from_secs(20), released).await;
    let answer = host.call_paid("names", &input, &payment).await.is(200);
    assert_eq!(answer.json(), json!({ "names": [payment.id(), payment.id()] }), "it ran twice, for one payment");
    assert_eq!(answer.has("x-payment-id"), payment.id());
    assert_eq!(host.balance(&payer.address).await, 990_000);
    // The call has been charged, and does not run again.
    assert_eq!(host.call_paid("names", &input, &payment).await.is(200).body, answer.body);
}

/// A call on credit without a key has no record before its debit. Its caller must not conclude that nothing is charged.
#[tokio::test]
async fn host_without_a_record_does_not_claim_that_nothing_was_charged() {
    let host = Host::start().await;
    let mut tool = js("names", PRICE, NAMES);
    tool["limits"] = json!({ "wallMs": 60_000 });
    host.publish(&tool).await;
    let credit = host.mint(1.0).await;
    let request = host.request(Method::POST, "/tools/names").header("x-developer-credit", &credit).json(&json!({ "cut": 1 }));
    let mut stream = Stream::open(request).await;
    let accepted = loop {
        let event = stream.next().await.unwrap();
        if event.name == "accepted" {
            break event.data;
        }
    };
    let id = accepted["paymentId"].as_str().unwrap();
    let error = host.get(&format!("/ai/payments/{id}")).await.fails_unsure(404, "unknown_payment", "caller");
    assert!(error["hint"].as_str().unwrap().contains("GET /ai/credits"), "{error}");
}

#[tokio::test]
async fn each_way_to_pay_has_its_names() {
    let host = Host::start().await;
    host.publish(&js("names", PRICE, NAMES)).await;
    let credit = host.mint(1.0).await;
    let call = async |key: Option<&str>| {
        let mut request = host.request(Method::POST, "/tools/names").header("x-developer-credit", &credit).json(&json!({}));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = host.send(request).await.is(200);
        let reported = answer.json()["names"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(answer.has("x-payment-id"), reported.as_str().unwrap(), "the handler and the caller know it by one name");
        reported
    };
    let named = [call(None).await, call(None).await, call(Some("one")).await, call(Some("two")).await];
    for (position, name) in named.iter().enumerate() {
        assert!(name.as_str().unwrap().starts_with("pmt_") && !named[..position].contains(name), "{named:?}");
    }
    assert_eq!(call(Some("one")).await, named[2], "it is the same call");
    // The owner pays nothing.
    let own = host.manage(Method::POST, "/tools/names", &json!({})).await.is(200).json();
    assert_eq!(own["names"].as_array().unwrap().last(), Some(&Value::Null));
    host.change("names", &json!({ "priceUsd": 0 })).await;
    let free = host.call("names", &json!({})).await.is(200).json();
    assert_eq!(free["names"].as_array().unwrap().last(), Some(&Value::Null));
}
