//! Tools that are charged before they run, on two hosts.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::Hosts;
use crate::harness::{Answer, Host, Payer, eventually, js, micros};

const LONG: Duration = Duration::from_secs(60);

/// Counts its runs. Each takes two seconds, and the first one fails.
const TOOL: &str = "export default async (req, ctx) => {
    const runs = 1 + (await ctx.kv.get('runs') ?? 0);
    await ctx.kv.set('runs', runs);
    await new Promise((done) => setTimeout(done, 2_000));
    if (runs === 1) throw new Error('not yet');
    return { runs };
};";

/// Publishes a tool at once: a host that is ready knows that the other one is of its version.
async fn publish(hosts: &Hosts) {
    let mut tool = js("order", 0.25, TOOL);
    (tool["settle"], tool["limits"]) = (json!("before"), json!({ "wallMs": 10_000 }));
    hosts.manage(0, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
}

/// Returns the error of a call that was charged before its run and failed.
#[track_caller]
fn paid_and_failed(answer: &Answer) -> Value {
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"], &error["charged"]), (502, &json!("paid_run_failed"), &json!(true)), "{answer:?}");
    assert_eq!(answer.decoded("payment-response")["success"], true);
    error
}

/// Regression test: each request that had joined at the other host began its own run, until the payment had no runs left.
#[tokio::test]
async fn request_that_joins_an_owed_run_at_the_other_host_uses_up_no_run() {
    let hosts = Hosts::start().await;
    publish(&hosts).await;
    let payer = Payer::new();
    let funds = hosts.request(0, Method::POST, "/dev/faucet").json(&json!({ "address": payer.address, "amountUsd": 5 }));
    Host::try_send(funds).await.unwrap().is(200);
    let payment = payer.pay(&hosts.call(0, "order").await.is(402).decoded("payment-required"));
    let send = async |at: usize| {
        let request = hosts.request(at, Method::POST, "/tools/order").header(payment.header, payment.encoded());
        Host::try_send(request.json(&json!({}))).await.unwrap()
    };
    let joins = async {
        eventually("the first host runs it", LONG, async || {
            let found = Host::try_send(hosts.request(1, Method::GET, &format!("/ai/payments/{}", payment.id()))).await.unwrap();
            (found.status == 200 && found.json()["payment"]["state"] == "owed").then_some(())
        })
        .await;
        tokio::join!(send(1), send(1))
    };
    let (one, (other, third)) = tokio::join!(send(0), joins);
    let errors = [&one, &other, &third].map(paid_and_failed);
    assert_eq!(errors[0]["cause"]["code"], "handler_failed", "its own caller gets the cause");
    for error in &errors {
        assert_eq!((&error["runsLeft"], &error["receiptId"]), (&json!(9), &errors[0]["receiptId"]), "{error}");
    }
    // The call is repeated at the host that had only joined.
    assert_eq!(send(1).await.is(200).json(), json!({ "runs": 2 }));
    assert_eq!(send(0).await.is(200).json(), json!({ "runs": 2 }));
    let balance = hosts.request(1, Method::GET, &format!("/dev/faucet?address={}", payer.address));
    assert_eq!(micros(&Host::try_send(balance).await.unwrap().is(200).json()["balanceUsd"]), 4_750_000);
    hosts.end().await;
}
