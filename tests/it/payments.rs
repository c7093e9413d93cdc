//! Money: one payment buys at most one run and one answer, and only a success costs anything.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, Payer, Payment, eventually, js};

/// Price of the tools here, in dollars and micro-dollars.
const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;
const FUNDS: u64 = 1_000_000;

/// Counts its runs in kv and takes a moment, so that others come while it runs.
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

    // A fresh payment is a fresh run.
    let again = payer.pay(&host.challenge("count").await);
    assert_eq!(host.call_paid("count", &input, &again).await.is(200).json(), json!({ "runs": 2 }));
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
}
