//! Settlements that do not go through: what is withheld, what may be tried again, and what nobody knows yet.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Facilitator, Host, PAY_TO, Payer, Settles, eventually, js};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

async fn with_facilitator(settles: Settles) -> (Host, Facilitator, Payer) {
    let facilitator = Facilitator::start(settles).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    (host, facilitator, Payer::new())
}

#[tokio::test]
async fn a_refused_settlement_withholds_the_output_and_may_be_tried_again() {
    let (host, facilitator, payer) = with_facilitator(Settles::Refused("insufficient_funds")).await;
    let payment = payer.pay(&host.challenge("echo").await);
    let answer = host.call_paid("echo", &json!({ "secret": 7 }), &payment).await.is(402);
    assert_eq!(answer.json()["error"], "insufficient_funds");
    assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
    let state = host.payment(&payment.id()).await.unwrap();
    assert_eq!((&state["state"], &state["reason"]), (&json!("refused"), &json!("insufficient_funds")));
    facilitator.tell(Settles::Well);
    let answer = host.call_paid("echo", &json!({ "secret": 7 }), &payment).await.is(200);
    assert_eq!(host.receipt(&answer.receipt_id()).await["simulated"], false);
}

#[tokio::test]
async fn a_settlement_that_is_refused_for_what_the_host_asks_is_the_hosts_fault() {
    let (host, facilitator, payer) = with_facilitator(Settles::Refused("invalid_network")).await;
    let payment = payer.pay(&host.challenge("echo").await);
    let answer = host.call_paid("echo", &json!({ "secret": 7 }), &payment).await;
    answer.fails(502, "facilitator_unavailable", "host");
    assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "refused");
    // It is unspent.
    facilitator.tell(Settles::Well);
    host.call_paid("echo", &json!({ "secret": 7 }), &payment).await.is(200);
}

#[tokio::test]
async fn an_unanswered_settlement_is_unknown_until_it_is_resolved() {
    let (host, facilitator, payer) = with_facilitator(Settles::Unanswered).await;
    let payment = payer.pay(&host.challenge("echo").await);
    let answer = host.call_paid("echo", &json!({ "secret": 7 }), &payment).await.is(502);
    let error = answer.json()["error"].clone();
    assert_eq!((&error["code"], &error["fault"], &error["charged"]), (&json!("settlement_unknown"), &json!("host"), &json!("unknown")));
    assert_eq!(error["paymentId"], payment.id());
    assert!(error["hint"].as_str().unwrap().contains(&format!("/ai/payments/{}", payment.id())));
    assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "settling");
    // Asking again does not run it again, and does not answer either.
    let again = host.call_paid("echo", &json!({ "secret": 7 }), &payment).await.is(502);
    assert_eq!(again.json()["error"]["code"], "settlement_unknown");

    facilitator.tell(Settles::Well);
    let state = eventually("the settlement is resolved", Duration::from_secs(20), || async {
        host.payment(&payment.id()).await.filter(|payment| payment["state"] != "settling")
    })
    .await;
    assert_eq!(state["state"], "settled");
    let asked = facilitator.asked();
    let answer = host.call_paid("echo", &json!({ "secret": 7 }), &payment).await.is(200);
    assert_eq!((answer.json(), answer.receipt_id()), (json!({ "echo": { "secret": 7 } }), state["receiptId"].as_str().unwrap().to_owned()));
    assert_eq!(facilitator.asked(), asked, "it was settled again");
}

#[tokio::test]
async fn a_facilitator_that_is_away_admits_nobody() {
    let host = Host::builder().settled_by("http://127.0.0.1:9").start().await;
    host.publish(&js("echo", 0.01, ECHO)).await;
    let payment = Payer::new().pay(&host.challenge("echo").await);
    host.call_paid("echo", &json!({}), &payment).await.fails(502, "facilitator_unavailable", "host");
    assert_eq!(host.payment(&payment.id()).await, None);
    // Play money is not to be had where money is real.
    host.post("/dev/faucet", &json!({ "address": PAY_TO, "amountUsd": 1 })).await.fails(404, "not_found", "caller");
}
