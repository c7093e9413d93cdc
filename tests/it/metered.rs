//! Tools whose handlers set the price of a call.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    clients::pays_with,
    harness::{Host, Payer, js, micros},
};

/// Charges the amounts in its input. Returns the errors.
const METER: &str = "export default async ({ input }, ctx) => {
  const refused = [];
  for (const usd of input.charges ?? []) {
    try { await ctx.charge(usd); } catch (error) { refused.push(error.code ?? error.name); }
  }
  if (input.fails) throw new Error('no');
  return { refused };
};";

fn metered(slug: &str, price: f64, max: f64) -> Value {
    let mut tool = js(slug, price, METER);
    tool["maxPriceUsd"] = json!(max);
    tool
}

#[tokio::test]
async fn metered_call_costs_its_charge_and_the_receipt_has_the_maximum() {
    let host = Host::start().await;
    host.publish(&metered("meter", 0.01, 0.05)).await;
    let credit = host.mint(1.0).await;
    for (charges, cost) in [(json!([0.02]), 20_000), (json!(["0.05"]), 50_000), (json!([0.03, "0.000001"]), 1), (json!([]), 10_000)] {
        let before = host.credit_balance(&credit).await;
        let answer = host.call_credit("meter", &json!({ "charges": charges }), &credit).await.is(200);
        assert_eq!(host.credit_balance(&credit).await, before - cost, "{charges}");
        let receipt = host.receipt(&answer.receipt_id()).await;
        assert_eq!((micros(&receipt["priceUsd"]), &receipt["maxPriceUsd"]), (cost, &json!(0.05)), "{receipt}");
        host.verify_receipt(&receipt).unwrap();
    }
}

#[tokio::test]
async fn an_amount_that_cannot_be_is_refused_and_changes_nothing() {
    let host = Host::start().await;
    host.publish(&metered("meter", 0.0, 0.05)).await;
    host.publish(&js("fixed", 0.01, METER)).await;
    let credit = host.mint(1.0).await;
    let charges = json!([0.02, 0.050001, -1, "0.0000001", "1e-2", "", 1e-7, null, {}, true]);
    let answer = host.call_credit("meter", &json!({ "charges": charges }), &credit).await.is(200).json();
    let refused: Vec<_> = answer["refused"].as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
    assert_eq!(refused, [&["invalid_argument"; 6][..], &["TypeError"; 3]].concat());
    assert_eq!(host.credit_balance(&credit).await, 980_000);
    // A tool with a fixed price cannot charge.
    let answer = host.call_credit("fixed", &json!({ "charges": [0.005] }), &credit).await.is(200).json();
    assert_eq!(answer["refused"], json!(["invalid_argument"]));
    assert_eq!(host.credit_balance(&credit).await, 970_000);
}

#[tokio::test]
async fn free_metered_run_settles_nothing_and_failure_is_not_charged() {
    let host = Host::start().await;
    host.publish(&metered("meter", 0.0, 0.05)).await;
    let credit = host.mint(0.05).await;
    for charges in [json!([]), json!([0.03, 0])] {
        let answer = host.call_credit("meter", &json!({ "charges": charges }), &credit).await.is(200);
        let receipt = host.receipt(&answer.receipt_id()).await;
        assert_eq!(
            (&receipt["priceUsd"], &receipt["kind"], &receipt["maxPriceUsd"]),
            (&json!(0), &json!("free"), &json!(0.05)),
            "{receipt}"
        );
    }
    host.call_credit("meter", &json!({ "charges": [0.04], "fails": true }), &credit).await.is(502);
    assert_eq!(host.credit_balance(&credit).await, 50_000);
}

#[tokio::test]
async fn maximum_must_be_available_before_the_run() {
    let host = Host::start().await;
    host.publish(&metered("meter", 0.0, 0.05)).await;
    let credit = host.mint(0.049_999).await;
    let refused = host.call_credit("meter", &json!({ "charges": [0.01] }), &credit).await.fails(403, "insufficient_credit", "caller");
    assert!(refused.to_string().contains("0.05 USD"), "{refused}");
    assert_eq!(host.credit_balance(&credit).await, 49_999);
    host.call("meter", &json!({})).await.is(402);
    // The owner pays nothing, whatever the handler charges.
    let answer = host
        .send(host.request(Method::POST, "/tools/meter").header("x-admin-token", &host.admin).json(&json!({ "charges": [0.01] })))
        .await;
    assert_eq!(answer.is(200).json()["refused"], json!([]));
}

#[tokio::test]
async fn a_builder_sets_the_most_and_takes_it_away_again() {
    let host = Host::start().await;
    host.publish(&metered("meter", 0.0, 0.05)).await;
    let record = host.get("/tools/meter?inspect").await.is(200).json();
    let record = record.get("endpoint").unwrap_or(&record);
    assert_eq!((&record["maxPriceUsd"], &record["pricingMode"]), (&json!(0.05), &json!("metered_price_success_receipt")), "{record}");
    let refused = |tool: Value| {
        let host = &host;
        async move { host.manage(Method::POST, "/ai/endpoints/create", &tool).await.is(422).json()["error"].to_string() }
    };
    let answer = refused(metered("less", 0.06, 0.05)).await;
    assert!(answer.contains("/maxPriceUsd"), "{answer}");
    let fixed =
        json!({ "slug": "fixed-text", "title": "Fixed", "handlerType": "static_json", "handler": { "response": {} }, "maxPriceUsd": 0.05 });
    let answer = refused(fixed).await;
    assert!(answer.contains("/maxPriceUsd"), "{answer}");
    // If a fixed price is set again, the tool is like any other.
    let changed = host.change("meter", &json!({ "maxPriceUsd": 0, "priceUsd": 0.01 })).await;
    let changed = changed.get("endpoint").unwrap_or(&changed);
    assert_eq!((changed.get("maxPriceUsd"), &changed["pricingMode"]), (None, &json!("fixed_price_success_receipt")), "{changed}");
}

/// A standard client permits the maximum with x402's scheme `upto`, and pays the actual charge.
#[tokio::test]
async fn stock_payer_permits_the_maximum_and_pays_the_charge() {
    let host = Host::start().await;
    let source = "export default async ({ input }, ctx) => { await ctx.charge('0.0123'); return { echo: input }; };";
    let mut tool = js("shout", 0.0, source);
    tool["maxPriceUsd"] = json!(0.05);
    host.publish(&tool).await;
    let accepts = host.challenge("shout").await["accepts"].clone();
    assert_eq!((&accepts[0]["scheme"], &accepts[0]["amount"], &accepts[1]), (&json!("upto"), &json!("50000"), &Value::Null));
    assert_eq!(host.challenge_v1("shout").await["accepts"], json!([]), "its clients throw at other schemes");
    let payer = Payer::funded(&host, 1.0).await;
    let done = pays_with("node".as_ref(), "pay.mjs", &host, Some(&payer)).await;
    assert_eq!((&done["status"], &done["settlement"]["amount"]), (&json!(200), &json!("12300")), "{done}");
    assert_eq!(host.balance(&payer.address).await, 987_700);
    let receipt = host.receipt(done["receiptId"].as_str().unwrap()).await;
    assert_eq!((&receipt["scheme"], &receipt["amount"]), (&json!("upto"), &json!("12300")));
    assert_eq!((&receipt["priceUsd"], &receipt["maxPriceUsd"]), (&json!(0.0123), &json!(0.05)));
    host.verify_receipt(&receipt).unwrap();
}

/// A payment of the scheme `exact` would be taken entirely.
#[tokio::test]
async fn a_payment_of_the_scheme_exact_does_not_pay_for_it() {
    let host = Host::start().await;
    host.publish(&metered("meter", 0.0, 0.05)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("meter").await);
    assert_eq!(payment.payload["accepted"]["scheme"], "upto");
    host.call_paid("meter", &json!({ "charges": [0.01] }), &payment).await.is(402);
    assert_eq!(host.balance(&payer.address).await, 1_000_000);
}
